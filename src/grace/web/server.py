"""The server behind `grace serve` and `grace study serve`: it logs nothing that is asked, and stops cleanly."""

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
from grace.web.middleware import MOST_BYTES

if TYPE_CHECKING:
    from uvicorn import Server


def run(app: FastAPI, host: str, port: int, ready: Callable[[str], None], proxies: Sequence[str] = ()) -> None:
    """Serve an app until interrupted; `ready` is told the address. `proxies` are the addresses of servers in front of
    this one that are believed about whom they ask for."""
    server = server_of(app, proxies)
    place = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{place.getsockname()[1]}/")
    try:
        server.run(sockets=[place])
    except KeyboardInterrupt:
        pass
    finally:
        place.close()


def server_of(app: FastAPI, proxies: Sequence[str] = ()) -> Server:
    """A server that does not log what is asked."""
    try:
        import uvicorn

        from grace.web.server import PunctualProtocol
    except ImportError as reason:
        raise GraceError(f"serving pages needs uvicorn: {pip_install('web')}") from reason
    settings = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,  # Python's own: it goes to stderr, and leaves the handlers of other libraries open
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MOST_BYTES,  # a form of a wide table makes a long address
        http=PunctualProtocol,
        ws="none",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    return uvicorn.Server(settings)


def proxies_of(given: Iterable[str]) -> list[str]:
    """Addresses or networks of servers in front, as people write them: several may be joined by commas."""
    found = comma_separated(given)
    for part in found:
        try:
            ipaddress.ip_network(part)
        except ValueError as reason:
            raise GraceError(f"proxy {part!r}: give its address, such as 127.0.0.1 or 10.0.0.0/8") from reason
    return found


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


HEADER_SECONDS = 10.0  # for the whole head of a request, however it trickles
TOO_SLOW = b"The request did not arrive in time."


class PunctualProtocol(H11Protocol):
    """One connection."""

    deadline: asyncio.TimerHandle | None = None
    ahead = 0  # bytes of further requests, received during one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        if self.conn.their_state is not h11.DONE:
            self.ahead = 0
            return
        self.ahead += len(data)
        if self.ahead > MOST_BYTES:
            self.transport.abort()
        else:
            self.flow.resume_reading()  # else it would go unnoticed that the client leaves

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Measure the time while a head is incomplete."""
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
        if self.conn.trailing_data[0]:  # something has come: say why it ends
            head = f"HTTP/1.1 408 Request Timeout\r\nContent-Length: {len(TOO_SLOW)}\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode() + TOO_SLOW)
        self.transport.close()
