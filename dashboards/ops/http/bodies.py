"""Request body limits: size and duration of a body, with or without a declared length (chunked).

They apply while a route reads the body. A body that no route reads is never kept: the server
accepts 64 kB of it and drops the rest. Since roles are checked first, a client without the right to
write costs no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 65_536  # bytes; people send less than a thousand
LARGEST_FORM = 1 << 20  # bytes of a pipeline file as a form sends it
MOST_TOGETHER = 128 << 20  # bytes of all bodies in memory at a time
BODY_SECONDS = 20.0  # for a body to arrive
CLOSE = {"Connection": "close"}  # do not wait for the rest of the body


class BodyLimits:
    """ASGI middleware that gives the app a `receive` which raises HTTPException 413, 408 or 503."""

    def __init__(
        self,
        app: ASGIApp,
        largest: Callable[[str], int] = lambda _: LARGEST_BODY,
        advice: str = ", wanted a form",
        seconds: float = BODY_SECONDS,
    ) -> None:
        """Keep the app and the limits.

        `largest` returns the number of bytes that a path accepts, `advice` ends the sentence about
        a larger body, and `seconds` is the time for a body to arrive.
        """
        self.app, self._largest, self._advice, self._seconds = app, largest, advice, seconds
        self._held = 0  # bytes, of all unanswered requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        largest, declared = self._largest(scope["path"]), Headers(scope=scope).get("content-length", "0")
        count, whole, until = 0, False, monotonic() + self._seconds

        async def limited() -> Message:
            nonlocal count, whole
            if whole:  # only a disconnect can follow
                return await receive()
            if whole_number(declared, 0, largest) is None:
                raise self._too_large(largest)
            message = await self._in_time(receive, until)
            size = len(message.get("body", b""))
            count, self._held = count + size, self._held + size
            if count > largest:
                raise self._too_large(largest)
            if self._held > MOST_TOGETHER:
                sentence = "too many large requests at once; ask again in a moment"
                raise HTTPException(503, sentence, {"Retry-After": "1", **CLOSE})
            whole = not message.get("more_body", False)
            return message

        try:
            return await self.app(scope, limited, send)
        finally:
            self._held -= count

    def _too_large(self, largest: int) -> HTTPException:
        return HTTPException(413, f"found a body of more than {largest:,} bytes{self._advice}", CLOSE)

    async def _in_time(self, receive: Receive, until: float) -> Message:
        try:
            async with asyncio.timeout(max(until - monotonic(), 0)):
                return await receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {self._seconds:g} s", CLOSE) from None


def whole_number(text: str, least: int, most: int) -> int | None:
    """Return the number in a header's decimal digits; None if it is not a number from `least` to
    `most`."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"  # Python limits the number of digits that int() reads
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    return number if least <= number <= most else None
