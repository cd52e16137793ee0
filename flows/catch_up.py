"""Which nights are missing, and how they are made up for: as of each date, into the archive, one run row each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from itertools import takewhile
from typing import Any

from flows import lines
from flows.night import Night
from forecaster.config import Spec, load
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights


def missing(file: str, now: datetime | None = None) -> list[datetime]:
    """The scheduled nights without forecasts, the newest first."""
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger:
        return due_nights.missing(spec, ledger, now or datetime.now(spec.zone))


def older(file: str, by: Any) -> list[Night]:
    """Make up for the missed nights before the newest one, the newest first; by the champions of their time."""
    newest = next(due_nights.nights(load(file), datetime.now().astimezone()))
    return _each(file, [instant for instant in missing(file) if instant < newest], by, trains=False)


def past(file: str, first: str, last: str, by: Any, *, trains: bool, again: bool) -> list[Night]:
    """Forecast as of each scheduled night of some days, the oldest first. Raises SpecError as `scheduled` does."""
    spec = load(file)
    instants = scheduled(spec, date.fromisoformat(first), date.fromisoformat(last))
    return _each(file, instants if again else without_forecasts(spec, instants), by, trains=trains)


def scheduled(spec: Spec, first: date, last: date) -> list[datetime]:
    """The scheduled instants of some local days that are past, the oldest first.

    Raises SpecError where there is none.
    """
    since = takewhile(lambda instant: instant.date() >= first, due_nights.nights(spec, datetime.now(spec.zone)))
    found = [instant for instant in since if instant.date() <= last][::-1]
    if not found:
        raise SpecError(f"from {first} to {last} no night is scheduled ({spec.schedule.cron}) that is past; wanted one")
    return found


def without_forecasts(spec: Spec, instants: list[datetime]) -> list[datetime]:
    """Those of some nights, the oldest first, as of which nothing was published."""
    with Ledger.open(spec.ledger_url) as ledger:
        there = {*ledger.published_as_of(spec.name, since=instants[0])}
    return [instant for instant in instants if instant not in there]


def _each(file: str, instants: Iterable[datetime], by: Any, *, trains: bool) -> list[Night]:
    """One run after the other; where another run is at work, the rest waits for the next time."""
    done = []
    for instant in instants:
        night = Night.begin(file, instant, kind="backfill", trains=trains)
        done.append(night.run(lambda night=night: lines.backfill(night, by)))  # type: ignore[misc]
        if night.outcome == "busy":
            break
    return done
