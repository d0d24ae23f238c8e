"""ASGI middleware before every page: host and origin checks, limits on size and time, headers, cancellation on
disconnect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grace.web.hosts import Hosts, client_of
from grace.web.queues import CLIENT

MAX_BYTES = 1 << 20
BODY_SECONDS = 30.0
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CHUNK = 1 << 16  # bytes parsed between two task switches

TOO_LONG = f"What was sent is too long; the most is {MAX_BYTES >> 20} MB."
TOO_SLOW = f"What was sent did not arrive within {BODY_SECONDS:.0f} seconds. Send it again."
OTHER_SITE = "This was sent by a page of another site. Open this server's own page and send it from there."
OTHER_HOST = "This server does not go by that name. Use its own address, or start it with --allow-host."

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers omit the Origin of forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class CachedStaticFiles(StaticFiles):
    """Static files that browsers cache and revalidate."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


class Reply:
    """Sends a response with default headers added; without body for HEAD."""

    def __init__(self, send: Send, headers: Mapping[str, str], *, omit_body: bool) -> None:
        self.send, self.omit_body, self.done = send, omit_body, False
        self.headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            present = list(message.get("headers", []))
            names = {name.lower() for name, _ in present}
            message = {**message, "headers": [*present, *(h for h in self.headers if h[0] not in names)]}
        elif message["type"] == "http.response.body":
            self.done = not message.get("more_body", False)
            message = {**message, "body": b""} if self.omit_body else message
        await self.send(message)


class Guard:
    """Admits requests to served hosts from own pages and programs, of at most MAX_BYTES within BODY_SECONDS.

    `refuse` makes the response to others. HEAD is answered wherever GET is. With `cancel_on_disconnect`, the work for a
    disconnected client is cancelled."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        refuse: Callable[[Request, str, int], Response],
        headers: Mapping[str, str] = HEADERS,
        hosts: Hosts | None = None,
        cancel_on_disconnect: bool = False,
    ) -> None:
        self.app, self.refuse, self.headers = app, refuse, headers
        self.hosts, self.cancel_on_disconnect = hosts or Hosts(), cancel_on_disconnect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        reply = Reply(send, self.headers, omit_body=scope["method"] == "HEAD")
        try:
            self._check_origin(request)
            body = await read_body(receive)
        except HTTPException as reason:
            response = self.refuse(request, str(reason.detail), reason.status_code)
            response.headers["Connection"] = "close"
            await response(scope, receive, reply)
            return
        if body is None:
            return
        CLIENT.set(client_of(request.client.host) if request.client else "")
        method = "GET" if reply.omit_body else scope["method"]
        await self._answer({**scope, "method": method}, Body(body, receive), reply)

    def _check_origin(self, request: Request) -> None:
        if not self.hosts.serve(request.headers.get("host", "")):
            raise HTTPException(421, OTHER_HOST)
        if self.hosts.cross_site(request.method, request.headers):
            raise HTTPException(403, OTHER_SITE)

    async def _answer(self, scope: Scope, body: Body, reply: Reply) -> None:
        """Run the app, and watch for a disconnect."""
        work = asyncio.ensure_future(self.app(scope, body, reply))
        disconnect = asyncio.ensure_future(body.wait_for_disconnect())
        try:
            awaited = {work, disconnect} if self.cancel_on_disconnect else {work}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not reply.done:
                work.cancel()
                await asyncio.wait({work})
            if work.done() and work.cancelled():
                return
            await work
        finally:
            disconnect.cancel()
            work.cancel()


async def read_body(receive: Receive) -> bytes | None:
    """The request body; None if the client disconnects."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BYTES:
                    raise HTTPException(413, TOO_LONG)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise HTTPException(408, TOO_SLOW) from None


class Body:
    """Replays a received body to the app in chunks, yielding to other tasks in between."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.parts = deque(body[at : at + CHUNK] for at in range(0, max(1, len(body)), CHUNK))
        self.receive = receive
        self.disconnected = asyncio.Event()

    async def __call__(self) -> Message:
        if not self.parts:
            await self.disconnected.wait()
            return {"type": "http.disconnect"}
        await asyncio.sleep(0)
        part = self.parts.popleft()
        return {"type": "http.request", "body": part, "more_body": bool(self.parts)}

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.disconnected.set()


def allowed_methods(app: FastAPI, scope: Scope) -> str:
    """The methods of a URL for the header `Allow`; for static files, which no route matches, GET."""

    def matches(method: str) -> bool:
        return any(route.matches({**scope, "method": method})[0] is Match.FULL for route in app.routes)

    allowed = [method for method in METHODS if matches(method)] or ["GET"]
    return ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)
