"""Missed runs of the cron schedule (catch-up): the ledger says which nights are published, cron which should be.

A scheduler that comes back from an outage starts what it had planned before; this asks what is missing now.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim

from forecaster.config import Spec
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger

LOOKED_AHEAD = 800  # days: two years hold each change of the clock at least once


def scheduled_nights(spec: Spec, now: datetime) -> Iterator[datetime]:
    """The instants of the scheduled nights up to now, the newest first."""
    local = now.astimezone(spec.zone) + timedelta(seconds=1)
    return CronSim(spec.schedule.cron, local, reverse=True)


def deadline(spec: Spec, night: datetime) -> datetime:
    """By when a scheduled night must be out: the first `schedule.deadline` after it begins, local time."""
    at, local = time.fromisoformat(spec.schedule.deadline), night.astimezone(spec.zone)
    day = local.date() if at > local.time() else local.date() + timedelta(days=1)
    return datetime.combine(day, at, spec.zone)


def next_night(cron: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The next instant of a schedule after now."""
    return next(CronSim(cron, now.astimezone(zone)))


def missed_nights(spec: Spec, ledger: Ledger, now: datetime) -> list[datetime]:
    """Missed runs: the scheduled nights whose publication is missing, the newest first.

    The newest may be missing on its own account; of those before it at most `schedule.catch_up` are looked at, and none
    from before the pipeline's first night. A night is there once a run that may use what was known by then, and not by
    the next one, has ended with forecasts.
    """
    due = []
    for instant, _ in zip(scheduled_nights(spec, now), range(spec.schedule.catch_up + 1), strict=False):
        due.append(instant)
    published = ledger.published_as_of(spec.name, since=due[-1])
    first = ledger.first_as_of(spec.name)
    bounds = [next_night(spec.schedule.cron, spec.zone, now), *due]
    gaps = [start for end, start in pairwise(bounds) if not any(start <= as_of < end for as_of in published)]
    return [start for start in gaps if start == due[0] or (first is not None and start > first)]


def refuse_changing_hour(spec: Spec, file: object) -> None:
    """Raise SpecError for a schedule at an hour that the zone's clock skips or has twice on some day."""
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
