"""Premiums for changes of a published schedule, by length of notice.

A premium is a fixed sum, as in New York City's Fair Workweek Law (NYC Administrative Code §
20-1222), or hours of pay, as in Oregon's law (ORS 653.455); each is due once per driver whose shift
is added, and once per driver whose shift is cancelled. Days of notice are calendar days of the
depot; hours are those up to the start of the shift, or of the day if no shifts are declared, which
errs in the driver's favor. A crew does not identify people, so a driver who moves between shifts
counts as one fewer and one more in a crew; if people are planned, as one change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from forecaster.config import PremiumStep, Staffing
from forecaster.core.forecast import Forecast
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence
from forecaster.staffing.changes import WHOLE_DAY, PublishedCrews, other_shifts
from forecaster.staffing.newsvendor import NOT_PUBLISHED, PublishedSchedule

HOUR = 3600  # seconds
CENT = Decimal("0.01")
ShiftCrews = Mapping[str, int]  # drivers by shift name
Cell = tuple[str, date]  # a depot-day


@dataclass(frozen=True)
class NoticePeriod:
    """Time between a change and the start of the changed shift."""

    days: int  # calendar days, local to the depot
    hours: float

    @classmethod
    def of(cls, now: datetime, day: date, start: time, zone: ZoneInfo) -> NoticePeriod:
        """Notice of a change made at an instant for a shift that starts on a local day."""
        begins = datetime.combine(day, start, zone)
        return cls((day - now.astimezone(zone).date()).days, (begins.timestamp() - now.timestamp()) / HOUR)


class Premium(NamedTuple):
    """Premiums of a change, rounded to cents, in the unit of the declared costs."""

    added: float  # for a shift that is added, or changes without losing hours
    removed: float  # for a cancelled shift, or for the hours that it loses


def change_premium(staffing: Staffing, notice: NoticePeriod, hours: float) -> Premium:
    """Premiums for a given notice; `hours` are those of the shift, or those that it loses."""
    step = premium_step(staffing, notice)
    if step is None:
        return Premium(0.0, 0.0)
    wage = Decimal(str(staffing.hourly_wage or 0))
    paid = Decimal(str(step.added_hours)), Decimal(str(step.removed_hours_share)) * Decimal(str(hours))
    sums = Decimal(str(step.added)), Decimal(str(step.removed))
    return Premium(
        *(float((lump_sum + wage * by).quantize(CENT, ROUND_HALF_UP)) for lump_sum, by in zip(sums, paid, strict=True))
    )


def premium_step(staffing: Staffing, notice: NoticePeriod) -> PremiumStep | None:
    """The applicable step with the shortest notice; None outside the notice."""
    holding = [
        (limit, step)
        for step in staffing.change_premium
        for limit, has in [_limit(step, staffing.notice_days or 0, notice)]
        if has
    ]
    return min(holding, key=lambda pair: pair[0])[1] if holding else None


def _limit(step: PremiumStep, notice_days: int, notice: NoticePeriod) -> tuple[float, bool]:
    """Limit of a step in hours, and whether the change is later than it."""
    if step.within_hours is not None:
        return step.within_hours, notice.hours < step.within_hours
    days = step.within_days or notice_days
    return 24.0 * days, notice.days < days


def schedule(
    scheduled_crews: Mapping[Cell, ShiftCrews],
    forecast: Forecast,
    staffing: Staffing,
    zones: Mapping[str, str],
    timezone: str,
    now: datetime,
) -> PublishedSchedule | None:
    """Published schedule of a forecast's days with the premiums of `now`; None if none of them is
    published.

    `zones` are those of depots with a zone of their own.
    """
    names, hours, starts = _shifts(staffing)
    shape = (len(names), *forecast.open.shape)
    crews, added, removed = np.full(shape, NOT_PUBLISHED, np.int32), np.zeros(shape), np.zeros(shape)
    by_zone: dict[str, list[list[Premium]]] = {}
    for row, depot in enumerate(forecast.depot_ids):
        name = zones.get(depot) or timezone
        if name not in by_zone:
            zone = ZoneInfo(name)
            by_zone[name] = [
                [
                    change_premium(staffing, NoticePeriod.of(now, day, start, zone), length)
                    for day in forecast.target_dates
                ]
                for length, start in zip(hours, starts, strict=True)
            ]
        added[:, row], removed[:, row] = np.moveaxis(np.array(by_zone[name]), 2, 0)
        for step, day in enumerate(forecast.target_dates):
            crew = scheduled_crews.get((depot, day))
            if crew is not None and sorted(crew) == sorted(names):
                crews[:, row, step] = [crew[shift] for shift in names]
    published_schedule = PublishedSchedule(crews, added, removed)
    return published_schedule if published_schedule.has.any() else None


def with_schedule(
    crews: PublishedCrews | None,
    scheduled_crews: Mapping[Cell, ShiftCrews],
    forecast: Forecast,
    staffing: Staffing,
    zones: Mapping[str, str],
    timezone: str,
    now: datetime,
) -> PublishedCrews | None:
    """Published crews, replaced by those of the schedule; arguments as in `schedule`."""
    published = schedule(scheduled_crews, forecast, staffing, zones, timezone, now)
    if published is None:
        return crews
    drivers = published.crews.sum(axis=0)
    before = crews or PublishedCrews(
        np.full(drivers.shape, NOT_PUBLISHED, np.int32),
        np.zeros(drivers.shape, bool),
        shifts=np.zeros_like(published.crews) if staffing.shifts else None,
    )
    shifts = None if before.shifts is None else np.where(published.has, published.crews, before.shifts)
    return replace(
        before,
        drivers=np.where(published.has, drivers, before.drivers).astype(np.int32),
        shifts=shifts,
        schedule=published,
    )


def of_other_shifts(scheduled_crews: Mapping[Cell, ShiftCrews], staffing: Staffing) -> Sentence | None:
    """Sentence about published days with other shifts than those declared, whose crews no premium
    protects; None if there are none."""
    text = N_(
        "the published schedule of {days} has the shifts {published}, and staffing.shifts declares {declared}: the "
        "crews of these days change without regard to their premiums; name the shifts as they were published"
    )
    return other_shifts(text, scheduled_crews, staffing)


def _shifts(staffing: Staffing) -> tuple[list[str], list[float], list[time]]:
    """Names, hours and local starts of a day's shifts."""
    if not staffing.shifts:
        return [WHOLE_DAY], [staffing.shift_hours], [time()]
    shifts = staffing.shifts
    return (
        [shift.name for shift in shifts],
        [shift.minutes / 60 for shift in shifts],
        [shift.starts for shift in shifts],
    )
