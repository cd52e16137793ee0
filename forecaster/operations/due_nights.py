"""Missed runs of the cron schedule (catch-up): the ledger says which nights are published, cron
which should be.

A night is identified by its scheduled instant, which a run keeps from its begin. A scheduler that
comes back from an outage starts what it had planned before; this asks what is missing now.
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
"""A run may begin so long before its night: schedulers round their wait to seconds, and clocks
differ."""
LOOKED_AHEAD = 800  # days: two years hold each change of the clock at least once


def scheduled_nights(spec: Spec, now: datetime) -> Iterator[datetime]:
    """The instants of the scheduled nights up to now, the newest first; one within `EARLY` is among
    them."""
    return CronSim(spec.schedule.cron, (now.astimezone(UTC) + EARLY).astimezone(spec.zone), reverse=True)


def night_of(spec: Spec, begun: datetime) -> datetime:
    """The scheduled instant of the night to which a run belongs that begins at an instant."""
    return next(scheduled_nights(spec, begun))


def with_neighbours(spec: Spec, nights: Sequence[datetime]) -> list[datetime]:
    """Consecutive scheduled nights, the oldest first, with the one before and the one after
    them."""
    before = next(CronSim(spec.schedule.cron, nights[0].astimezone(spec.zone), reverse=True))
    return [before, *nights, next_night(spec.schedule.cron, spec.zone, nights[-1])]


def matching_night(nights: Sequence[datetime], night: datetime | None, as_of: datetime) -> datetime | None:
    """The scheduled night, of some with their neighbours, that a run counts for; None: an earlier
    one.

    It is the nearest to the run's own `night`, which an edited schedule may no longer have. Without
    one, as an earlier version left it, it is the newest by `as_of`.
    """
    after = bisect_right(nights, night or as_of + EARLY)
    if night is not None and 0 < after < len(nights) and nights[after] - night < night - nights[after - 1]:
        return nights[after]
    return nights[after - 1] if after else None


def deadline(spec: Spec, night: datetime) -> datetime:
    """By when a scheduled night must be out: the first `schedule.deadline` after it begins, local
    time."""
    at, local = time.fromisoformat(spec.schedule.deadline), night.astimezone(spec.zone)
    day = local.date() if at > local.time() else local.date() + timedelta(days=1)
    return datetime.combine(day, at, spec.zone)


def next_night(cron: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The next instant of a schedule after now."""
    return next(CronSim(cron, now.astimezone(zone)))


def missed_nights(spec: Spec, ledger: Ledger, now: datetime) -> list[datetime]:
    """Missed runs: the scheduled nights whose publication is missing, the newest first.

    The newest may be missing on its own account; of those before it at most `schedule.catch_up` are
    looked at, and none from before the pipeline's first night. A night is there once a run that
    belongs to it has ended with forecasts.
    """
    due = [night for night, _ in zip(scheduled_nights(spec, now), range(spec.schedule.catch_up + 1), strict=False)]
    first = ledger.first_as_of(spec.name)
    gaps = without_forecasts(spec, ledger, due[::-1])[::-1]
    return [night for night in gaps if night == due[0] or (first is not None and night > first)]


def is_awaited(spec: Spec, ledger: Ledger, night: datetime) -> bool:
    """True if a scheduled night comes after the installation: a deployment before it, or a run
    before its deadline."""
    first_run, deployed = ledger.in_use_since(spec.name)
    return (first_run is not None and first_run <= deadline(spec, night)) or (
        deployed is not None and deployed <= night
    )


def without_forecasts(spec: Spec, ledger: Ledger, nights: Sequence[datetime]) -> list[datetime]:
    """Those of consecutive scheduled nights, the oldest first, for which no run has ended with
    forecasts."""
    bounds = with_neighbours(spec, nights)
    runs = ledger.published_nights(spec.name, since=bounds[0] - EARLY)
    published = {matching_night(bounds, night, as_of) for night, as_of in runs}
    return [night for night in nights if night not in published]


def refuse_changing_hour(spec: Spec, file: object) -> None:
    """Raise SpecError for a schedule at an hour that the zone's clock skips or has twice on some
    day."""
    for name in ("cron", "refresh", "maintain"):
        cron = getattr(spec.schedule, name)
        if cron is None:
            continue
        minute, hour = (int(part) for part in cron.split()[:2])
        if day := _changing_day(spec.zone, hour, minute):
            what, local = day
            raise SpecError(
                f"{file}: schedule.{name} is {cron!r}, and {hour:02d}:{minute:02d} {what} on {local:%Y-%m-%d} in "
                f"{spec.timezone}, when the clock changes; wanted an hour that every day has once, such as 03:15"
            )


def _changing_day(zone: ZoneInfo, hour: int, minute: int) -> tuple[str, datetime] | None:
    """The first day on which a local time is skipped or comes twice, from this year on."""
    first = datetime(datetime.now(zone).year, 1, 1, hour, minute)
    for day in range(LOOKED_AHEAD):
        local = first + timedelta(days=day)
        early, late = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        if early != late:
            assert early is not None
            assert late is not None
            return ("comes twice" if early > late else "does not exist"), local
    return None
