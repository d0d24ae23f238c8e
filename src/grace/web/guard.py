"""What all pages have in common: security headers, a limit on what is sent, and a server that stops cleanly."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grace.errors import GraceError
from grace.extras import pip_install

MOST_BYTES = 1 << 20
TOO_LONG = f"What was sent is too long; the most is {MOST_BYTES >> 20} MB."

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def guard(app: FastAPI, headers: dict[str, str]) -> None:
    """Give every answer the headers that it does not have."""

    @app.middleware("http")
    async def add(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response


class Kept(StaticFiles):
    """Files that a browser may keep, if it asks each time whether they have changed."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers["Cache-Control"] = "no-cache"
        return response


class Limited:
    """An app to which nobody can send more than MOST_BYTES, whatever length they announce; `refuse` answers them."""

    def __init__(self, app: ASGIApp, refuse: Callable[[Request], Response]) -> None:
        self.app, self.refuse = app, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, going = b"", True
        while going:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            going = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                response = self.refuse(Request(scope))
                response.headers.update(HEADERS)  # it is made outside the guard
                await response(scope, receive, send)
                return
        read = False

        async def again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)


def run(app: FastAPI, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve an app until interrupted; `ready` is told the address. What is asked for is not logged."""
    try:
        import uvicorn
    except ImportError as reason:
        raise GraceError(f"serving pages needs uvicorn: {pip_install('web')}") from reason
    place = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{place.getsockname()[1]}/")
    settings = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MOST_BYTES,  # a form of a wide table makes a long address
        http="h11",
    )
    try:
        uvicorn.Server(settings).run(sockets=[place])
    except KeyboardInterrupt:
        pass
    finally:
        place.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address, or an error that says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # said to be TCP, as asyncio else leaves small packets to wait for each other (40 ms an answer)
    place = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
        place.listen(128)
    except OSError as reason:
        place.close()
        raise GraceError(f"port {port} of {host} cannot be used: {reason.strerror}; choose another --port") from reason
    return place
