"""HTTP/1.1 protocol of the server with limits on request heads: their time, their bytes, and how many headers.

A connection on which no whole head comes in time is closed, so that requests which are half open (slowloris) take
neither memory nor files for long; of many such connections the oldest goes first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dashboards.ops.access.rare_warnings import RareWarnings

HEAD_SECONDS = 10.0  # from the connection, or from the first byte of a further request, to the end of its headers
MOST_HEADERS = 100
LARGEST_HEAD = 32_768  # bytes
MOST_HALF_OPEN = 256  # connections that wait for a head
GRACE_SECONDS = 1.0  # that each has at least, so that a flood shuts out nobody who has something to say
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    half_open: ClassVar[dict[GuardedProtocol, None]] = {}  # of all connections, the oldest first

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._waits_since = 0.0  # on the clock of the loop
        self._refused = self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        last, in_body = self.cycle, self._in_body  # of a body that nobody reads, the rest is dropped, and has as long
        super().data_received(data)
        if self.cycle is not last:
            self._head_came()
        elif self._head_timer is not None and not in_body:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self._refuse()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            self._refuse()

    def on_headers_complete(self) -> None:
        if not self._refused:
            self._in_body = True
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        if not self._refused:
            super().on_message_complete()

    def _await_head(self) -> None:
        self._head_bytes, self._waits_since = 0, self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)
        self.half_open[self] = None
        oldest = next(iter(self.half_open))
        if len(self.half_open) > MOST_HALF_OPEN and self._waits_since - oldest._waits_since >= GRACE_SECONDS:
            oldest._give_up()

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self.half_open.pop(self, None)

    def _give_up(self) -> None:
        self._head_came()
        self.transport.close()

    def _refuse(self) -> None:
        if not self._refused:
            self._refused = True
            self.headers.clear()
            self.transport.write(TOO_LARGE)
            self._give_up()


def quiet_log() -> None:
    """Let what strangers send be written once a minute at most."""
    log = logging.getLogger("uvicorn.error")
    if not any(isinstance(existing, _Noise) for existing in log.filters):
        log.addFilter(_Noise())


class _Noise(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._warnings = RareWarnings()

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(NOISE) or self._warnings.may_write() is not None
