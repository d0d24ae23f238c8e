"""The FastAPI app: page, downloads, JSON API and error handlers. The page works as plain forms; htmx updates parts of
it.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from email.message import Message

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from grace import __version__
from grace.errors import GraceError
from grace.explain.explanation import Explanation
from grace.pictures.report import TEMPLATES
from grace.schema.schema import Schema
from grace.schema.words import DEFAULT
from grace.text import languages
from grace.text.sentence import TextOptions
from grace.web import api
from grace.web.aims import DEFAULT_AIM
from grace.web.decision_views import MAX_FEATURES, SHOWN
from grace.web.hosts import Hosts
from grace.web.messages import message
from grace.web.middleware import HEADERS, MAX_BYTES, PICTURE_POLICY, CachedStaticFiles, Guard, allowed_methods
from grace.web.queues import MAX_PER_CLIENT, ClientLimitError, QueueFullError
from grace.web.rows import parse_table, read_row
from grace.web.service import BUDGET, Answer, RowQuestion, Served
from grace.web.state import State, read_state
from grace.web.views import Pages

BUSY = "Too many questions are waiting. Try again in a moment."
OVER_LIMIT = f"{MAX_PER_CLIENT} questions of yours are waiting already. Wait for some of their answers, then ask again."
BROKEN = "Something went wrong here. The server's log says what."
RETRY = {"Retry-After": "5"}
NO_FILE = "There is no such file; there are json, html, svg, png."


def preferred(accepted: str, schema: Schema) -> str:
    """The language with the highest weight in Accept-Language (RFC 9110) that the schema has words in; else the
    schema's own."""
    known = {schema.language, *schema.translations}
    for part in sorted(accepted.split(","), key=quality, reverse=True):
        code = part.partition(";")[0].strip().lower().partition("-")[0]
        if code in known and code in languages.names() and quality(part) > 0:
            return code
    return schema.language


def quality(part: str) -> float:
    """The weight (q value) of a part of Accept-Language."""
    try:
        return float(part.partition("q=")[2].strip() or 1)
    except ValueError:
        return 0.0


def create_app(models: Sequence[Served], hosts: Hosts | None = None) -> FastAPI:
    """The app of one or more models; it answers to any host name unless `hosts` is given."""
    if not models:
        raise GraceError("there is no model to serve; give a directory, or --demo")
    offered = {m.name: m for m in models}
    pages = Pages(offered)

    @asynccontextmanager
    async def close_workers(app: FastAPI) -> AsyncIterator[None]:
        yield
        for served in models:
            served.close()

    app = FastAPI(title="GRACE", version=__version__, docs_url=None, redoc_url=None, lifespan=close_workers)
    app.mount("/static", CachedStaticFiles(packages=[("grace.web", "static")]))
    app.include_router(api.router(offered))
    stylesheet = TEMPLATES.get_template("look.css").render()

    @app.get("/health", summary="Whether the server answers, and for which models", responses=api.GET_ERRORS)
    async def health() -> api.Health:
        return api.Health(status="ok", models=list(offered), version=__version__)

    @app.get("/look.css", include_in_schema=False)
    def colours() -> Response:
        return Response(stylesheet, media_type="text/css")

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        pairs, state, errors = await pages.read(request)
        if not pairs:
            state = pages.switched(
                state, preferred(request.headers.get("accept-language", ""), offered[state.model].schema)
            )
        if (
            not errors
            and (pairs or state.language)
            and pairs != state.pairs(offered[state.model].schema, pages.several)
        ):
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

    @app.get("/alone", include_in_schema=False)
    async def alone(request: Request) -> Response:
        _, state, _ = await pages.read(request)
        return pages.show("alone.html", await pages.alone(state))

    @app.get("/reasons", include_in_schema=False)
    async def reasons(request: Request) -> Response:
        _, state, _ = await pages.read(request)
        return pages.show("reasons.html", await pages.reasons(state))

    @app.get("/because", include_in_schema=False)
    async def because(request: Request) -> Response:
        _, state, _ = await pages.read(request)
        return pages.show("because.html", await pages.because(state))

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
        return await download(served, found, kind, state.saying, state.question(served))

    @app.post("/row", include_in_schema=False)
    async def submit_row(request: Request) -> Response:
        fields = await form_fields(request)
        served = offered.get(fields.get("model", ""), models[0])
        requested = fields.get("language", "")
        language = requested if requested in languages.names() and requested != served.schema.language else ""
        number = fields.get("number", "").strip() or "0"
        try:
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise GraceError("row {number!r}: give a whole number; 0 is the first", number=number)
            pasted = fields.get("file", "").strip() or fields.get("text", "")
            table = await asyncio.to_thread(parse_table, pasted, int(number))
            fill = served.schema.names if fields.get("impute") == "yes" else ()
            row, filled = await asyncio.to_thread(read_row, served.schema, table, fill)
        except GraceError as reason:
            state = replace(read_state([("model", served.name)], offered)[0], language=language)
            return await pages.page(state, [], wrong=reason, pasted=fields.get("text", ""))
        state = State(model=served.name, row=row, filled=filled, language=language)
        return RedirectResponse(pages.address(state), 303)

    @app.get("/api", include_in_schema=False)
    def api_page() -> Response:
        served = models[0]
        more = {"against": DEFAULT_AIM} if served.is_regression else {"prove": True}
        body = json.dumps({"row": served.typical(), "max_features": 2, **more}, ensure_ascii=False, indent=1)
        parts = {"routes": api.route_table(app.openapi()), "shown": body, "served": served, **pages.common(DEFAULT)}
        return pages.show("api.html", parts)

    add_error_handlers(app, pages, hosts)
    return app


def add_error_handlers(app: FastAPI, pages: Pages, hosts: Hosts | None) -> None:
    """Add the middleware and the exception handlers: JSON for the API, HTML for the page."""

    def refuse(
        request: Request, reason: str | GraceError, status: int, headers: dict[str, str] | None = None
    ) -> Response:
        error = GraceError(reason) if isinstance(reason, str) else reason
        if request.url.path.startswith("/api/") or request.url.path == "/health":
            text = str(error).encode("utf-8", "replace").decode()  # JSON may hold lone surrogates
            return JSONResponse({"error": text}, status, headers)
        part = "HX-Request" in request.headers
        code = pages.code_of(*(request.query_params.get(key, "") for key in ("language", "model")))
        parts = {**pages.common(code), "message": message(error, code)}
        response = pages.show("wrong.html" if part else "message.html", parts, status)
        response.headers.update(headers or {})
        return response

    app.add_middleware(Guard, refuse=refuse, hosts=hosts, cancel_on_disconnect=True)

    @app.exception_handler(GraceError)
    def wrong(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, GraceError)
        return refuse(request, reason, 422)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, RequestValidationError)
        return refuse(request, api.validation_message(reason), 422)

    @app.exception_handler(QueueFullError)
    @app.exception_handler(ClientLimitError)
    def busy(request: Request, reason: Exception) -> Response:
        message, status = (BUSY, 503) if isinstance(reason, QueueFullError) else (OVER_LIMIT, 429)
        return refuse(request, message, status, RETRY)

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, StarletteHTTPException)
        words = {404: "There is no such page.", 405: "This address cannot be used like that."}
        has_message = isinstance(reason, HTTPException) or reason.status_code not in words
        headers = {"Allow": allowed_methods(app, request.scope)} if reason.status_code == 405 else None
        message = str(reason.detail) if has_message else words[reason.status_code]
        return refuse(request, message, reason.status_code, headers)

    @app.exception_handler(Exception)
    def broken(request: Request, reason: Exception) -> Response:
        return refuse(request, BROKEN, 500, HEADERS)  # sent outside the middleware


KINDS = {"json": "application/json", "html": "text/html", "svg": "image/svg+xml", "png": "image/png"}


async def download(served: Served, answer: Answer, kind: str, saying: TextOptions, question: RowQuestion) -> Response:
    """The explanation as a file, in the language of `saying`. PNGs are drawn by the slow worker; JSON keeps the
    schema's own words; the HTML page has the profile and the reasons of the row too."""
    e = answer.e if kind == "json" else answer.translated(saying.get("language") or served.schema.language).e
    if kind == "png":
        content: str | bytes = await served.slow.run(lambda _: png(e))
    elif kind == "json":
        content = json.dumps({**e.to_dict(), "text": e.text(**saying)}, ensure_ascii=False, indent=1)
    elif kind == "html":
        profile = await served.profile(question, forecasts=True)
        content = e.to_html(profile=profile, reasons=await served.reasons(question, MAX_FEATURES, BUDGET, SHOWN))
    else:
        content = e.to_svg()
    headers = {"Content-Disposition": f'attachment; filename="why.{kind}"', "Content-Security-Policy": PICTURE_POLICY}
    return Response(content, media_type=KINDS[kind], headers=headers)


def png(e: Explanation) -> bytes:
    out = io.BytesIO()
    e.plot().savefig(out, format="png", dpi=200)
    return out.getvalue()


MAX_FIELDS = 20  # the page's form has five and a file


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a multipart form as text; a file is a field like others."""
    kind = Message()
    kind["content-type"] = request.headers.get("content-type", "")
    if kind.get_content_type() != "multipart/form-data":
        raise HTTPException(415, "Send the row by the form on the page, or to /api/explain as JSON.")
    if (kind.get_content_charset() or "utf-8") != "utf-8":  # some of Python's decoders take quadratic time
        raise HTTPException(415, "Send the form in UTF-8.")
    fields: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_BYTES) as form:
        for name, value in form.multi_items():
            fields[name] = value if isinstance(value, str) else (await value.read()).decode("utf-8", "replace")
    return fields
