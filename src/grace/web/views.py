"""Renders the page of a state: the answer, the changed row, and the form."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
from fastapi import HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from grace.errors import GraceError
from grace.explain.explanation import Explanation
from grace.pictures.drawing import percent
from grace.pictures.probabilities import cutoff_words
from grace.pictures.report import cell_text, checks, environment
from grace.pictures.single import picture_words, question, reading, remaining
from grace.problem.target_range import target_range_of
from grace.text import decisions, languages, sentence
from grace.text.vocabulary import class_caption, depth_inside, predicted, range_words, ranges
from grace.web.aims import DEFAULT_AIM, KINDS, read_aim
from grace.web.cards import cards, would_be
from grace.web.decision_views import MAX_FEATURES, SHOWN, alone_parts
from grace.web.messages import message
from grace.web.rows import format_cell, format_value, is_missing, plain_cell
from grace.web.service import BUDGET, Answer, Served
from grace.web.state import ALL_STYLES, MAX_ANSWERS, State, default_style, read_state

MAX_BARS = 5
MAX_ERRORS = 20


class Pages:
    """Renders templates; values are escaped."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.models = models
        self.several = len(models) > 1
        self.templates = environment("grace.web")
        self.templates.globals["format_value"] = format_value

    async def read(self, request: Request) -> tuple[list[tuple[str, str]], State, list[GraceError]]:
        """Parse the URL's query in a thread, as it may be long."""
        return await asyncio.to_thread(self._read, request.url.query)

    def _read(self, query: str) -> tuple[list[tuple[str, str]], State, list[GraceError]]:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20_000)
        except ValueError:
            raise HTTPException(413, "The address has too many parts.") from None
        state, errors = read_state(pairs, self.models)
        return pairs, state, errors[:MAX_ERRORS]

    def code_of(self, asked: str, model: str = "") -> str:
        """The requested language, else that of a model's schema (by default the first model's)."""
        if asked in languages.names():
            return asked
        return self.models.get(model, next(iter(self.models.values()))).schema.language

    def code(self, state: State) -> str:
        return state.language or self.models[state.model].schema.language

    def common(self, code: str) -> dict[str, Any]:
        """What every template needs: language code, vocabulary, and URL of the start page."""
        return {"code": code, "t": languages.load(code).PAGE, "home": f"/?{urlencode({'row': '0', 'language': code})}"}

    async def page(
        self, state: State, errors: list[GraceError], wrong: GraceError | None = None, pasted: str = ""
    ) -> Response:
        """The complete page; `wrong` is the error of a submitted row."""
        served, code = self.models[state.model], self.code(state)
        words = languages.load(code).PAGE
        parts = await self.answer(state, errors, full=state.more)
        parts |= await self.moved(state, [])
        if state.more:
            parts |= {**await self.alone(state), **await self.reasons(state), **await self.because(state)}
        features = [] if state.unfit is not None else cards(served.translated(code), state, parts["e"])
        other_languages = [c for c in languages.names() if c != code]
        parts |= {
            "models": [(name, f"/?{urlencode({'model': name, 'language': code})}") for name in self.models],
            "first": [c for c in features if c.first],
            "others": [c for c in features if not c.first],
            "number": "" if state.example is None else str(state.example),
            "count": sentence.number(Decimal(len(served.examples)), code),
            "extra": [] if state.example is None else self.extra(served, state.example),
            "of": "" if state.of is None else str(state.of),
            "own": self.hidden_fields(state),
            "classes": [(str(c), word) for c, word in zip(served.classes, self.words(served, code), strict=True)],
            "against": "" if state.against is None else str(state.against),
            "aim": read_aim(str(state.against or DEFAULT_AIM)) if served.is_regression else None,
            "aims": [(kind, words[kind]) for kind in KINDS],
            "max_features": state.max_features or served.max_features,
            "most_answers": MAX_ANSWERS,
            "styles": [(s, words[f"style_{s}"]) for s in ALL_STYLES],
            "default_style": default_style(served.schema),
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
        """The state in another language."""
        return replace(state, language="" if code == self.models[state.model].schema.language else code)

    def extra(self, served: Served, number: int) -> list[tuple[str, str]]:
        """The other columns of a row of the user's table."""
        cells = {str(name): plain_cell(served.extra[name].iloc[number]) for name in served.extra.columns}
        return [(name, "" if cell is None or cell != cell else str(cell)) for name, cell in cells.items()]

    def hidden_fields(self, state: State) -> list[tuple[str, str]]:
        """Hidden fields of the form that carry the row."""
        if state.example is None:
            return state.row_pairs(self.models[state.model].schema)
        return [("fill", name) for name in state.filled]

    async def answer(self, state: State, errors: list[GraceError], *, full: bool) -> dict[str, Any]:
        """The values of the answer's template; the reason if there is no answer."""
        served, code = self.models[state.model], self.code(state)
        parts: dict[str, Any] = {"state": state, "served": served, "full": full, "e": None, "unfit": None}
        parts |= {**self.common(code), "errors": [message(reason, code) for reason in errors]}
        parts |= {"query": self.query(state), "more": self.address(replace(state, more=True)), "late": False}
        if state.unfit is not None:
            return parts | self.unfit_parts(state, state.unfit)
        try:
            if not full:
                return parts | self.answer_parts(state, await served.explain(state.question(served)))
            plain = await served.explain(state.question(served))
            answer, unproven = await self.full(state)
        except GraceError as reason:
            return parts | {"reason": message(reason, code)}
        smaller = answer.e.changes != plain.e.changes
        unproven_text = None if unproven is None else message(unproven, code)
        return parts | self.answer_parts(state, answer) | {"smaller": smaller, "unproven": unproven_text}

    def unfit_parts(self, state: State, reason: GraceError) -> dict[str, Any]:
        """The values of a row that does not fit the model: the reason, its cells, and a link that imputes missing
        ones."""
        served, code = self.models[state.model], self.code(state)
        assert state.example is not None
        cells = served.raw_example(state.example)
        missing = tuple(f.name for f in served.schema.features if not f.gaps and is_missing(f, cells[f.name]))
        fill = self.address(replace(state, filled=missing, unfit=None)) if missing else ""
        shown = {f.name: None if is_missing(f, cells[f.name]) else cells[f.name] for f in served.schema.features}
        lines = [(name, cell_text(cell, code)) for name, cell in shown.items()]
        return {"unfit": message(reason, code), "cells": lines, "fill": fill, "reason": None}

    async def full(self, state: State) -> tuple[Answer, GraceError | None]:
        """The answer with proof and alternatives, and the error if the model allows no proofs."""
        served = self.models[state.model]
        try:
            return await served.explain(state.question(served, full=True)), None
        except GraceError as reason:
            return await served.explain(state.question(served, full=True, prove=False)), reason

    def answer_parts(self, state: State, answer: Answer) -> dict[str, Any]:
        """The values of an answer: texts, pictures, links."""
        code = self.code(state)
        translated = answer.translated(code)
        e = translated.e
        backdrop = e.backdrop()
        schema = self.models[state.model].schema
        keys = {f.name: f"f{j}" for j, f in enumerate(schema.features)}
        notes = [remaining(e), picture_words(e)["marks"] if e.success else ""]
        return {
            "e": e,
            "title": question(e),
            "sentence": e.text(**state.saying),
            "columns": [column for column in translated.columns if column],
            "notes": e.notes,
            "small": " ".join(n for n in [*notes, reading(e, backdrop)] if n),
            "alternatives": [(other.text(**state.saying), self.changed_to(state, other)) for other in e.alternatives],
            "taken": self.changed_to(state, e),
            "ways": self.remedies(state, e),
            "would": {keys[name]: words for name, words in would_be(e).items()},
            "checked": picture_words(e)["checked"].format(checks=checks(e)),
            "smaller": False,
            "unproven": None,
            "reason": None,
        }

    def changed_to(self, state: State, e: Explanation) -> dict[str, Any]:
        """The row changed to the answer: URL, and values by input."""
        schema = self.models[state.model].schema
        changes = (*e.changes, *e.follow_on)
        address = self.address(replace(state, moved={c.name: c.new for c in changes}, more=False))
        cells = {f"f{schema.index(c.name)}": format_cell(c.feature, c.new) for c in changes}
        return {"address": f"{address}#try-head", "cells": cells}

    async def alone(self, state: State) -> dict[str, Any]:
        """The values of what each feature does alone; none if there is no answer, which is said elsewhere."""
        served, code = self.models[state.model], self.code(state)
        parts: dict[str, Any] = {**self.common(code), "profile": None}
        try:
            if state.unfit is None:
                profile = await served.profile(state.question(served), forecasts=True)
                parts |= alone_parts(profile.in_language(code), served.schema)
        except GraceError as reason:
            parts["alone_error"] = message(reason, code)
        return parts

    async def reasons(self, state: State) -> dict[str, Any]:
        """The values of the reasons: text, and for each set with values a line and the row changed to it."""
        served, code = self.models[state.model], self.code(state)
        parts: dict[str, Any] = {**self.common(code), "reasons": None}
        try:
            if state.unfit is None:
                asked = state.question(served)
                found = (await served.reasons(asked, MAX_FEATURES, BUDGET, SHOWN)).in_language(code)
                moves = [self.changed_to(state, r.explanation) for r in found.shown if r.explanation is not None]
                lines = list(zip(decisions.reason_lines(found), moves, strict=True))
                title = languages.load(code).PICTURES["reasons_title"]
                parts["reasons"] = {"title": title, "text": found.text(), "lines": lines}
        except GraceError as reason:
            parts["reasons_error"] = message(reason, code)
        return parts

    async def because(self, state: State) -> dict[str, Any]:
        """The values of what suffices for the prediction; none for a model about which nothing can be proven."""
        served, code = self.models[state.model], self.code(state)
        parts: dict[str, Any] = {**self.common(code), "because": None}
        with suppress(GraceError):
            if state.unfit is None:
                found = await served.because(state.question(served), smallest=False, seconds=BUDGET)
                parts["because"] = found.text(language=code)
        return parts

    def remedies(self, state: State, e: Explanation) -> list[tuple[str, str]]:
        """Remedies for a missing answer that the page can ask for: text and URL."""
        words = languages.load(e.words.language).PAGE
        out = []
        for way in () if e.miss is None else e.miss.get("ways", ()):
            if way["limit"] == "max_features":
                out.append((words["allow_changes"].format(n=way["value"]), replace(state, max_features=way["value"])))
            elif way["limit"] == "against" and e.wanted is None:
                out.append((words["any_class"], replace(state, against=None)))
            elif way["limit"] == "free":
                free = replace(state, frozen=(), up=(), down=(), low={}, high={}, never={})
                out.append((words["lift_limits"], free))
        return [(text, self.address(relaxed)) for text, relaxed in dict(out).items()]

    async def moved(self, state: State, errors: list[GraceError]) -> dict[str, Any]:
        """The values of the predictions for the row and the changed row."""
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
        return parts | await (self.number(state) if served.is_regression else self.outcome(state))

    async def outcome(self, state: State) -> dict[str, Any]:
        """Predicted classes of the row and the changed row, with probabilities."""
        served, code = self.models[state.model], self.code(state)
        old, before = await served.predict(state.row)
        new, after = await served.predict(state.now) if state.moved else (old, before)
        words = self.words(served, code)
        shown = sorted(range(len(after)), key=lambda i: (-max(before[i], after[i]), i))[:MAX_BARS]
        return {
            "bars": [(words[i], percent(after[i]), round(100 * after[i], 1), i == new) for i in sorted(shown)],
            "was": words[old],
            "was_sure": percent(before[old]) if before else "",
            "is": words[new],
            "sure": percent(after[new]) if after else "",
            "cutoff": cutoff_words(served.cutoffs, served.translated(code)),
            "flipped": old != new,
        }

    async def number(self, state: State) -> dict[str, Any]:
        """Predicted numbers of the row and the changed row, and whether the target is reached."""
        served, language = self.models[state.model], languages.load(self.code(state))
        before = await served.number(state.row)
        after = await served.number(state.now) if state.moved else before
        try:
            (asked,) = ranges(target_range_of(str(state.against or DEFAULT_AIM)), np.array([before]), served.spread)
        except GraceError:  # shown beside the question
            asked = {"low": None, "high": None, "spread": served.spread}
        limited = asked["low"] is not None or asked["high"] is not None
        return {
            "was": predicted(before, asked, language),
            "is": predicted(after, asked, language),
            "asked": range_words(asked, language) if limited else "",
            "flipped": limited and bool(depth_inside(np.array([after]), asked)[0] >= 0),
        }

    def words(self, served: Served, code: str) -> list[str]:
        schema = served.translated(code)
        return [class_caption(schema, c) for c in served.classes]

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
        return HTMLResponse(html.encode("utf-8", "replace"), status, headers)  # JSON may hold lone surrogates
