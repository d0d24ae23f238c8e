"""HTTP/1.1 that does not wait for ever: connections whose next request does not arrive in time are closed.

uvicorn limits the time between two requests (`timeout_keep_alive`), but not that of a request which has begun or of a
first one that never begins. The time for bodies is limited by `grace.web.middleware`.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from grace.web.middleware import MOST_BYTES

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
