"""Sections of the pipeline file about people: crews, vans, the costs of a roster, planners'
overrides."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.shifts import LEARN, EmploymentContract, PeopleTable, Shift, check_shifts


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
    lend them; vans above the sum go anywhere. Left out: all go anywhere."""
    drivers_per_van: int = Field(default=1, ge=1)
    """Drivers that share a van on a day, one shift after the other."""


class Staffing(Section):
    orders_per_driver: float = Field(gt=0)
    """Orders that one driver delivers in a shift."""
    shift_hours: float = Field(default=8, gt=0)
    """Length of a shift if `shifts` are not declared; for the hours in `backtest --staffing`."""
    cost_short: float = Field(gt=0)
    """Cost of the first missing driver of a shift."""
    cost_short_growth: float = Field(default=1, ge=0)
    """Growth of that cost: of a day that needs N drivers, the k-th missing one costs `cost_short`
    × (1 + growth × (k - 1) / N). It affects the assignment of scarce vans, not the number of
    wanted drivers. With 0 one depot may have none for the others."""
    cost_idle: float = Field(gt=0)
    """Cost of one idle driver of a shift."""
    change_cost: float = Field(default=0, ge=0)
    """Cost of a change of a published crew. An override, or a later run of the same day, changes
    only crews that save more; 0 changes every crew that the new plan changes. Shifts of a day
    change together."""
    change_hour: int | None = Field(default=None, ge=0, le=23)
    """Local hour from which a depot's crews change at most once a day, unless the new plan has at
    least two drivers more in all shifts together. Left out: no limit."""
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

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        check_shifts(self.shifts, self.people, self.people_table)
        return self

    @property
    def learns_shares(self) -> bool:
        """True if shares of shifts are learned from the times of day of orders."""
        return any(shift.share == LEARN for shift in self.shifts)

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
    """Changed days from which the value of a planner's overrides is reported by name."""

    @field_validator("reasons")
    @classmethod
    def _told_apart(cls, reasons: tuple[str, ...]) -> tuple[str, ...]:
        if not reasons or len(set(reasons)) < len(reasons) or not all(each.strip() for each in reasons):
            raise ValueError(f"found {list(reasons)}, wanted one reason or more, each once and none of them empty")
        return reasons
