"""Webhook of published schedules: post each publication and each change of published days, signed
per Standard Webhooks (https://www.standardwebhooks.com).

An event is what one transaction wrote to the schedule, so these rows are the outbox: an event
without a row `sent` in `forecaster.ledger.once` is posted by the next attempt, made by a
publication, an override or a run. Its id and content derive from its rows alone, so that a receiver
whose answer was lost recognizes it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import threading
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

from pydantic_core import to_jsonable_python

from forecaster.config import ScheduleWebhook, Spec
from forecaster.config.credentials import fill
from forecaster.core.terminal import count
from forecaster.core.time_limits import call_within
from forecaster.errors import SpecError
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.once import digests as rows
from forecaster.ledger.once.digests import DAYS_KEPT, DigestKey, DigestRow
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules
from forecaster.planning.schedules import ScheduleChange

EACH, ALL = 5.0, 15.0  # timeout of an answer, and time after which an attempt starts no further event, in seconds
KEY = "notify.schedule"
_WINDOW = timedelta(days=DAYS_KEPT - 1)  # period whose rows are still there in all time zones
_one_at_a_time = threading.Lock()
_log = logging.getLogger("forecaster")


@dataclass(frozen=True)
class ScheduleEvent:
    """A publication of days, or a change of published days, to be posted."""

    id: str
    at: datetime
    body: bytes  # JSON


def deliver(spec: Spec) -> str | None:
    """Post pending events, oldest first; return why some wait for the next attempt. None: nothing
    waits, or no webhook is declared."""
    if spec.notify.schedule is None:
        return None
    begun = time.monotonic()
    try:
        key = signing_key(spec.notify.schedule)
        with _one_at_a_time, Ledger.open(spec.ledger_url) as ledger:
            due = _due(ledger, spec.name)
            for place, event in enumerate(due):
                if time.monotonic() - begun > ALL:
                    return f"{KEY}: {count(len(due) - place, 'event')} not posted within {ALL:.0f} s; the next run does"
                call_within(EACH, partial(_post, _request(spec.notify.schedule, event, key)), KEY)
                with ledger.transaction() as connection:
                    day = DigestKey(spec.name, event.id, "", "", event.at.astimezone(UTC).date())
                    rows.claim(connection, day, None, DigestRow(0, datetime.now(UTC), "sent", False, {}))
    except Exception as error:  # a ledger, a server, a proxy or a resolver may raise anything
        reason = str(error).replace(spec.notify.schedule.url, "…") or type(error).__name__
        return f"{KEY}: not taken, and posted again by the next run: {reason}"
    return None


def deliver_soon(spec: Spec) -> None:
    """Post pending events on a thread that blocks only the end of the process; errors are logged."""

    def work() -> None:
        if fault := deliver(spec):
            _log.warning("%s", fault)

    if spec.notify.schedule is not None:
        threading.Thread(target=work, name=KEY).start()


def signing_key(declared: ScheduleWebhook) -> bytes:
    """Signing key. Raises SpecError for a missing secret or an invalid key."""
    text = fill(declared.secret, credential=True)
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not text.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise SpecError(
            f"{KEY}.secret: {declared.secret} is no such key, wanted whsec_ and 24 to 64 bytes in base64, as from "
            'echo "whsec_$(openssl rand -base64 32)"'
        )
    return key


def signature(key: bytes, event_id: str, second: int, body: bytes) -> str:
    """Header `webhook-signature` of an event posted at a second of Unix time."""
    signed = hmac.new(key, f"{event_id}.{second}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def events(pipeline: str, changes: Iterable[ScheduleChange]) -> list[ScheduleEvent]:
    """Group changes, in order of time, into one event per transaction that wrote them."""
    grouped = groupby(changes, key=lambda change: (change.at, change.premium is None))
    return [_event(pipeline, at, "published" if is_new else "changed", list(of)) for (at, is_new), of in grouped]


def _event(pipeline: str, at: datetime, kind: str, changes: list[ScheduleChange]) -> ScheduleEvent:
    instant = at.astimezone(UTC).isoformat()
    number = hashlib.sha256("\0".join((pipeline, kind, instant)).encode()).hexdigest()[:32]
    premium = round(sum(change.premium or 0.0 for change in changes), 2)
    data = {"pipeline": pipeline, "premium": premium, "days": to_jsonable_python(changes)}
    content = {"type": f"schedule.{kind}", "id": f"schedule_{number}", "timestamp": instant, "data": data}
    return ScheduleEvent(f"schedule_{number}", at, json_text(content).encode())


def _due(ledger: Ledger, pipeline: str) -> list[ScheduleEvent]:
    now = datetime.now(UTC)
    with ledger.transaction() as connection:
        rows.forget(connection, pipeline, now.date())
        sent = rows.sent_blocks(connection, pipeline)
        first = schedules.first_day(connection, pipeline, now - _WINDOW)
        changes = schedules.read_changes(connection, pipeline, first) if first else []
    recent = events(pipeline, (change for change in changes if change.at >= now - _WINDOW))
    return [event for event in recent if event.id not in sent]


def _request(declared: ScheduleWebhook, event: ScheduleEvent, key: bytes) -> urllib.request.Request:
    second = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": event.id,
        "webhook-timestamp": str(second),
        "webhook-signature": signature(key, event.id, second, event.body),
    }
    return urllib.request.Request(declared.url, event.body, headers, method="POST")


class _AnyAnswer(urllib.request.HTTPErrorProcessor):
    """Follows no redirects, which would turn the POST into a GET."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


def _post(request: urllib.request.Request) -> None:
    with urllib.request.build_opener(_AnyAnswer).open(request, timeout=EACH) as response:
        if not 200 <= response.status < 300:
            raise OSError(f"HTTP {response.status} {response.reason}")
