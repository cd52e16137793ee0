"""Catch-up of missed nights: as of each scheduled date, into the archive, one run row each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from itertools import takewhile

from flows import lines
from flows.night import Night
from flows.protocol import Steps
from forecaster.config import Spec, load
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights


def missing_nights(file: str, now: datetime | None = None) -> list[datetime]:
    """The scheduled nights without forecasts, the newest first."""
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger:
        return due_nights.missed_nights(spec, ledger, now or datetime.now(spec.zone))


def catch_up_missed(file: str, steps: Steps) -> list[Night]:
    """Make up for the missed nights before the newest one, the newest first; by the champions of their time."""
    newest = next(due_nights.scheduled_nights(load(file), datetime.now().astimezone()))
    return _run_each(file, [instant for instant in missing_nights(file) if instant < newest], steps, trains=False)


def backfill_dates(file: str, first: str, last: str, steps: Steps, *, trains: bool, again: bool) -> list[Night]:
    """Forecast as of each scheduled night of some days, the oldest first.

    Raises SpecError as `scheduled_nights` does.
    """
    spec = load(file)
    instants = scheduled_nights(spec, date.fromisoformat(first), date.fromisoformat(last))
    return _run_each(file, instants if again else without_forecasts(spec, instants), steps, trains=trains)


def scheduled_nights(spec: Spec, first: date, last: date) -> list[datetime]:
    """The scheduled instants of some local days that are past, the oldest first.

    Raises SpecError where there is none.
    """
    since = takewhile(
        lambda instant: instant.date() >= first, due_nights.scheduled_nights(spec, datetime.now(spec.zone))
    )
    instants = [instant for instant in since if instant.date() <= last][::-1]
    if not instants:
        raise SpecError(f"from {first} to {last} no night is scheduled ({spec.schedule.cron}) that is past; wanted one")
    return instants


def without_forecasts(spec: Spec, instants: list[datetime]) -> list[datetime]:
    """Those of some nights, the oldest first, as of which nothing was published."""
    with Ledger.open(spec.ledger_url) as ledger:
        published = {*ledger.published_as_of(spec.name, since=instants[0])}
    return [instant for instant in instants if instant not in published]


def _run_each(file: str, instants: Iterable[datetime], steps: Steps, *, trains: bool) -> list[Night]:
    """One run after the other; where another run is at work, the rest waits for the next time."""
    nights = []
    for instant in instants:
        night = Night.begin(file, instant, kind="backfill", trains=trains)
        nights.append(night.run(lambda night=night: lines.backfill(night, steps)))  # type: ignore[misc]
        if night.outcome == "busy":
            break
    return nights
