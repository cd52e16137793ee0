"""Delivery of morning digests: in parallel, once a day each, within a time limit; failures are
reported.

A digest is sent after the first run of a day ends, whether or not it published: if not, the mail
states that its numbers are from an earlier run. It is sent again on the same day only if tonight's
numbers arrive late, or a refresh changed a crew. A definite failure is retried by the next run of
the day; a digest that a receiver did not acknowledge in time may have arrived, and is not resent
automatically.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dashboards.ops.reading.header import REPLAY
from flows import notify
from flows.digests import messages
from flows.digests.messages import Message
from flows.night import Night
from forecaster.config import DigestReceiver, Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.core.terminal import count
from forecaster.core.time_limits import call_within
from forecaster.errors import INTERRUPTED, TERMINATED, TimeLimitExceeded
from forecaster.ledger.once import digests as rows
from forecaster.ledger.once.digests import DigestKey, DigestRow
from forecaster.ledger.store import Ledger

EACH, ALL = 10.0, 60.0  # seconds for each receiver, and for all together
AT_ONCE = 8  # blocks in parallel
KINDS = ("night", "refresh")
_REPLAYED = N_("the publication was made as of a past instant, so no digest is sent")


@dataclass(frozen=True)
class SentDigests:
    """Number of digests sent, number of receivers who already had theirs, and the errors as
    sentences."""

    sent: int
    had: int
    faults: tuple[str, ...]

    def sentence(self) -> str:
        had = f"; {count(self.had, 'receiver')} had theirs already" if self.had else ""
        return f"{count(self.sent, 'digest')} sent{had}"


@dataclass(frozen=True)
class _Parcel:
    """A due digest, with the row that claims it and the previous row."""

    block: str
    name: str
    message: Message
    key: DigestKey
    row: DigestRow
    before: DigestRow | None


def send_after(night: Night) -> None:
    """Send the due digests after a run. Failures only add a remark to its outcome."""
    spec = night.spec
    is_hurried = night.exit_code in (INTERRUPTED, TERMINATED)
    is_past = datetime.now(UTC) - night.as_of > REPLAY
    if not spec.notify.digest or night.kind not in KINDS or night.outcome == "busy" or is_hurried or is_past:
        return
    try:
        result = send(spec, spec.notify.digest, datetime.now(UTC))
    except Exception as error:  # of any kind from a ledger, a template or Prefect
        result = SentDigests(0, 0, (notify.cause(error),))
    else:
        night.progress.say(f"           {result.sentence()}")
    if result.faults:
        night.remark(sentence(N_("notify.digest: {faults}"), faults=joined(result.faults) or ""))
        with Ledger.open(spec.ledger_url) as ledger:
            ledger.note(night.run_id, message=night.message)


def send(spec: Spec, receivers: Sequence[DigestReceiver], now: datetime, *, again: bool = False) -> SentDigests:
    """Send the digests due for these receivers; with `again` also to those who have it. Raises
    LedgerError if nothing has been published."""
    morning = messages.morning(spec, receivers, now)
    if morning.edition.front.replayed:
        return SentDigests(0, 0, (sentence(_REPLAYED),))
    parcels, faults = [], list(morning.faults)
    with Ledger.open(spec.ledger_url) as ledger:
        for receiver, content in morning.digests:
            key = messages.key(spec, receiver, now)
            with ledger.transaction() as connection:
                before, earlier = rows.last(connection, key), rows.last_before(connection, key)
            why = messages.reason(receiver, before, earlier, content, morning)
            if why is None and not again:
                continue
            row = DigestRow(morning.publication_id, now, "sending", content.old, content.crews)
            message = messages.message(receiver, content, why or ())
            parcels.append(_Parcel(receiver.to, content.name, message, key, row, before))
        results = _deliver_all(ledger, parcels)
        with ledger.transaction() as connection:
            rows.forget(connection, spec.name, now.astimezone(spec.zone).date())
    faults += [fault for fault in results if fault]
    had = len(morning.digests) - len(parcels) + results.count(None)
    return SentDigests(results.count(""), had, tuple(faults))


def _deliver_all(ledger: Ledger, parcels: Sequence[_Parcel]) -> list[str | None]:
    """Deliver all parcels; returns for each an empty text if sent, else the reason, or None if
    another run is sending it.

    Parcels of one block are sent one after the other, so as not to flood it; blocks are served in
    parallel.
    """
    deadline = time.monotonic() + ALL
    by_block: dict[str, list[_Parcel]] = {}
    for parcel in parcels:
        by_block.setdefault(parcel.block, []).append(parcel)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="digests") as pool:
        parts = pool.map(lambda group: _deliver_group(ledger, group, deadline), by_block.values())
        return [result for part in parts for result in part]


def _deliver_group(ledger: Ledger, parcels: Sequence[_Parcel], deadline: float) -> list[str | None]:
    name, block, hangs = parcels[0].block, None, ""
    results: list[str | None] = []
    for parcel in parcels:
        seconds_left = min(EACH, deadline - time.monotonic())
        if hangs or seconds_left <= 0:
            why = hangs or f"no time was left of {ALL:.0f} s for all digests"
            results.append(f"{name} ({parcel.name}): not tried, {why}")
            continue
        try:
            block = block or call_within(seconds_left, partial(notify.block, name), name)
            results.append(_deliver(ledger, parcel, partial(_send_message, block, parcel.message), seconds_left))
        except TimeLimitExceeded as error:
            hangs = str(error)
            results.append(f"{name} ({parcel.name}): {hangs}; whether it arrived is not known")
        except Exception as error:  # of any kind that a service may raise
            results.append(f"{name} ({parcel.name}): {notify.cause(error)}")
    return results


def _deliver(ledger: Ledger, parcel: _Parcel, call: Callable[[], None], seconds: float) -> str | None:
    """Claim, send and settle a parcel; returns an empty text if sent, None if another run is
    sending it."""
    with ledger.transaction() as connection:
        if not rows.claim(connection, parcel.key, parcel.before, parcel.row):
            return None
    state: rows.State | None = None
    try:
        call_within(seconds, call, parcel.block)
        state = "sent"
    except Exception as error:
        state = "unsure" if isinstance(error, (TimeLimitExceeded, TimeoutError)) or _read_too_long(error) else None
        raise
    finally:
        with ledger.transaction() as connection:
            if state is None:
                rows.give_back(connection, parcel.key, parcel.before)
            else:
                rows.settle(connection, parcel.key, state)
    return ""


def _read_too_long(error: Exception) -> bool:
    """True if the service received the request but did not answer, in any HTTP library."""
    return type(error).__name__ == "ReadTimeout"


def _send_message(block: Any, message: Message) -> None:
    """Send a message in the form that a block takes: HTML for mail, the short text for chat,
    otherwise the whole text."""
    from prefect.blocks.notifications import SlackWebhook

    if isinstance(block, notify.Email):
        block.notify_html(message.html, message.subject)
    elif isinstance(block, SlackWebhook):
        block.notify(message.short, subject=message.subject)
    else:
        block.notify(message.text, subject=message.subject)
