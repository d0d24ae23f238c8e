"""What stands before every page: who may ask, how much may be sent and in which time, headers, and who has left."""

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

MOST_BYTES = 1 << 20
BODY_SECONDS = 30.0  # for all of it, however it trickles
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CHUNK = 1 << 16  # bytes that are parsed before others have a turn

TOO_LONG = f"What was sent is too long; the most is {MOST_BYTES >> 20} MB."
TOO_SLOW = f"What was sent did not arrive within {BODY_SECONDS:.0f} seconds. Send it again."
OTHER_SITE = "This was sent by a page of another site. Open this server's own page and send it from there."
OTHER_HOST = "This server does not go by that name. Use its own address, or start it with --allow-host."

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not no-referrer, with which browsers do not say where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class CachedStaticFiles(StaticFiles):
    """Files that a browser may keep, if it asks each time whether they have changed."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers["Cache-Control"] = "no-cache"
        return response


class Reply:
    """Sends an answer, with the headers that it does not have; to HEAD without its body."""

    def __init__(self, send: Send, headers: Mapping[str, str], *, silent: bool) -> None:
        self.send, self.silent, self.done = send, silent, False
        self.headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            has = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(h for h in self.headers if h[0] not in has)]}
        elif message["type"] == "http.response.body":
            self.done = not message.get("more_body", False)
            message = {**message, "body": b""} if self.silent else message
        await self.send(message)


class Guard:
    """An app that only its own pages and programs can send to, no more than MOST_BYTES, within BODY_SECONDS.

    `refuse` makes the answer to anything else. HEAD is answered wherever GET is. With `abandon`, work for a client that
    has gone away is cancelled; without, what was sent in full is done all the same.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        refuse: Callable[[Request, str, int], Response],
        headers: Mapping[str, str] = HEADERS,
        hosts: Hosts | None = None,
        abandon: bool = False,
    ) -> None:
        self.app, self.refuse, self.headers = app, refuse, headers
        self.hosts, self.abandon = hosts or Hosts(), abandon

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        reply = Reply(send, self.headers, silent=scope["method"] == "HEAD")
        try:
            self._admit(request)
            body = await read_body(receive)
        except HTTPException as reason:
            response = self.refuse(request, str(reason.detail), reason.status_code)
            response.headers["Connection"] = "close"  # whatever else is being sent
            await response(scope, receive, reply)
            return
        if body is None:
            return
        CLIENT.set(client_of(request.client.host) if request.client else "")
        method = "GET" if reply.silent else scope["method"]
        await self._answer({**scope, "method": method}, Body(body, receive), reply)

    def _admit(self, request: Request) -> None:
        if not self.hosts.serve(request.headers.get("host", "")):
            raise HTTPException(421, OTHER_HOST)
        if self.hosts.cross_site(request.method, request.headers):
            raise HTTPException(403, OTHER_SITE)

    async def _answer(self, scope: Scope, body: Body, reply: Reply) -> None:
        """Run the app beside a watch for the client's leaving."""
        work = asyncio.ensure_future(self.app(scope, body, reply))
        watch = asyncio.ensure_future(body.wait_for_leaving())
        try:
            await asyncio.wait({work, watch} if self.abandon else {work}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not reply.done:
                work.cancel()
                await asyncio.wait({work})
            if work.done() and work.cancelled():
                return
            await work
        finally:
            watch.cancel()
            work.cancel()


async def read_body(receive: Receive) -> bytes | None:
    """All that was sent; None if the client has left meanwhile."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MOST_BYTES:
                    raise HTTPException(413, TOO_LONG)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise HTTPException(408, TOO_SLOW) from None


class Body:
    """A body that was received, to be received again by the app, in parts between which others have a turn."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.parts = deque(body[at : at + CHUNK] for at in range(0, max(1, len(body)), CHUNK))
        self.receive = receive
        self.left = asyncio.Event()

    async def __call__(self) -> Message:
        if not self.parts:
            await self.left.wait()
            return {"type": "http.disconnect"}
        await asyncio.sleep(0)
        part = self.parts.popleft()
        return {"type": "http.request", "body": part, "more_body": bool(self.parts)}

    async def wait_for_leaving(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.left.set()


def allowed_methods(app: FastAPI, scope: Scope) -> str:
    """The methods that an address takes, for the header `Allow`; within a folder of files no route matches."""

    def takes(method: str) -> bool:
        return any(route.matches({**scope, "method": method})[0] is Match.FULL for route in app.routes)

    found = [method for method in METHODS if takes(method)] or ["GET"]
    return ", ".join([*found, "HEAD"] if "GET" in found else found)
