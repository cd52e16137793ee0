"""Request body limits: a body may be so large and take so long, whether or not its length was declared (chunked).

They hold while a route reads the body. What no route reads is never kept: the server lets 64 kB of it come, and drops
the rest. So roles are looked at before, and somebody who may not write costs no memory.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 65_536  # bytes; what people send has less than a thousand
BODY_SECONDS = 20.0  # that it may take to come
CLOSE = {"Connection": "close"}  # the rest of the body is not waited for


class BodyLimits:
    """ASGI middleware that gives the app a `receive` which raises HTTPException 413 or 408."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = _limited(receive, Headers(scope=scope).get("content-length", "0"))
        await self.app(scope, receive, send)


def _limited(receive: Receive, declared: str) -> Receive:
    count, whole, until = 0, False, monotonic() + BODY_SECONDS

    async def limited() -> Message:
        nonlocal count, whole
        if whole:  # all that can come now is that somebody went away
            return await receive()
        if not declared.isdecimal() or int(declared) > LARGEST_BODY:
            raise _too_large()
        try:
            async with asyncio.timeout(max(until - monotonic(), 0)):
                message = await receive()
        except TimeoutError:
            sentence = f"the body did not come within {BODY_SECONDS:g} s"
            raise HTTPException(408, sentence, headers=CLOSE) from None
        count += len(message.get("body", b""))
        if count > LARGEST_BODY:
            raise _too_large()
        whole = not message.get("more_body", False)
        return message

    return limited


def _too_large() -> HTTPException:
    return HTTPException(413, f"found a body of more than {LARGEST_BODY:,} bytes, wanted a form", headers=CLOSE)
