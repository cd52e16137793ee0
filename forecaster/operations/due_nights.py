"""Missed runs of the cron schedule (catch-up): compare the nights published in the ledger with the
scheduled ones.

A night is identified by its scheduled instant, which a run keeps from its start. A scheduler that
recovers from an outage starts the runs that it had planned before; this module determines what is
missing now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from forecaster.config import Spec
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger

EARLY = timedelta(minutes=1)
"""A run may begin this much before its night: schedulers round their wait to seconds, and clocks
differ."""
LOOKED_AHEAD = 800  # days: two years contain each clock change at least once


def scheduled_nights(spec: Spec, now: datetime) -> Iterator[datetime]:
    """Instants of the scheduled nights up to now, newest first, including one within `EARLY`."""
    return CronSim(spec.schedule.cron, (now.astimezone(UTC) + EARLY).astimezone(spec.zone), reverse=True)


def night_of(spec: Spec, begun: datetime) -> datetime:
    """Scheduled instant of the night to which a run that begins at an instant belongs."""
    return next(scheduled_nights(spec, begun))


def with_neighbours(spec: Spec, nights: Sequence[datetime]) -> list[datetime]:
    """Return consecutive scheduled nights, oldest first, with the one before and the one after
    them."""
    before = next(CronSim(spec.schedule.cron, nights[0].astimezone(spec.zone), reverse=True))
    return [before, *nights, next_night(spec.schedule.cron, spec.zone, nights[-1])]


def matching_night(nights: Sequence[datetime], night: datetime | None, as_of: datetime) -> datetime | None:
    """Scheduled night, among some with their neighbors, that a run counts for; None: an earlier
    one.

    It is the nearest to the run's own `night`, which an edited schedule may no longer have. Without
    one, as for runs of an earlier version, it is the newest by `as_of`.
    """
    after = bisect_right(nights, night or as_of + EARLY)
    if night is not None and 0 < after < len(nights) and nights[after] - night < night - nights[after - 1]:
        return nights[after]
    return nights[after - 1] if after else None


def deadline(spec: Spec, night: datetime) -> datetime:
    """Deadline of a scheduled night: the first `schedule.deadline` after it begins, in local time."""
    at, local = time.fromisoformat(spec.schedule.deadline), night.astimezone(spec.zone)
    day = local.date() if at > local.time() else local.date() + timedelta(days=1)
    return datetime.combine(day, at, spec.zone)


def next_night(cron: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The next instant of a schedule after now."""
    return next(CronSim(cron, now.astimezone(zone)))


def missed_nights(spec: Spec, ledger: Ledger, now: datetime) -> list[datetime]:
    """Missed runs: scheduled nights without a publication, newest first.

    The newest night is always examined; of those before it at most `schedule.catch_up`, and none
    before the pipeline's first night. A night is published once a run that belongs to it has ended
    with forecasts.
    """
    due = [night for night, _ in zip(scheduled_nights(spec, now), range(spec.schedule.catch_up + 1), strict=False)]
    first = ledger.first_as_of(spec.name)
    gaps = without_forecasts(spec, ledger, due[::-1])[::-1]
    return [night for night in gaps if night == due[0] or (first is not None and night > first)]


def is_awaited(spec: Spec, ledger: Ledger, night: datetime) -> bool:
    """Return true if a scheduled night is after the installation: a deployment before it, or a run
    before its deadline."""
    first_run, deployed = ledger.in_use_since(spec.name)
    return (first_run is not None and first_run <= deadline(spec, night)) or (
        deployed is not None and deployed <= night
    )


def without_forecasts(spec: Spec, ledger: Ledger, nights: Sequence[datetime]) -> list[datetime]:
    """Consecutive scheduled nights, oldest first, for which no run has ended with forecasts."""
    bounds = with_neighbours(spec, nights)
    runs = ledger.published_nights(spec.name, since=bounds[0] - EARLY)
    published = {matching_night(bounds, night, as_of) for night, as_of in runs}
    return [night for night in nights if night not in published]


def refuse_changing_hour(spec: Spec, file: object) -> None:
    """Raises SpecError for a schedule at a local time that is skipped or occurs twice on some day."""
    for name in ("cron", "refresh", "maintain"):
        cron = getattr(spec.schedule, name)
        if cron is None:
            continue
        minute, hour = (int(part) for part in cron.split()[:2])
        if day := _changing_day(spec.zone, hour, minute):
            problem, local = day
            raise SpecError(
                f"{file}: schedule.{name} is {cron!r}, and {hour:02d}:{minute:02d} {problem} on {local:%Y-%m-%d} in "
                f"{spec.timezone}, when the clock changes; wanted an hour that every day has once, such as 03:15"
            )


def _changing_day(zone: ZoneInfo, hour: int, minute: int) -> tuple[str, datetime] | None:
    """The first day, from this year on, on which a local time is skipped or occurs twice."""
    first = datetime(datetime.now(zone).year, 1, 1, hour, minute)
    for day in range(LOOKED_AHEAD):
        local = first + timedelta(days=day)
        early, late = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        if early != late:
            assert early is not None
            assert late is not None
            return ("comes twice" if early > late else "does not exist"), local
    return None
