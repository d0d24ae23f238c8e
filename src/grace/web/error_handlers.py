"""Whatever goes wrong is said in a sentence: to the API as JSON, to the page as a paragraph."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as Refusal

from grace.errors import GraceError
from grace.web import api
from grace.web.hosts import Hosts
from grace.web.middleware import HEADERS, Guard, allowed_methods
from grace.web.queues import MOST_OF_ONE, BusyError, GreedyError
from grace.web.views import Pages, message

BUSY = "Too many questions are waiting. Try again in a moment."
GREEDY = f"{MOST_OF_ONE} questions of yours are waiting already. Wait for some of their answers, then ask again."
BROKEN = "Something went wrong here. The server's log says what."
RETRY = {"Retry-After": "5"}


def refusals(app: FastAPI, pages: Pages, hosts: Hosts | None) -> None:
    """Teach the app what to refuse, and what to say."""

    def refuse(
        request: Request, reason: str | GraceError, status: int, headers: dict[str, str] | None = None
    ) -> Response:
        error = GraceError(reason) if isinstance(reason, str) else reason
        if request.url.path.startswith("/api/") or request.url.path == "/health":
            said = str(error).encode("utf-8", "replace").decode()  # JSON may hold half a character
            return JSONResponse({"error": said}, status, headers)
        part = "HX-Request" in request.headers
        code = pages.code_of(*(request.query_params.get(key, "") for key in ("language", "model")))
        parts = {**pages.common(code), "message": message(error, code)}
        response = pages.show("wrong.html" if part else "message.html", parts, status)
        response.headers.update(headers or {})
        return response

    app.add_middleware(Guard, refuse=refuse, hosts=hosts, abandon=True)

    @app.exception_handler(GraceError)
    def wrong(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, GraceError)
        return refuse(request, reason, 422)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, RequestValidationError)
        return refuse(request, api.said(reason), 422)

    @app.exception_handler(BusyError)
    def busy(request: Request, reason: Exception) -> Response:
        return refuse(request, BUSY, 503, RETRY)

    @app.exception_handler(GreedyError)
    def greedy(request: Request, reason: Exception) -> Response:
        return refuse(request, GREEDY, 429, RETRY)

    @app.exception_handler(Refusal)
    def refused(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, Refusal)
        words = {404: "There is no such page.", 405: "This address cannot be used like that."}
        own = isinstance(reason, HTTPException) or reason.status_code not in words
        headers = {"Allow": allowed_methods(app, request.scope)} if reason.status_code == 405 else None
        message = str(reason.detail) if own else words[reason.status_code]
        return refuse(request, message, reason.status_code, headers)

    @app.exception_handler(Exception)
    def broken(request: Request, reason: Exception) -> Response:
        return refuse(request, BROKEN, 500, HEADERS)  # this one is made outside the guard
