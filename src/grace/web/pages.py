"""The page: choose a row, see why, and try what else would do. Works as plain forms; htmx makes it live."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException as Refusal

from grace import __version__, languages, text
from grace.errors import GraceError
from grace.explanation import Explanation
from grace.pictures import STYLE
from grace.pictures.drawing import percent
from grace.pictures.one import question, reading, remaining
from grace.report import LOOK, checks
from grace.web import api
from grace.web.cards import cards
from grace.web.downloads import KINDS, download
from grace.web.guard import HEADERS, Limited, guard
from grace.web.rows import parse_table, read_row, written
from grace.web.sending import sent_row
from grace.web.served import Answer, BusyError, Served
from grace.web.state import ALL_STYLES, MOST_ANSWERS, State, read_state, usual_style

LANGUAGES = {"en": "English", "de": "Deutsch"}
STYLE_WORDS = {
    "exact": "exact numbers",
    "magnitude": "about how much",
    "relative": "direction only",
    "auto": "as suits each number",
}
FORM_WORDS = {"had": "had it been otherwise", "because": "because", "typical": "beside what is typical"}
MOST_BARS = 5
MOST_STEPS = 6  # classes with a button of their own that goes to their next row
BUSY = "Too many questions are waiting. Try again in a moment."
BROKEN = "Something went wrong here. The server's log says what."


def create_app(models: Sequence[Served]) -> FastAPI:
    """The page and the API of one or more models."""
    if not models:
        raise GraceError("there is no model to serve; give a directory, or --demo")
    offered = {m.name: m for m in models}
    pages = Pages(offered)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        for served in models:
            served.close()

    app = FastAPI(title="GRACE", version=__version__, docs_url=None, redoc_url=None, lifespan=life)
    app.mount("/static", StaticFiles(packages=[("grace.web", "static")]))
    app.include_router(api.router(offered))
    look = STYLE + LOOK

    @app.get("/look.css", include_in_schema=False)
    def colours() -> Response:
        return Response(look, media_type="text/css")

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        pairs, state, errors = pages.read(request)
        if pairs and not errors and pairs != state.pairs(pages.several):
            return RedirectResponse(f"/?{state.query(pages.several)}", 303)
        return await pages.page(state, errors)

    @app.get("/answer", include_in_schema=False)
    async def answer(request: Request) -> Response:
        _, state, errors = pages.read(request)
        parts = await pages.answer(state, errors, full=False)
        return pages.show("answer.html", parts, url=("HX-Push-Url", state))

    @app.get("/more", include_in_schema=False)
    async def more(request: Request) -> Response:
        _, state, errors = pages.read(request)
        return pages.show("more.html", {**await pages.answer(state, errors, full=True), "late": True})

    @app.get("/moved", include_in_schema=False)
    async def moved(request: Request) -> Response:
        _, state, errors = pages.read(request)
        return pages.show("moved.html", await pages.moved(state, errors), url=("HX-Replace-Url", state))

    @app.get("/download/why.{kind}", include_in_schema=False)
    async def file(kind: str, request: Request) -> Response:
        _, state, errors = pages.read(request)
        if kind not in KINDS:
            raise HTTPException(404, f"There is no such file; there are {', '.join(KINDS)}.")
        if errors:
            raise GraceError(errors[0])
        served = offered[state.model]
        found, _ = await pages.full(state)
        return await download(served, found, kind, state.saying)

    @app.post("/row", include_in_schema=False)
    async def row(request: Request) -> Response:
        sent = await sent_row(request)
        served = offered.get(sent.get("model", ""), models[0])
        number = sent.get("number", "").strip() or "1"
        try:
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise GraceError(f"row {number!r}: give a whole number; 1 is the first")
            table = parse_table(sent.get("file", "").strip() or sent.get("text", ""), int(number))
            found = read_row(served.schema, table, impute=sent.get("impute") == "yes")
        except GraceError as reason:
            state = read_state([("model", served.name)], offered)[0]
            return await pages.page(state, [], wrong=str(reason), pasted=sent.get("text", ""))
        state = State(model=served.name, row=found)
        return RedirectResponse(f"/?{state.query(pages.several)}", 303)

    @app.get("/api", include_in_schema=False)
    def described() -> Response:
        served = models[0]
        body = json.dumps({"row": served.example(1), "max_features": 2, "prove": True}, ensure_ascii=False, indent=1)
        return pages.show("api.html", {"routes": api.described(app.openapi()), "shown": body, "served": served})

    guard(app, HEADERS)
    app.add_middleware(Limited)
    refusals(app, pages)
    return app


def refusals(app: FastAPI, pages: Pages) -> None:
    """Whatever goes wrong is said in a sentence: to the API as JSON, to the page as a paragraph."""

    def refuse(request: Request, message: str, status: int) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": message}, status)
        part = "HX-Request" in request.headers
        return pages.show("wrong.html" if part else "message.html", {"message": message}, status)

    @app.exception_handler(GraceError)
    def wrong(request: Request, reason: Exception) -> Response:
        return refuse(request, str(reason), 422)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, RequestValidationError)
        return refuse(request, api.said(reason), 422)

    @app.exception_handler(BusyError)
    def busy(request: Request, reason: Exception) -> Response:
        return refuse(request, BUSY, 503)

    @app.exception_handler(Refusal)
    def refused(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, Refusal)
        words = {404: "There is no such page.", 405: "This address cannot be used like that."}
        own = isinstance(reason, HTTPException) or reason.status_code not in words
        return refuse(request, str(reason.detail) if own else words[reason.status_code], reason.status_code)

    @app.exception_handler(Exception)
    def broken(request: Request, reason: Exception) -> Response:
        response = refuse(request, BROKEN, 500)
        response.headers.update(HEADERS)  # this one is made outside the guard
        return response


class Pages:
    """The templates, filled in; everything that comes from data or people is escaped."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.models = models
        self.several = len(models) > 1
        loader = PackageLoader("grace.web", "templates")
        self.templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )

    def read(self, request: Request) -> tuple[list[tuple[str, str]], State, list[str]]:
        try:
            pairs = parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=20_000)
        except ValueError:
            raise HTTPException(413, "The address has too many parts.") from None
        return pairs, *read_state(pairs, self.models)

    async def page(self, state: State, errors: list[str], wrong: str = "", pasted: str = "") -> Response:
        """The whole page. `wrong` says what is the matter with a row that was sent."""
        served = self.models[state.model]
        parts = await self.answer(state, errors, full=state.more)
        parts |= await self.moved(state, errors)
        every = cards(served.schema, state, parts["e"])
        parts |= {
            "models": list(self.models),
            "first": [c for c in every if c.first],
            "others": [c for c in every if not c.first],
            "number": "" if state.example is None else str(state.example),
            "steps": [(i, word) for i, word in enumerate(self.words(served))][:MOST_STEPS],
            "own": [] if state.example is not None else [(n, written(v)) for n, v in state.row.items()],
            "classes": [(str(c), word) for c, word in zip(served.classes, self.words(served), strict=True)],
            "against": "" if state.against is None else str(state.against),
            "most": state.most or served.settings.max_features,
            "most_answers": MOST_ANSWERS,
            "styles": [(s, STYLE_WORDS[s]) for s in ALL_STYLES],
            "usual_style": usual_style(served.schema),
            "forms": [(f, FORM_WORDS[f]) for f in languages.FORMS],
            "languages": [(code, LANGUAGES.get(code, code)) for code in languages.names()],
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
        parts |= {"query": state.query(self.several), "more": self.address(replace(state, more=True)), "late": False}
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
            "would": {keys[c.name]: text.value(c.feature, c.new) for c in e.changes},
            "checked": checks(e),
            "smaller": False,
            "unproven": "",
            "reason": "",
        }

    def taken(self, state: State, e: Explanation) -> dict[str, Any]:
        """The row moved to the answer: its address, and the values by input."""
        schema = self.models[state.model].schema
        address = self.address(replace(state, moved={c.name: c.new for c in e.changes}, more=False))
        values = {f"f{schema.index(c.name)}": written(c.new) for c in e.changes}
        return {"address": f"{address}#try-head", "values": values}

    async def moved(self, state: State, errors: list[str]) -> dict[str, Any]:
        """What the model says to the row as it is and as moved."""
        served = self.models[state.model]
        before = await served.predict(state.row)
        after = await served.predict(state.now) if state.moved else before
        words = self.words(served)
        shown = sorted(range(len(words)), key=lambda i: (-max(before[i], after[i]), i))[:MOST_BARS]
        old, new = (max(range(len(words)), key=p.__getitem__) for p in (before, after))
        return {
            "state": state,
            "errors": errors,
            "bars": [(words[i], percent(after[i]), round(100 * after[i], 1), i == new) for i in sorted(shown)],
            "was": words[old],
            "was_sure": percent(before[old]),
            "is": words[new],
            "sure": percent(after[new]),
            "flipped": old != new,
            "back": self.address(replace(state, moved={}, more=False)),
            "count": len(state.moved),
        }

    def words(self, served: Served) -> list[str]:
        return [served.schema.class_word(c) for c in served.classes]

    def address(self, state: State) -> str:
        return f"/?{state.query(self.several)}"

    def show(
        self, name: str, parts: dict[str, Any], status: int = 200, url: tuple[str, State] | None = None
    ) -> HTMLResponse:
        headers = {} if url is None or parts.get("errors") else {url[0]: self.address(url[1])}
        return HTMLResponse(self.templates.get_template(name).render(**parts), status, headers)
