"""The server behind `grace serve` and `grace study serve`: it logs nothing that is asked, and stops cleanly."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI

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

        from grace.web.deadlines import PunctualProtocol
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
