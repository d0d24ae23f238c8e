"""The page: choose a row, see why, and try what else would do. Works as plain forms; htmx makes it live."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from email.message import Message

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from grace import __version__
from grace.errors import GraceError
from grace.explain.explanation import Explanation
from grace.pictures.report import TEMPLATES
from grace.schema.schema import Schema
from grace.schema.words import DEFAULT
from grace.text import languages
from grace.text.sentence import TextOptions
from grace.web import api
from grace.web.aims import USUAL_AIM
from grace.web.error_handlers import refusals
from grace.web.hosts import Hosts
from grace.web.middleware import MOST_BYTES, PICTURE_POLICY, CachedStaticFiles
from grace.web.rows import parse_table, read_row
from grace.web.service import Answer, Served
from grace.web.state import State, read_state
from grace.web.views import Pages

NO_FILE = "There is no such file; there are json, html, svg, png."


def preferred(accepted: str, schema: Schema) -> str:
    """The language that a browser asks for (RFC 9110, Accept-Language), if the schema has words in it; else the
    schema's own."""
    known = {schema.language, *schema.translations}
    for part in sorted(accepted.split(","), key=quality, reverse=True):
        code = part.partition(";")[0].strip().lower().partition("-")[0]
        if code in known and code in languages.names() and quality(part) > 0:
            return code
    return schema.language


def quality(part: str) -> float:
    """The weight of one of the languages that a browser asks for."""
    try:
        return float(part.partition("q=")[2].strip() or 1)
    except ValueError:
        return 0.0


def create_app(models: Sequence[Served], hosts: Hosts | None = None) -> FastAPI:
    """The page and the API of one or more models, under the names in `hosts`; any name if none are given."""
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
    app.mount("/static", CachedStaticFiles(packages=[("grace.web", "static")]))
    app.include_router(api.router(offered))
    look = TEMPLATES.get_template("look.css").render()

    @app.get("/health", summary="Whether the server answers, and for which models", responses=api.REFUSED_READING)
    async def health() -> api.Health:
        return api.Health(status="ok", models=list(offered), version=__version__)

    @app.get("/look.css", include_in_schema=False)
    def colours() -> Response:
        return Response(look, media_type="text/css")

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        pairs, state, errors = await pages.read(request)
        if not pairs:
            state = pages.switched(
                state, preferred(request.headers.get("accept-language", ""), offered[state.model].schema)
            )
        if not errors and (pairs or state.language) and pairs != pages.pairs(state):
            return RedirectResponse(pages.address(state), 303)
        return await pages.page(state, errors)

    @app.get("/answer", include_in_schema=False)
    async def answer(request: Request) -> Response:
        _, state, errors = await pages.read(request)
        parts = await pages.answer(state, errors, full=False)
        return pages.show("answer.html", parts, url=("HX-Push-Url", state))

    @app.get("/more", include_in_schema=False)
    async def more(request: Request) -> Response:
        _, state, errors = await pages.read(request)
        return pages.show("more.html", {**await pages.answer(state, errors, full=True), "late": True})

    @app.get("/moved", include_in_schema=False)
    async def moved(request: Request) -> Response:
        _, state, errors = await pages.read(request)
        return pages.show("moved.html", await pages.moved(state, errors), url=("HX-Replace-Url", state))

    @app.get("/download/why.{kind}", include_in_schema=False)
    async def file(kind: str, request: Request) -> Response:
        _, state, errors = await pages.read(request)
        if kind not in KINDS:
            raise HTTPException(404, NO_FILE)
        if errors:
            raise errors[0]
        if state.unfit is not None:
            raise state.unfit
        served = offered[state.model]
        found, _ = await pages.full(state)
        return await download(served, found, kind, state.saying)

    @app.post("/row", include_in_schema=False)
    async def own_row(request: Request) -> Response:
        sent = await sent_fields(request)
        served = offered.get(sent.get("model", ""), models[0])
        asked = sent.get("language", "")
        language = asked if asked in languages.names() and asked != served.schema.language else ""
        number = sent.get("number", "").strip() or "0"
        try:
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise GraceError("row {number!r}: give a whole number; 0 is the first", number=number)
            pasted = sent.get("file", "").strip() or sent.get("text", "")
            table = await asyncio.to_thread(parse_table, pasted, int(number))
            fill = served.schema.names if sent.get("impute") == "yes" else ()
            row, filled = await asyncio.to_thread(read_row, served.schema, table, fill)
        except GraceError as reason:
            state = replace(read_state([("model", served.name)], offered)[0], language=language)
            return await pages.page(state, [], wrong=reason, pasted=sent.get("text", ""))
        state = State(model=served.name, row=row, filled=filled, language=language)
        return RedirectResponse(pages.address(state), 303)

    @app.get("/api", include_in_schema=False)
    def described() -> Response:
        served = models[0]
        more = {"against": USUAL_AIM} if served.of_numbers else {"prove": True}
        body = json.dumps({"row": served.typical(), "max_features": 2, **more}, ensure_ascii=False, indent=1)
        parts = {"routes": api.described(app.openapi()), "shown": body, "served": served, **pages.common(DEFAULT)}
        return pages.show("api.html", parts)

    refusals(app, pages, hosts)
    return app


KINDS = {"json": "application/json", "html": "text/html", "svg": "image/svg+xml", "png": "image/png"}


async def download(served: Served, answer: Answer, kind: str, saying: TextOptions) -> Response:
    """The file in the language of `saying`; drawing a PNG takes its turn among the slow work. JSON has the words of the
    schema, which hold the translations, and the sentence."""
    e = answer.e if kind == "json" else answer.spoken(saying.get("language") or served.schema.language).e
    if kind == "png":
        content: str | bytes = await served.slow.run(lambda _: png(e))
    elif kind == "json":
        content = json.dumps({**e.to_dict(), "text": e.text(**saying)}, ensure_ascii=False, indent=1)
    else:
        content = e.to_html() if kind == "html" else e.to_svg()
    headers = {
        "Content-Disposition": f'attachment; filename="why.{kind}"',
        "Content-Security-Policy": PICTURE_POLICY,
    }
    return Response(content, media_type=KINDS[kind], headers=headers)


def png(e: Explanation) -> bytes:
    out = io.BytesIO()
    e.plot().savefig(out, format="png", dpi=200)
    return out.getvalue()


MOST_FIELDS = 20  # the page's own form has five and a file


async def sent_fields(request: Request) -> dict[str, str]:
    """The fields of a multipart form as text, a file like any other field."""
    kind = Message()
    kind["content-type"] = request.headers.get("content-type", "")
    if kind.get_content_type() != "multipart/form-data":
        raise HTTPException(415, "Send the row by the form on the page, or to /api/explain as JSON.")
    if (kind.get_content_charset() or "utf-8") != "utf-8":  # some of Python's decoders take the square of the length
        raise HTTPException(415, "Send the form in UTF-8.")
    fields: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=MOST_BYTES) as form:
        for name, value in form.multi_items():
            fields[name] = value if isinstance(value, str) else (await value.read()).decode("utf-8", "replace")
    return fields
