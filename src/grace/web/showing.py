"""What the page shows of a state: the answer, the row as moved, and the inputs around them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from grace import languages, text
from grace.errors import GraceError
from grace.explanation import Explanation
from grace.pictures.chances import cutoff_words
from grace.pictures.drawing import percent
from grace.pictures.one import question, reading, remaining
from grace.report import checks
from grace.web.cards import cards, would_be
from grace.web.rows import written
from grace.web.served import Answer, Served
from grace.web.state import ALL_STYLES, MOST_ANSWERS, State, read_state, usual_style

STYLE_WORDS = {
    "exact": "exact numbers",
    "magnitude": "about how much",
    "relative": "direction only",
    "auto": "as suits each number",
}
FORM_WORDS = {"had": "had it been otherwise", "because": "because", "typical": "beside what is typical"}
MOST_BARS = 5
MOST_ERRORS = 20  # that a page lists


class Pages:
    """The templates, filled in; everything that comes from data or people is escaped."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.models = models
        self.several = len(models) > 1
        loader = PackageLoader("grace.web", "templates")
        self.templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )

    async def read(self, request: Request) -> tuple[list[tuple[str, str]], State, list[str]]:
        """What the address asks for; it may be long, so that others are served meanwhile."""
        return await asyncio.to_thread(self._read, request.url.query)

    def _read(self, query: str) -> tuple[list[tuple[str, str]], State, list[str]]:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20_000)
        except ValueError:
            raise HTTPException(413, "The address has too many parts.") from None
        state, errors = read_state(pairs, self.models)
        return pairs, state, errors[:MOST_ERRORS]

    async def page(self, state: State, errors: list[str], wrong: str = "", pasted: str = "") -> Response:
        """The whole page. `wrong` says what is the matter with a row that was sent."""
        served = self.models[state.model]
        parts = await self.answer(state, errors, full=state.more)
        parts |= await self.moved(state, [])
        every = cards(served.schema, state, parts["e"])
        parts |= {
            "models": list(self.models),
            "first": [c for c in every if c.first],
            "others": [c for c in every if not c.first],
            "number": "" if state.example is None else str(state.example),
            "of": "" if state.of is None else str(state.of),
            "own": [] if state.example is not None else state.own(served.schema),
            "classes": [(str(c), word) for c, word in zip(served.classes, self.words(served), strict=True)],
            "against": "" if state.against is None else str(state.against),
            "most": state.most or served.most,
            "most_answers": MOST_ANSWERS,
            "styles": [(s, STYLE_WORDS[s]) for s in ALL_STYLES],
            "usual_style": usual_style(served.schema),
            "forms": [(f, FORM_WORDS[f]) for f in languages.FORMS],
            "languages": [(code, languages.load(code).NAME) for code in languages.names()],
            "own_language": served.schema.language,
            "wrong": wrong,
            "pasted": pasted,
            "sample": ",".join(served.schema.names[:3]),
        }
        return self.show("page.html", parts, 422 if errors or wrong else 200)

    async def answer(self, state: State, errors: list[str], *, full: bool) -> dict[str, Any]:
        """What the answer shows; the reason instead where there is none to be had."""
        served = self.models[state.model]
        parts: dict[str, Any] = {"state": state, "served": served, "errors": errors, "full": full, "e": None}
        parts |= {"query": self.query(state), "more": self.address(replace(state, more=True)), "late": False}
        try:
            if not full:
                return parts | self.said(state, await served.explain(state.question(served.schema)))
            plain = await served.explain(state.question(served.schema))
            answer, unproven = await self.full(state)
        except GraceError as reason:
            return parts | {"reason": str(reason)}
        smaller = answer.e.changes != plain.e.changes
        return parts | self.said(state, answer) | {"smaller": smaller, "unproven": unproven}

    async def full(self, state: State) -> tuple[Answer, str]:
        """The answer with a proof and further answers; of a model without proofs, why there is none."""
        served = self.models[state.model]
        try:
            return await served.explain(state.question(served.schema, full=True)), ""
        except GraceError as reason:
            return await served.explain(state.question(served.schema, full=True, prove=False)), str(reason)

    def said(self, state: State, answer: Answer) -> dict[str, Any]:
        """An answer in words and pictures."""
        e, schema = answer.e, self.models[state.model].schema
        code = state.language or schema.language
        backdrop = e.backdrop()
        keys = {f.name: f"f{j}" for j, f in enumerate(schema.features)}
        notes = [remaining(e), "Circles show what is, diamonds what would be." if e.success else ""]
        return {
            "e": e,
            "title": question(e),
            "sentence": e.text(**state.saying),
            "code": code,
            "columns": [column for column in answer.columns if column],
            "notes": [*text.notes(e, code)],
            "small": " ".join(n for n in [*notes, reading(e, backdrop)] if n),
            "alternatives": [(other.text(**state.saying), self.taken(state, other)) for other in e.alternatives],
            "taken": self.taken(state, e),
            "ways": self.ways(state, e),
            "would": {keys[name]: words for name, words in would_be(e).items()},
            "checked": checks(e),
            "smaller": False,
            "unproven": "",
            "reason": "",
        }

    def taken(self, state: State, e: Explanation) -> dict[str, Any]:
        """The row moved to the answer: its address, and the values by input."""
        schema = self.models[state.model].schema
        every = (*e.changes, *e.follow_on)
        address = self.address(replace(state, moved={c.name: c.new for c in every}, more=False))
        cells = {f"f{schema.index(c.name)}": written(c.feature, c.new) for c in every}
        return {"address": f"{address}#try-head", "cells": cells}

    def ways(self, state: State, e: Explanation) -> list[tuple[str, str]]:
        """What would help where there is no answer, as far as the page can ask for it: words and address."""
        out = []
        for way in () if e.miss is None else e.miss.get("ways", ()):
            if way["limit"] == "max_features":
                out.append((f"Allow {way['value']} changes", replace(state, most=way["value"])))
            elif way["limit"] == "against":
                out.append(("Ask about any other class", replace(state, against=None)))
            elif way["limit"] == "free":
                free = replace(state, frozen=(), up=(), down=(), low={}, high={}, never={})
                out.append(("Lift the limits on features", free))
        return [(words, self.address(there)) for words, there in dict(out).items()]

    async def moved(self, state: State, errors: list[str]) -> dict[str, Any]:
        """What the model says to the row as it is and as moved."""
        served = self.models[state.model]
        old, before = await served.predict(state.row)
        new, after = await served.predict(state.now) if state.moved else (old, before)
        words = self.words(served)
        shown = sorted(range(len(after)), key=lambda i: (-max(before[i], after[i]), i))[:MOST_BARS]
        return {
            "state": state,
            "moved_errors": errors,
            "bars": [(words[i], percent(after[i]), round(100 * after[i], 1), i == new) for i in sorted(shown)],
            "was": words[old],
            "was_sure": percent(before[old]) if before else "",
            "is": words[new],
            "sure": percent(after[new]) if after else "",
            "cutoff": cutoff_words(served.cutoffs, served.schema),
            "flipped": old != new,
            "back": self.address(replace(state, moved={}, more=False)),
            "count": len(state.moved),
        }

    def words(self, served: Served) -> list[str]:
        return [served.schema.class_word(c) for c in served.classes]

    def pairs(self, state: State) -> list[tuple[str, str]]:
        return state.pairs(self.models[state.model].schema, self.several)

    def query(self, state: State) -> str:
        return state.query(self.models[state.model].schema, self.several)

    def address(self, state: State) -> str:
        return f"/?{self.query(state)}"

    def show(
        self, name: str, parts: dict[str, Any], status: int = 200, url: tuple[str, State] | None = None
    ) -> HTMLResponse:
        wrong = parts.get("errors") or parts.get("moved_errors")
        headers = {} if url is None or wrong else {url[0]: self.address(url[1])}
        html = self.templates.get_template(name).render(**parts)
        return HTMLResponse(html.encode("utf-8", "replace"), status, headers)  # JSON may hold half a character
