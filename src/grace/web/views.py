"""What the page shows of a state: the answer, the row as moved, and the inputs around them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
from fastapi import HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from grace.errors import GraceError
from grace.explain.explanation import Explanation
from grace.pictures.drawing import percent
from grace.pictures.html import environment
from grace.pictures.probabilities import cutoff_words
from grace.pictures.report import cell_text, checks
from grace.pictures.single import question, reading, remaining, words_of
from grace.problem.target_range import target_range_of
from grace.schema.words import DEFAULT
from grace.text import languages, sentence
from grace.text.languages import load
from grace.text.vocabulary import class_caption, depth_inside, predicted, range_words, ranges
from grace.web.aims import KINDS, USUAL_AIM, read_aim
from grace.web.cards import cards, would_be
from grace.web.rows import is_missing, plainly, sent, written
from grace.web.service import Answer, Served
from grace.web.state import ALL_STYLES, MOST_ANSWERS, State, read_state, usual_style

MOST_BARS = 5
MOST_ERRORS = 20  # that a page lists


class Pages:
    """The templates, filled in; everything that comes from data or people is escaped."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.models = models
        self.several = len(models) > 1
        self.templates = environment("grace.web")
        self.templates.globals["plainly"] = plainly

    async def read(self, request: Request) -> tuple[list[tuple[str, str]], State, list[GraceError]]:
        """What the address asks for; it may be long, so that others are served meanwhile."""
        return await asyncio.to_thread(self._read, request.url.query)

    def _read(self, query: str) -> tuple[list[tuple[str, str]], State, list[GraceError]]:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20_000)
        except ValueError:
            raise HTTPException(413, "The address has too many parts.") from None
        state, errors = read_state(pairs, self.models)
        return pairs, state, errors[:MOST_ERRORS]

    def code_of(self, asked: str, model: str = "") -> str:
        """The language that was asked for; else that of a model's schema, by default the first one's."""
        if asked in languages.names():
            return asked
        return self.models.get(model, next(iter(self.models.values()))).schema.language

    def code(self, state: State) -> str:
        return state.language or self.models[state.model].schema.language

    def common(self, code: str) -> dict[str, Any]:
        """What every page needs: its language, its words, and where it begins."""
        return {"code": code, "t": languages.load(code).PAGE, "home": f"/?{urlencode({'row': '0', 'language': code})}"}

    async def page(
        self, state: State, errors: list[GraceError], wrong: GraceError | None = None, pasted: str = ""
    ) -> Response:
        """The whole page. `wrong` says what is the matter with a row that was sent."""
        served, code = self.models[state.model], self.code(state)
        words = languages.load(code).PAGE
        parts = await self.answer(state, errors, full=state.more)
        parts |= await self.moved(state, [])
        every = [] if state.unfit is not None else cards(served.spoken(code), state, parts["e"])
        other_languages = [c for c in languages.names() if c != code]
        parts |= {
            "models": [(name, f"/?{urlencode({'model': name, 'language': code})}") for name in self.models],
            "first": [c for c in every if c.first],
            "others": [c for c in every if not c.first],
            "number": "" if state.example is None else str(state.example),
            "count": sentence.number(Decimal(len(served.examples)), code),
            "extra": [] if state.example is None else self.extra(served, state.example),
            "of": "" if state.of is None else str(state.of),
            "own": self.kept(state),
            "classes": [(str(c), word) for c, word in zip(served.classes, self.words(served, code), strict=True)],
            "against": "" if state.against is None else str(state.against),
            "aim": read_aim(str(state.against or USUAL_AIM)) if served.of_numbers else None,
            "aims": [(kind, words[kind]) for kind in KINDS],
            "most": state.most or served.most,
            "most_answers": MOST_ANSWERS,
            "styles": [(s, words[f"style_{s}"]) for s in ALL_STYLES],
            "usual_style": usual_style(served.schema),
            "forms": [(f, words[f"form_{f}"]) for f in languages.FORMS],
            "languages": [(c, languages.load(c).NAME) for c in languages.names()],
            "switches": [(c, languages.load(c).NAME, self.address(self.switched(state, c))) for c in other_languages],
            "note": words.get(served.note, served.note) if state.example == 0 else "",
            "wrong": None if wrong is None else message(wrong, code),
            "pasted": pasted,
            "sample": ",".join(served.schema.names[:3]),
        }
        return self.show("page.html", parts, 422 if errors or wrong else 200)

    def switched(self, state: State, code: str) -> State:
        """The same in another language."""
        return replace(state, language="" if code == self.models[state.model].schema.language else code)

    def extra(self, served: Served, number: int) -> list[tuple[str, str]]:
        """The other columns of a row of the user's table."""
        cells = {str(name): sent(served.extra[name].iloc[number]) for name in served.extra.columns}
        return [(name, "" if cell is None or cell != cell else str(cell)) for name, cell in cells.items()]

    def kept(self, state: State) -> list[tuple[str, str]]:
        """What the form has to send along of the row."""
        if state.example is None:
            return state.own(self.models[state.model].schema)
        return [("fill", name) for name in state.filled]

    async def answer(self, state: State, errors: list[GraceError], *, full: bool) -> dict[str, Any]:
        """What the answer shows; the reason instead where there is none to be had."""
        served, code = self.models[state.model], self.code(state)
        parts: dict[str, Any] = {"state": state, "served": served, "full": full, "e": None, "unfit": None}
        parts |= {**self.common(code), "errors": [message(reason, code) for reason in errors]}
        parts |= {"query": self.query(state), "more": self.address(replace(state, more=True)), "late": False}
        if state.unfit is not None:
            return parts | self.misfit(state, state.unfit)
        try:
            if not full:
                return parts | self.said(state, await served.explain(state.question(served)))
            plain = await served.explain(state.question(served))
            answer, unproven = await self.full(state)
        except GraceError as reason:
            return parts | {"reason": message(reason, code)}
        smaller = answer.e.changes != plain.e.changes
        unproven_said = None if unproven is None else message(unproven, code)
        return parts | self.said(state, answer) | {"smaller": smaller, "unproven": unproven_said}

    def misfit(self, state: State, reason: GraceError) -> dict[str, Any]:
        """A row of the user's table that does not fit the model: why, its cells, and what fills the missing ones."""
        served, code = self.models[state.model], self.code(state)
        assert state.example is not None
        cells = served.sent(state.example)
        missing = tuple(f.name for f in served.schema.features if not f.gaps and is_missing(f, cells[f.name]))
        fill = self.address(replace(state, filled=missing, unfit=None)) if missing else ""
        shown = {f.name: None if is_missing(f, cells[f.name]) else cells[f.name] for f in served.schema.features}
        lines = [(name, cell_text(cell, code)) for name, cell in shown.items()]
        return {"unfit": message(reason, code), "cells": lines, "fill": fill, "reason": None}

    async def full(self, state: State) -> tuple[Answer, GraceError | None]:
        """The answer with a proof and further answers; of a model without proofs, why there is none."""
        served = self.models[state.model]
        try:
            return await served.explain(state.question(served, full=True)), None
        except GraceError as reason:
            return await served.explain(state.question(served, full=True, prove=False)), reason

    def said(self, state: State, answer: Answer) -> dict[str, Any]:
        """An answer in words and pictures."""
        code = self.code(state)
        spoken = answer.spoken(code)
        e = spoken.e
        backdrop = e.backdrop()
        schema = self.models[state.model].schema
        keys = {f.name: f"f{j}" for j, f in enumerate(schema.features)}
        notes = [remaining(e), words_of(e)["marks"] if e.success else ""]
        return {
            "e": e,
            "title": question(e),
            "sentence": e.text(**state.saying),
            "columns": [column for column in spoken.columns if column],
            "notes": e.notes,
            "small": " ".join(n for n in [*notes, reading(e, backdrop)] if n),
            "alternatives": [(other.text(**state.saying), self.taken(state, other)) for other in e.alternatives],
            "taken": self.taken(state, e),
            "ways": self.ways(state, e),
            "would": {keys[name]: words for name, words in would_be(e).items()},
            "checked": words_of(e)["checked"].format(checks=checks(e)),
            "smaller": False,
            "unproven": None,
            "reason": None,
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
        words = languages.load(e.words.language).PAGE
        out = []
        for way in () if e.miss is None else e.miss.get("ways", ()):
            if way["limit"] == "max_features":
                out.append((words["allow_changes"].format(n=way["value"]), replace(state, most=way["value"])))
            elif way["limit"] == "against" and e.wanted is None:
                out.append((words["any_class"], replace(state, against=None)))
            elif way["limit"] == "free":
                free = replace(state, frozen=(), up=(), down=(), low={}, high={}, never={})
                out.append((words["lift_limits"], free))
        return [(said, self.address(there)) for said, there in dict(out).items()]

    async def moved(self, state: State, errors: list[GraceError]) -> dict[str, Any]:
        """What the model says to the row as it is and as moved."""
        served, code = self.models[state.model], self.code(state)
        parts = {
            **self.common(code),
            "state": state,
            "served": served,
            "moved_errors": [message(reason, code) for reason in errors],
            "back": self.address(replace(state, moved={}, more=False)),
            "moves": len(state.moved),
            "unfit": None if state.unfit is None else message(state.unfit, code),
        }
        if state.unfit is not None:
            return parts
        return parts | await (self.number(state) if served.of_numbers else self.outcome(state))

    async def outcome(self, state: State) -> dict[str, Any]:
        """The class of the row as it is and as moved, with probabilities."""
        served, code = self.models[state.model], self.code(state)
        old, before = await served.predict(state.row)
        new, after = await served.predict(state.now) if state.moved else (old, before)
        words = self.words(served, code)
        shown = sorted(range(len(after)), key=lambda i: (-max(before[i], after[i]), i))[:MOST_BARS]
        return {
            "bars": [(words[i], percent(after[i]), round(100 * after[i], 1), i == new) for i in sorted(shown)],
            "was": words[old],
            "was_sure": percent(before[old]) if before else "",
            "is": words[new],
            "sure": percent(after[new]) if after else "",
            "cutoff": cutoff_words(served.cutoffs, served.spoken(code)),
            "flipped": old != new,
        }

    async def number(self, state: State) -> dict[str, Any]:
        """The number predicted for the row as it is and as moved, and whether it is what was asked for."""
        served, language = self.models[state.model], languages.load(self.code(state))
        before = await served.number(state.row)
        after = await served.number(state.now) if state.moved else before
        try:
            (asked,) = ranges(target_range_of(str(state.against or USUAL_AIM)), np.array([before]), served.spread)
        except GraceError:  # said beside the question
            asked = {"low": None, "high": None, "spread": served.spread}
        limited = asked["low"] is not None or asked["high"] is not None
        return {
            "was": predicted(before, asked, language),
            "is": predicted(after, asked, language),
            "asked": range_words(asked, language) if limited else "",
            "flipped": limited and bool(depth_inside(np.array([after]), asked)[0] >= 0),
        }

    def words(self, served: Served, code: str) -> list[str]:
        schema = served.spoken(code)
        return [class_caption(schema, c) for c in served.classes]

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


@dataclass(frozen=True)
class Message:
    """A text and its language; where that is not the page's, a `lead` in the page's says so."""

    text: str
    code: str
    lead: str = ""


def message(reason: GraceError, code: str) -> Message:
    """An error by the catalogue of a language; as the program says it where it has no translation."""
    language = load(code)
    found = reason.translated(language.ERRORS)
    if found is not None or code == DEFAULT:
        return Message(found or str(reason), code)
    return Message(str(reason), DEFAULT, language.PAGE["in_english"])
