"""Request body limits: a body may be so large and take so long, whether or not its length was
declared (chunked).

They hold while a route reads the body. What no route reads is never kept: the server lets 64 kB of
it come, and drops the rest. So roles are looked at before, and somebody who may not write costs no
memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 65_536  # bytes; what people send has less than a thousand
LARGEST_FORM = 1 << 20  # bytes of a pipeline file as a form sends it
MOST_TOGETHER = 128 << 20  # bytes of all bodies that are held at a time
BODY_SECONDS = 20.0  # that it may take to come
CLOSE = {"Connection": "close"}  # the rest of the body is not waited for


class BodyLimits:
    """ASGI middleware that gives the app a `receive` which raises HTTPException 413, 408 or 503."""

    def __init__(
        self,
        app: ASGIApp,
        largest: Callable[[str], int] = lambda _: LARGEST_BODY,
        advice: str = ", wanted a form",
        seconds: float = BODY_SECONDS,
    ) -> None:
        """`largest` is the number of bytes that a path takes, `advice` ends the sentence about more
        of them; a body may take so many `seconds`."""
        self.app, self._largest, self._advice, self._seconds = app, largest, advice, seconds
        self._held = 0  # bytes, of all requests that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        largest, declared = self._largest(scope["path"]), Headers(scope=scope).get("content-length", "0")
        count, whole, until = 0, False, monotonic() + self._seconds

        async def limited() -> Message:
            nonlocal count, whole
            if whole:  # all that can come now is that somebody went away
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
    """The number that the decimal digits of a header say; None where it is none, or not from
    `least` to `most`."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"  # of which Python reads so many and no more
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    return number if least <= number <= most else None
