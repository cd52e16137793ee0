"""Sections of the pipeline file about people: crews, vans, the costs of a roster, planners'
overrides."""

from __future__ import annotations

import re
from datetime import time
from typing import Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.shifts import LEARN, EmploymentContract, PeopleTable, Shift, WorkedTable, check_shifts

LATE = time(20)  # shifts that end later are late shifts
LONGEST_NOTICE = 60  # days: one fewer than the longest horizon


class Crew(Section):
    """Limits for a depot's drivers on an open day."""

    min: int = Field(default=1, ge=0)
    """Fewest drivers."""
    max: int | None = Field(default=None, ge=1)
    """Most drivers. Left out: no limit."""
    min_share: float = Field(default=0.7, ge=0, le=1)
    """Priority share of the drivers for the day's median (orders over `orders_per_driver`, rounded
    up): each depot gets it before any depot gets more, while vans last."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"found min {self.min} and max {self.max}, wanted max to be no less than min")
        return self


class Vans(Section):
    total: int = Field(ge=1)
    """Vans of all depots on a day."""
    home: str | None = None
    """Column of the depots source with the depot's own vans. They stay in their city, where depots
    lend them to each other; vans beyond their sum go to any depot. Left out: all vans go to any
    depot."""
    drivers_per_van: int = Field(default=1, ge=1)
    """Drivers that share a van on a day, one shift after the other."""


class PremiumStep(Section):
    """Premium for each driver added to or removed from a day of a published schedule at short
    notice."""

    within_days: int | None = Field(default=None, ge=1, le=LONGEST_NOTICE)
    """Applies if there are fewer calendar days than this between the change and the day. Left out
    with `within_hours`: the whole notice."""
    within_hours: float | None = Field(default=None, gt=0, le=1440)
    """Applies if there are fewer hours than this between the change and the start of the shift or,
    without `shifts`, of the day."""
    added: float = Field(default=0, ge=0)
    """Fixed sum for each added driver, in the unit of the costs."""
    removed: float = Field(default=0, ge=0)
    """Fixed sum for each removed driver."""
    added_hours: float = Field(default=0, ge=0)
    """Hours of pay for each added driver; needs `hourly_wage`."""
    removed_hours_share: float = Field(default=0, ge=0, le=1)
    """Share of the shift's hours that is paid for each removed driver; needs `hourly_wage`."""

    @model_validator(mode="after")
    def _one_limit_and_a_premium(self) -> Self:
        if self.within_days is not None and self.within_hours is not None:
            raise ValueError("found within_days and within_hours, wanted only one of them")
        if not self.added + self.removed + self.added_hours + self.removed_hours_share:
            raise ValueError(
                "found no premium, wanted added and removed, or added_hours and removed_hours_share, above 0"
            )
        return self

    @property
    def in_hours(self) -> bool:
        """True if the premium is paid by the hour."""
        return bool(self.added_hours or self.removed_hours_share)


class Staffing(Section):
    orders_per_driver: float = Field(gt=0)
    """Orders that one driver delivers in a shift."""
    shift_hours: float = Field(default=8, gt=0)
    """Length of a shift if `shifts` are not declared; for the hours in `backtest --staffing`."""
    cost_short: float = Field(gt=0)
    """Cost of the first missing driver of a shift."""
    cost_short_growth: float = Field(default=1, ge=0)
    """Growth of that cost: on a day that needs N drivers, the k-th missing one costs `cost_short` ×
    (1 + growth × (k - 1) / N). It affects the assignment of scarce vans, not the number of wanted
    drivers. With 0, one depot may go without drivers in favor of the others."""
    cost_idle: float = Field(gt=0)
    """Cost of one idle driver of a shift."""
    change_cost: float = Field(default=0, ge=0)
    """Cost of a change of a published crew. An override, or a later run of the same day, changes a
    crew only if that saves more; with 0, every crew that differs in the new plan. Shifts of a day
    change together."""
    change_hour: int | None = Field(default=None, ge=0, le=23)
    """Local hour from which a depot's crews change at most once a day, unless the new plan has at
    least two more drivers in all shifts together. Left out: no limit."""
    notice_days: int | None = Field(default=None, ge=1, le=LONGEST_NOTICE)
    """Calendar days before a day of a published schedule from which its crew changes only if that
    saves more than its `change_premium`. Left out: no schedule is published."""
    change_premium: tuple[PremiumStep, ...] = ()
    """Premiums by notice: of all steps that apply to a change, the one with the shortest notice
    counts. One step must cover the whole of `notice_days`."""
    hourly_wage: float | None = Field(default=None, gt=0)
    """Regular pay of an hour, for premiums in hours of pay."""
    currency: str | None = None
    """Currency of the costs, an ISO 4217 code as in EUR. Left out: plain numbers."""
    crew: Crew = Crew()
    """Limits of a depot's crew on an open day."""
    vans: Vans | None = None
    """The fleet: rosters need at most these vans. Left out: one van for each driver."""
    shifts: tuple[Shift, ...] = ()
    """Shifts of a day; the crew is their sum. Left out: the whole day."""
    share_weeks: int = Field(default=12, ge=4, le=104)
    """Weeks before the forecast from which shares of shifts are learned."""
    people: tuple[EmploymentContract, ...] = ()
    """Contracts of the people who work the shifts; each night then plans their weeks. Left out: no
    people."""

    people_table: PeopleTable | None = None
    """Names of these people, their days off, and the shifts that they cannot work. Left out:
    numbered people."""
    worked_hours: WorkedTable | None = None
    """Hours worked, for `/value`: their cost compared with the published crews. Hours divided by
    the hours of a shift, rounded, are drivers. Left out: nothing is compared."""
    spread_weight: float = Field(default=0, ge=0)
    """Cost of a weekend or late shift for each one that a person had beyond the depot's average in
    the last eight weeks, and of a shift on a day that a person wishes to be free, which counts the
    same later: so they are spread over people. Shifts that end after 20:00 or on the next day are
    late. 0: shifts fall where the week costs least, and nobody is asked for wishes."""

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        check_shifts(self.shifts, self.people, self.people_table)
        if self.worked_hours is not None:
            self.worked_hours.check(self.shifts)
        return self

    @model_validator(mode="after")
    def _priced_notice(self) -> Self:
        steps = self.change_premium
        if (self.notice_days is None) != (not steps):
            present, lacking = ("change_premium", "notice_days") if steps else ("notice_days", "change_premium")
            raise ValueError(
                f"found {present} without {lacking}, wanted both: each change within the notice period has a price"
            )
        limits = [24 * step.within_days if step.within_days else step.within_hours for step in steps]
        if len(set(limits)) < len(limits):
            raise ValueError("change_premium: found two steps of the same notice, wanted each notice once")
        widest = [step.within_days for step in steps if step.within_hours is None]
        if steps and None not in widest and max((days for days in widest if days), default=0) != self.notice_days:
            raise ValueError(
                f"change_premium: found no step for the whole notice, wanted within_days: {self.notice_days} as in "
                "notice_days, or one step without a limit"
            )
        if any(step.within_days and step.within_days > (self.notice_days or 0) for step in steps):
            raise ValueError(f"change_premium: found a step beyond notice_days: {self.notice_days}")
        if any(step.in_hours for step in steps) and self.hourly_wage is None:
            raise ValueError("change_premium: found hours of pay and no hourly_wage, wanted the pay of an hour")
        return self

    @property
    def learns_shares(self) -> bool:
        """True if shares of shifts are learned from the times of day of orders."""
        return any(shift.share == LEARN for shift in self.shifts)

    @property
    def late_shifts(self) -> frozenset[str]:
        """Names of the shifts that end after 20:00 or on the next day."""
        return frozenset(shift.name for shift in self.shifts if shift.passes_midnight or shift.ends > LATE)

    @field_validator("currency")
    @classmethod
    def _currency(cls, code: str | None) -> str | None:
        if code is not None and not re.fullmatch("[A-Z]{3}", code):
            raise ValueError(f"found {code!r}, wanted a code of ISO 4217, three capital letters as in EUR")
        return code


class Overrides(Section):
    reasons: tuple[str, ...] = ("local event", "weather", "marketing", "customer told us", "data was wrong", "other")
    """Reasons that planners choose from; a note may be added."""
    min_days: int = Field(default=5, ge=1)
    """Fewest changed days for a report of the value of a planner's overrides by name."""

    @field_validator("reasons")
    @classmethod
    def _told_apart(cls, reasons: tuple[str, ...]) -> tuple[str, ...]:
        if not reasons or len(set(reasons)) < len(reasons) or not all(reason.strip() for reason in reasons):
            raise ValueError(f"found {list(reasons)}, wanted one reason or more, each once and none of them empty")
        return reasons
