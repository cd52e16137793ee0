"""Idempotency keys (the IETF's draft of the header `Idempotency-Key`): a write that is sent again is done once.

Whoever sends a write names it, in the header or in a hidden field of our forms. Sent again with its key, by the same
person within a day, it changes nothing and is answered as it was the first time, byte for byte: also while the first is
at work, and on another copy of the page, since the ledger keeps the keys. What was refused wrote nothing, its key
neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Header
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dashboards.ops.access import person
from dashboards.ops.access.context import access_context
from forecaster.ledger.once import idempotency
from forecaster.ledger.once.idempotency import FirstAnswer, IdempotencyKey

HEADER, FIELD = "Idempotency-Key", "idempotency_key"
KEY = re.compile(r'"([!#-\[\]-~]{1,255})"|([!#-\[\]-~]{1,255})')  # as a structured field writes a string, or bare
HOURS = round(idempotency.LIFETIME.total_seconds() / 3600)

KeyHeader = Annotated[
    str | None,
    Header(
        alias=HEADER,
        description=f"Names this write, as a UUID does. Sent again with the same key within {HOURS} hours, it changes "
        "nothing and is answered as it was the first time; the same key with another request is refused with 422.",
        examples=['"8e03978e-40d5-43dd-bc93-6894a57f9324"'],
    ),
]


class Repeated(Exception):
    """The write was done before; `response` is its answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class Once:
    """A write that is done once, however often it is sent under its key; one without a key is done each time."""

    def __init__(self, request: Request, key: str | None, values: Mapping[str, Any]) -> None:
        """`values` are what is asked for. Raises HTTPException for what is no key."""
        self._request, self._context, self._key = request, access_context(request), None
        if key is not None:
            asked = json.dumps([request.method, request.url.path, values], sort_keys=True)
            digest = sha256(asked.encode()).hexdigest()
            self._key = IdempotencyKey(self._context.pipeline_shown(), person(request).name, _parsed(key), digest)

    def answer(self, write: Callable[[], Response]) -> Response:
        """What `write` answers, or the first answer to the same; `write` calls `begin` and `keep` in its
        transaction."""
        try:
            if self._key is not None:  # before what was right then, and may be wrong by now, is looked at
                with self._context.reading() as connection:
                    self._repeat(idempotency.find(connection, self._key, self._context.clock()))
            return write()
        except Repeated as repeated:
            self._request.state.audited = True  # or there is nothing to audit
            return repeated.response

    def begin(self, connection: sa.Connection) -> None:
        """Claim the key, or raise `Repeated`; HTTPException where the key stands for another request."""
        if self._key is not None:
            self._repeat(idempotency.claim(connection, self._key, self._context.clock()))

    def keep(self, connection: sa.Connection, response: Response) -> None:
        if self._key is not None:
            headers = {
                name: response.headers[name] for name in ("content-type", "location") if name in response.headers
            }
            answer = {"status": response.status_code, "headers": headers, "body": bytes(response.body).decode()}
            idempotency.keep(connection, self._key, answer)

    def _repeat(self, first: FirstAnswer | None) -> None:
        if first is None or self._key is None:
            return
        if first.request != self._key.request:
            raise HTTPException(
                422,
                f"{HEADER}: found one under which something else was sent before; wanted a new one for a new request, "
                "which a form gets when its page is loaded again",
            )
        answer = first.answer
        raise Repeated(Response(answer["body"], answer["status"], answer["headers"]))


def _parsed(text: str) -> str:
    key = KEY.fullmatch(text.strip())
    if key is None:
        raise HTTPException(
            422,
            f"{HEADER}: found {text[:80]!r}, wanted 1 to 255 letters, digits and signs without blanks, as in a UUID",
        )
    return key[1] or key[2]
