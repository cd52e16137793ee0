"""Sections of the pipeline file about people: crews, vans, the costs of a roster, planners' overrides."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.shifts import LEARN, EmploymentContract, PeopleTable, Shift, check_shifts


class Crew(Section):
    """How many drivers a depot may have on an open day."""

    min: int = Field(default=1, ge=0)
    """Fewest drivers."""
    max: int | None = Field(default=None, ge=1)
    """Most drivers. Left out: as many as pay."""
    min_share: float = Field(default=0.7, ge=0, le=1)
    """Share of the drivers that the median of a day needs (its orders over `orders_per_driver`), rounded up, that each
    depot gets before any other gets more, as long as there are vans."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"found min {self.min} and max {self.max}, wanted max to be no less than min")
        return self


class Vans(Section):
    total: int = Field(ge=1)
    """Vans of all depots together, on the road on any day."""
    home: str | None = None
    """Column of the depots source with the vans that are at home there. They stay in their city, and depots lend them
    to one another; vans above the sum of homes go anywhere. Left out: all go anywhere."""
    drivers_per_van: int = Field(default=1, ge=1)
    """Drivers who share a van on a day, one shift after the other."""


class Staffing(Section):
    orders_per_driver: float = Field(gt=0)
    """Orders that one driver delivers in a shift."""
    shift_hours: float = Field(default=8, gt=0)
    """Length of a shift where none is declared as `shifts`; `backtest --staffing` says how many hours each way to
    roster takes."""
    cost_short: float = Field(gt=0)
    """Cost of one driver too few for a shift: of the first that a depot misses."""
    cost_short_growth: float = Field(default=1, ge=0)
    """How the cost grows with each further one: of a day that needs N drivers, the k-th missing one costs
    `cost_short` × (1 + growth × (k - 1) / N). It decides where scarce vans go, and not how many drivers are wanted.
    With 0 one depot may go without for all."""
    cost_idle: float = Field(gt=0)
    """Cost of one driver too many for a shift."""
    change_cost: float = Field(default=0, ge=0)
    """Cost of changing a depot's crew of a day that is already published. An override, or a later run of the same day,
    changes only crews of which that is expected to save more; 0 changes whatever the new plan changes. Shifts of a day
    change together."""
    change_hour: int | None = Field(default=None, ge=0, le=23)
    """Hour of a depot's local day, from which on its crews change once a day at most, unless the new plan has two
    drivers more, or more than two, in all shifts together. Left out: as often as the plan does."""
    currency: str | None = None
    """In which currency costs are, by its code of ISO 4217, as in EUR. Left out: plain numbers."""
    crew: Crew = Crew()
    """Limits of a depot's crew on an open day."""
    vans: Vans | None = None
    """The fleet: rosters need no more vans than there are. Left out: each driver has one."""
    shifts: tuple[Shift, ...] = ()
    """Shifts of a day; its crew is then the sum of theirs. Left out: the day is rostered as a whole."""
    share_weeks: int = Field(default=12, ge=4, le=104)
    """Weeks before the forecast from which the shares of shifts are learned, where `shifts` say so."""
    people: tuple[EmploymentContract, ...] = ()
    """Who works the shifts, by kind of contract: each night then plans who works when. Left out: nobody is named."""

    people_table: PeopleTable | None = None
    """Who has these contracts by name, when they are off, and which shifts they cannot work. Left out: people are
    numbered."""

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        check_shifts(self.shifts, self.people, self.people_table)
        return self

    @property
    def learns_shares(self) -> bool:
        """Whether the shares of shifts are learned from the times of day of orders."""
        return any(shift.share == LEARN for shift in self.shifts)

    @field_validator("currency")
    @classmethod
    def _currency(cls, code: str | None) -> str | None:
        if code is not None and not re.fullmatch("[A-Z]{3}", code):
            raise ValueError(f"found {code!r}, wanted a code of ISO 4217, three capital letters as in EUR")
        return code


class Overrides(Section):
    reasons: tuple[str, ...] = ("local event", "weather", "marketing", "customer told us", "data was wrong", "other")
    """What planners may give as the reason of an override; a sentence of their own goes with it."""
    min_days: int = Field(default=5, ge=1)
    """Days that a planner must have changed before what their numbers were worth is told by name."""

    @field_validator("reasons")
    @classmethod
    def _told_apart(cls, reasons: tuple[str, ...]) -> tuple[str, ...]:
        if not reasons or len(set(reasons)) < len(reasons) or not all(each.strip() for each in reasons):
            raise ValueError(f"found {list(reasons)}, wanted one reason or more, each once and none of them empty")
        return reasons
