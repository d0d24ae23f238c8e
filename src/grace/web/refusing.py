"""Whatever goes wrong is said in a sentence: to the API as JSON, to the page as a paragraph."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as Refusal

from grace.errors import GraceError
from grace.web import api
from grace.web.guard import HEADERS, TOO_LONG, Limited
from grace.web.messages import message
from grace.web.served import BusyError
from grace.web.showing import Pages

BUSY = "Too many questions are waiting. Try again in a moment."
BROKEN = "Something went wrong here. The server's log says what."


def refusals(app: FastAPI, pages: Pages) -> None:
    """Teach the app what to say."""

    def refuse(request: Request, reason: str | GraceError, status: int) -> Response:
        error = GraceError(reason) if isinstance(reason, str) else reason
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": str(error)}, status)
        part = "HX-Request" in request.headers
        code = pages.code_of(*(request.query_params.get(key, "") for key in ("language", "model")))
        parts = {**pages.common(code), "message": message(error, code)}
        return pages.show("wrong.html" if part else "message.html", parts, status)

    app.add_middleware(Limited, refuse=lambda request: refuse(request, TOO_LONG, 413))

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
