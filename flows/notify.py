"""Notifications, through Prefect's notification blocks, about the results of a run and about missed
runs.

A block is created once, in Prefect's pages or in Python, and named in `notify.blocks`: Prefect's
`custom-webhook`, `slack-webhook` and similar, or `Email` for any SMTP server.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime
from functools import partial
from typing import Any

from apprise import NotifyFormat
from prefect.blocks.abstract import NotificationBlock, NotificationError
from prefect.blocks.core import Block
from prefect.blocks.notifications import AppriseNotificationBlock
from prefect.logging import LogEavesdropper

from flows.night import Night
from forecaster.config import Spec, load
from forecaster.core.time_limits import Budget
from forecaster.errors import ForecasterError, SpecError, TimeLimitExceeded
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights

CANARY_OCCASIONS = {"promoted": "promotion", "rolled_back": "rollback"}
EACH, ALL = 10.0, 25.0  # seconds for each block, and for all notifications of a run
_SECRET_OF_ADDRESS = re.compile(r"(?P<scheme>\w+://)(?:[^\s/'\"]*@)?(?P<host>[^\s/?'\"]+)[/?][^\s'\"]*")


class Email(AppriseNotificationBlock):
    """E-mail by SMTP; `url` as Apprise has it:
    mailtos://user:password@host?from=night@host&to=on-call@host."""

    _block_type_name = "Forecaster Email"
    _block_type_slug = "forecaster-email"

    def block_initialization(self) -> None:
        super().block_initialization()
        for server in self._apprise_client:
            # otherwise Apprise waits 5.5 s before each further mail of a block
            server.request_rate_per_sec = 0

    def notify_html(self, html: str, subject: str) -> None:
        """Send an HTML mail; Apprise derives the text part. Raises NotificationError with its log."""
        with LogEavesdropper("apprise", level=logging.WARNING) as eavesdropper:
            sent = self._apprise_client.notify(body=html, title=subject, body_format=NotifyFormat.HTML)
        if not sent:
            raise NotificationError(log=eavesdropper.text())


def occasions(night: Night) -> dict[str, str]:
    """Return the notifications of a run: occasion → sentence."""
    spec, sentences = night.spec, dict[str, str]()
    name = f"{spec.name}, run {night.run_id}"
    if night.outcome in ("failed", "no_data"):
        sentences["failed"] = f"{name}: {night.outcome}. {night.message or ''}"
    if night.outcome == "degraded":
        sentences["degraded"] = (
            f"{name}: published at tier {night.publication.get('tier', 'unknown')}. {night.message or ''}"
        )
    if stops := [f"{finding.rule}: {finding.message}" for finding in night.findings if finding.severity == "stop"]:
        sentences["stop"] = f"{name}: a batch was stopped. " + "; ".join(stops)
    if night.promoted:
        why = night.verdict.sentence() if night.verdict else ""
        sentences["promotion"] = f"{name}: bundle {night.promoted} is champion now. It was {why}."
    if (canary := night.canary) is not None and canary.state in CANARY_OCCASIONS:
        sentences[CANARY_OCCASIONS[canary.state]] = f"{name}: {canary.sentence}."
    if night.publication.get("canary"):  # a canary rolled back during the prediction
        sentences["rollback"] = f"{name}: {night.publication['canary']}."
    return {occasion: sentence.strip() for occasion, sentence in sentences.items()}


def late_sentence(file: str, now: datetime | None = None) -> str | None:
    """Return a sentence if the newest night past its deadline has no forecasts, else None."""
    spec = load(file)
    instant = (now or datetime.now(spec.zone)).astimezone(spec.zone)
    night = next(
        night
        for night in due_nights.scheduled_nights(spec, instant)
        if due_nights.deadline(spec, night) < instant + due_nights.EARLY
    )
    deadline = due_nights.deadline(spec, night)
    with Ledger.open(spec.ledger_url) as ledger:
        missing = night in due_nights.missed_nights(spec, ledger, deadline)
        missing = missing and due_nights.is_awaited(spec, ledger, night)
        last = next(iter(ledger.runs(spec.name, limit=1)), None)
    if not missing:
        return None
    state = f"the last run, {last.run_id}, is {last.outcome}" if last else "nothing has ever run"
    reason = f": {last.message}" if last and last.message else ""
    return f"{spec.name}: not published by {deadline:%H:%M} on {deadline:%Y-%m-%d}; {state}{reason}"


def send(spec: Spec, occasion: str, sentence: str, *, within: Budget | None = None) -> int:
    """Notify every declared block, if the occasion is declared; returns the number of blocks.

    Each is tried, even after failures, for at most EACH seconds and half of the run's remaining
    time for notifications (`within`). Raises SpecError that names the failed blocks.
    """
    if occasion not in spec.notify.of:
        return 0
    faults, within = [], within or Budget(ALL)
    for name in spec.notify.blocks:
        try:
            subject = f"{spec.name}: {occasion}"
            within.call(partial(_notify, name, sentence, subject), name, most=EACH)
        except TimeLimitExceeded as error:
            faults.append(str(error))
        except Exception as error:  # of any kind that a service may raise
            faults.append(f"{name}: {cause(error)}")
    if faults:
        raise SpecError(f"notify.blocks: {'; '.join(faults)}")
    return len(spec.notify.blocks)


def cause(error: Exception) -> str:
    """Return the reason of a failed delivery, in one line; Apprise reports it only in its log.
    Addresses are reduced to their host, since the rest of a webhook's is its secret."""
    if isinstance(error, ForecasterError):
        return str(error)
    if isinstance(error, NotificationError):
        lines = [line.strip() for line in str(error.log).splitlines() if line.strip()]
        sentence = lines[-1] if lines else "its service rejected it"
    else:
        sentence = f"{type(error).__name__}: {error}"
    return _SECRET_OF_ADDRESS.sub(r"\g<scheme>\g<host>/…", sentence)


def _notify(name: str, sentence: str, subject: str) -> None:
    block(name).notify(sentence, subject=subject)


def block(name: str) -> Any:
    """Return a notification block. Raises SpecError if there is none of this name, or it sends no
    notifications."""
    try:
        loaded = Block.load(name, validate=False)
    except ValueError:  # Prefect's error for a missing block
        raise SpecError(f"Prefect has no block {name!r}; make it under Blocks in Prefect's pages") from None
    if not isinstance(loaded, NotificationBlock):
        raise SpecError(f"block {name!r} is a {type(loaded).__name__}, wanted one that sends notifications")
    return loaded
