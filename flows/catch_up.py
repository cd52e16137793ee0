"""Catch-up of missed nights: as of each scheduled date, one run row each; into the archive, or onto
the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from functools import partial
from itertools import takewhile

from flows import lines
from flows.night import Night
from flows.protocol import Steps
from forecaster.config import Spec, load
from forecaster.core.terminal import count
from forecaster.errors import NoLedger, SpecError
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights, sample_overrides
from forecaster.publishing import past_nights
from forecaster.publishing.outcome import PublishedForecast


def missing_nights(file: str) -> list[datetime]:
    """Return the scheduled nights without forecasts, newest first."""
    spec = load(file)
    now = datetime.now(spec.zone)
    try:
        with Ledger.open_reader(spec.ledger_url, patience=connect.PATIENCE) as ledger:
            return due_nights.missed_nights(spec, ledger, now)
    except NoLedger:  # the run creates it
        return [next(due_nights.scheduled_nights(spec, now))]


def catch_up_missed(file: str, steps: Steps) -> list[Night]:
    """Make up for the missed nights before the newest one, newest first, with the champions of
    their time."""
    newest = next(due_nights.scheduled_nights(load(file), datetime.now().astimezone()))
    return _run_each(file, [instant for instant in missing_nights(file) if instant < newest], steps, trains=False)


def backfill_dates(file: str, first: str, last: str, steps: Steps, *, trains: bool, again: bool) -> list[Night]:
    """Forecast as of each scheduled night of a range of days, oldest first.

    Raises SpecError as `scheduled_nights` does.
    """
    spec = load(file)
    instants = scheduled_nights(spec, date.fromisoformat(first), date.fromisoformat(last))
    return _run_each(file, instants if again else without_forecasts(spec, instants), steps, trains=trains)


def publish_past_nights(night: Night, most: int) -> list[Night]:
    """Publish the scheduled nights before a published one that have no forecasts, at most `most`,
    oldest first; then publish that one again.

    They use the current champion, provided that its training has not seen these days.
    """
    spec, file = night.spec, str(night.file)
    today = night.as_of.astimezone(spec.zone).date()
    instants = [
        instant
        for instant in scheduled_nights(spec, today - timedelta(days=most), today, night.as_of)
        if instant.date() < today
    ]
    missing = without_forecasts(spec, instants)
    if not missing:
        return []
    night.progress.say(
        f"           {count(len(missing), 'night')} before it, by the model of now, which has not seen their days"
    )
    past = [_publish(file, instant, past_nights.publish_past) for instant in missing]
    again = partial(past_nights.publish_again, promoted_by=night.run_id)
    return [*past, _publish(file, night.as_of, again)]


def _publish(file: str, as_of: datetime, publish: Callable[..., PublishedForecast]) -> Night:
    """Run a forecast and its publication only; for the sample, also add a planner's number."""
    # not of kind "night": the last night must be the one that trained
    night = Night.begin(file, as_of, kind="backfill")

    def line() -> None:
        with night.stage("predict"):
            published = publish(night.spec, as_of=as_of, run_id=night.run_id)
        night.settle(published.report())
        if sample_overrides.is_sample(night.spec):
            with night.goes_on("the sample has no planner's number of this day"):
                sample_overrides.override_one_day(night.spec, as_of, published.publication_id)

    return night.run(line)


def scheduled_nights(spec: Spec, first: date, last: date, now: datetime | None = None) -> list[datetime]:
    """Return the past scheduled instants in a range of local days, oldest first.

    Raises SpecError if there is none.
    """
    since = takewhile(
        lambda instant: instant.date() >= first, due_nights.scheduled_nights(spec, now or datetime.now(spec.zone))
    )
    instants = [instant for instant in since if instant.date() <= last][::-1]
    if not instants:
        raise SpecError(f"from {first} to {last} no night is scheduled ({spec.schedule.cron}) that is past; wanted one")
    return instants


def without_forecasts(spec: Spec, instants: list[datetime]) -> list[datetime]:
    """Return those of consecutive nights, oldest first, without a publication."""
    with Ledger.open(spec.ledger_url) as ledger:
        return due_nights.without_forecasts(spec, ledger, instants)


def _run_each(file: str, instants: Iterable[datetime], steps: Steps, *, trains: bool) -> list[Night]:
    """Run one after the other; if another run is in progress, the rest waits for the next time."""
    nights = []
    for instant in instants:
        night = Night.begin(file, instant, kind="backfill", trains=trains)
        nights.append(night.run(lambda night=night: lines.backfill(night, steps)))  # type: ignore[misc]
        if night.outcome == "busy":
            break
    return nights
