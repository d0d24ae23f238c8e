"""The uvicorn server of `grace serve` and `grace study serve`, without access log, with deadlines for requests."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import h11
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from grace.errors import GraceError, pip_install
from grace.schema.parsing import comma_separated
from grace.web.middleware import MAX_BYTES

if TYPE_CHECKING:
    from uvicorn import Server


def run(app: FastAPI, host: str, port: int, ready: Callable[[str], None], proxies: Sequence[str] = ()) -> None:
    """Serve an app until interrupted; `ready` is called with the URL. `proxies` are addresses of trusted reverse
    proxies."""
    server = server_of(app, proxies)
    sock = listen(host, port)
    url_host = f"[{host}]" if ":" in host else host
    ready(f"http://{url_host}:{sock.getsockname()[1]}/")
    try:
        server.run(sockets=[sock])
    except KeyboardInterrupt:
        pass
    finally:
        sock.close()


def server_of(app: FastAPI, proxies: Sequence[str] = ()) -> Server:
    """A uvicorn server without access log."""
    try:
        import uvicorn
    except ImportError as reason:
        raise GraceError(f"serving pages needs uvicorn: {pip_install('web')}") from reason
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,  # Python's default: stderr, without closing handlers of other libraries
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MAX_BYTES,  # forms of wide tables make long URLs
        http=PunctualProtocol,
        ws="none",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    return uvicorn.Server(config)


def proxies_of(given: Iterable[str]) -> list[str]:
    """Addresses or networks of reverse proxies; several may be separated by commas."""
    proxies = comma_separated(given)
    for part in proxies:
        try:
            ipaddress.ip_network(part)
        except ValueError as reason:
            raise GraceError(f"proxy {part!r}: give its address, such as 127.0.0.1 or 10.0.0.0/8") from reason
    return proxies


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; an error that names the remedy if the port cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is explicit; without it a response takes 40 ms longer
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as reason:
        sock.close()
        raise GraceError(f"port {port} of {host} cannot be used: {reason.strerror}; choose another --port") from reason
    return sock


HEADER_SECONDS = 10.0
TOO_SLOW = b"The request did not arrive in time."


class PunctualProtocol(H11Protocol):
    """A connection whose request heads have a deadline, and whose pipelined requests have a limit."""

    deadline: asyncio.TimerHandle | None = None
    pipelined = 0  # bytes of further requests received during one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        if self.conn.their_state is not h11.DONE:
            self.pipelined = 0
            return
        self.pipelined += len(data)
        if self.pipelined > MAX_BYTES:
            self.transport.abort()
        else:
            self.flow.resume_reading()  # otherwise a disconnect is not noticed

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Run the timer while a request head is incomplete."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_watch()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(HEADER_SECONDS, self._too_late)

    def _stop_watch(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _too_late(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:  # part of a head has arrived: send the reason
            head = f"HTTP/1.1 408 Request Timeout\r\nContent-Length: {len(TOO_SLOW)}\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode() + TOO_SLOW)
        self.transport.close()
