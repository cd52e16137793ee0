"""Sections of the pipeline file about shifts and the people who work them: hours of a shift,
contracts and their rules."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import time
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.sources import TableColumns, WholeSource, WholeTable

SHARE_TOLERANCE = 0.0015  # of the sum of shares: three times 0.333 passes as a day
LEARN = "learn"
HALF_HOUR = 30  # minutes; orders are counted by half hours of the clock


class Shift(Section):
    """Part of the day with its own roster."""

    name: str = Field(min_length=1, max_length=40)
    """Name of the shift."""
    start: str
    """Local start time, as in 06:00."""
    end: str
    """Local end time; if not after `start`, on the next day."""
    share: Annotated[float, Field(gt=0, le=1)] | Literal["learn"]
    """Share of the day's orders; all shifts sum to 1. `learn`, for all shifts or none: each
    depot's share on each weekday, from the times of day of the orders of the last `share_weeks`
    weeks; needs `demand.aggregate` and a time of day in each row."""

    @field_validator("start", "end", mode="before")
    @classmethod
    def _local_time(cls, value: Any) -> Any:
        # YAML 1.1 reads a bare 14:00 as a number to base 60, and a bare 06:00 as text.
        text = f"{value // 60:02}:{value % 60:02}" if isinstance(value, int) and 0 <= value < 1440 else value
        if not isinstance(text, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
            raise ValueError(f"found {value!r}, wanted a local time as in '06:00'")
        return text

    @field_validator("share", mode="before")
    @classmethod
    def _number_or_learn(cls, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
        if not is_number and value != LEARN:
            raise ValueError(f"found {value!r}, wanted a share above 0 and up to 1, such as 0.4, or {LEARN}")
        return value

    @model_validator(mode="after")
    def _some_hours(self) -> Shift:
        if self.start == self.end:
            raise ValueError(f"found start and end at {self.start}, wanted a shift of less than a day")
        return self

    @property
    def starts(self) -> time:
        return time.fromisoformat(self.start)

    @property
    def ends(self) -> time:
        return time.fromisoformat(self.end)

    @property
    def passes_midnight(self) -> bool:
        return self.ends < self.starts

    @property
    def minutes(self) -> int:
        """Minutes from start to end."""
        start, end = (at.hour * 60 + at.minute for at in (self.starts, self.ends))
        return (end - start) % 1440

    @property
    def declared_share(self) -> float:
        """The share as a number. Raises ValueError if it is learned."""
        if isinstance(self.share, str):
            raise ValueError(f"the share of shift {self.name!r} is to be learned")
        return self.share


class EmploymentContract(Section):
    """A contract: its number of people at a depot, and the rules for their weeks."""

    name: str = Field(min_length=1, max_length=40)
    """Name of the contract, as in full-time; its people are numbered."""
    per_depot: int | str = 0
    """People of each depot with this contract, or the column of the depots source with that
    number; in addition to those in `people_table`. Left out: none."""
    max_shifts_week: int = Field(default=5, ge=1, le=7)
    """Most shifts from Monday to Sunday."""
    min_rest_hours: float = Field(default=11, ge=0, le=24)
    """Fewest hours from the end of a shift to the start of the next one."""
    max_days_in_row: int = Field(default=6, ge=1, le=14)
    """Most days in a row with a shift."""
    hours_week: float | None = Field(default=None, gt=0)
    """Paid hours from Monday to Sunday. Left out: those of `max_shifts_week`."""
    cost_overtime: float | None = Field(default=None, ge=0)
    """Additional cost of an hour beyond `hours_week`. Left out: no overtime."""
    role_id: int | None = Field(default=None, ge=1)
    """Role in 7shifts, for `schedule --export`; needed where its locations use roles."""

    @field_validator("per_depot")
    @classmethod
    def _count(cls, value: int | str) -> int | str:
        if (isinstance(value, int) and not 0 <= value <= 500) or value == "":
            raise ValueError(f"found {value!r}, wanted a number of people up to 500, or a column of the depots source")
        return value

    @model_validator(mode="after")
    def _hours_for_overtime(self) -> EmploymentContract:
        if self.cost_overtime is not None and self.hours_week is None:
            raise ValueError("found cost_overtime without hours_week; wanted both, as in hours_week: 40")
        return self


class PeopleColumns(TableColumns):
    person: str = "person"
    """Column with a person's name or number, unique within a depot."""
    depot_id: str = "depot_id"
    """Column with the depot."""
    contract: str = "contract"
    """Column with the name of a contract of `people`."""
    off_from: str | None = "off_from"
    """Column with the first day off; empty if none."""
    off_to: str | None = "off_to"
    """Column with the last day off; left out or empty: one day."""
    cannot_work: str | None = "cannot_work"
    """Column with excluded shifts, separated by `;`."""
    external_id: str | None = "external_id"
    """Column with the person's number in 7shifts or Deputy, for `schedule --export`. Without it:
    the column `person` has that number."""

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the source must have: the mandatory ones, and the declared ones, except
        `external_id`, which only an export reads."""
        must = {"person", "depot_id", "contract", *self.model_fields_set} - {"external_id"}
        names = (getattr(self, key) for key in type(self).model_fields if key in must)
        return tuple(name for name in names if name)

    @property
    def optional(self) -> tuple[str, ...]:
        """Columns that are read if the source has them."""
        return tuple(name for name in (self.off_from, self.off_to, self.cannot_work) if name)


class PeopleTable(WholeTable):
    """People of the depots by name; read in full each night."""

    source: WholeSource
    """One row for each person, and one more for each further absence."""
    columns: PeopleColumns = PeopleColumns()
    """Names of the source's columns. The last four are optional; null: not read."""

    @model_validator(mode="after")
    def _days_off(self) -> PeopleTable:
        declared = {key for key in self.columns.model_fields_set if getattr(self.columns, key)}
        if "off_to" in declared and "off_from" not in declared:
            raise ValueError("found columns.off_to without off_from; wanted both")
        return self


class WorkedColumns(TableColumns):
    date: str = "date"
    """Column with the local day on which the shift began."""
    depot_id: str = "depot_id"
    """Column with the depot."""
    hours: str = "hours"
    """Column with the hours; rows of the same depot, day and shift are added up."""
    shift: str | None = None
    """Column with the name of the shift; needed where there are several `shifts`."""


class WorkedTable(WholeTable):
    """Hours worked, from a time clock; read in full each night."""

    source: WholeSource
    """One or more rows for each depot, day and shift, such as one for each person."""
    columns: WorkedColumns = WorkedColumns()
    """Names of the source's columns."""

    def check(self, shifts: Sequence[Shift]) -> None:
        """Check that the table distinguishes the shifts if there are several. Raises ValueError."""
        if len(shifts) > 1 and self.columns.shift is None:
            raise ValueError(
                "worked_hours: found several shifts and no columns.shift, wanted the column with their names"
            )
        if not shifts and self.columns.shift is not None:
            raise ValueError("worked_hours: found columns.shift and no shifts, wanted both or neither")


def check_shifts(
    shifts: Sequence[Shift], contracts: Sequence[EmploymentContract], table: PeopleTable | None = None
) -> None:
    """Check that the shares of the shifts make a whole day, that shifts and contracts have distinct
    names, and that contracts and the table of people fit. Raises ValueError."""
    _check_people(contracts, table)
    for key, names in (("shifts", [shift.name for shift in shifts]), ("people", [kind.name for kind in contracts])):
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"found {key} that are called {', '.join(repeated)} twice, wanted each name once")
    _check_shares(shifts)
    if contracts and not shifts:
        raise ValueError("found people but no shifts, wanted their shifts, as the key `shifts` next to it")


def _check_people(contracts: Sequence[EmploymentContract], table: PeopleTable | None) -> None:
    if table is not None and not contracts:
        raise ValueError(
            "found people_table but no people, wanted the contracts of the people in it, as the key `people` next to it"
        )
    for contract in contracts:
        if table is None and "per_depot" not in contract.model_fields_set:
            raise ValueError(
                f"people: found the contract {contract.name} of nobody, wanted per_depot, or the names as people_table"
            )


def _check_shares(shifts: Sequence[Shift]) -> None:
    if any(shift.share == LEARN for shift in shifts):
        _check_learned(shifts)
        _check_overlaps(sorted(shifts, key=lambda shift: shift.starts))
    elif shifts and abs((total := math.fsum(shift.declared_share for shift in shifts)) - 1) > SHARE_TOLERANCE:
        raise ValueError(f"found shifts whose shares sum to {total:g}, wanted 1")


def _check_learned(shifts: Sequence[Shift]) -> None:
    learned = next(shift for shift in shifts if shift.share == LEARN)
    for shift in shifts:
        if shift.share != LEARN:
            raise ValueError(
                f"found share: learn for {learned.name} and share: {shift.share} for {shift.name}, wanted learn for "
                "all shifts or for none"
            )
    for shift in shifts:
        if (shift.starts.minute % HALF_HOUR) or (shift.ends.minute % HALF_HOUR):
            raise ValueError(
                f"found {shift.name} from {shift.start} to {shift.end}, wanted whole or half hours where shares are "
                "learned: orders are counted by half hours"
            )


def _check_overlaps(in_order: Sequence[Shift]) -> None:
    for shift, later in zip(in_order, [*in_order[1:], in_order[0]], strict=True):
        gap = (later.starts.hour - shift.starts.hour) * 60 + later.starts.minute - shift.starts.minute
        if len(in_order) > 1 and shift.minutes > gap % 1440:
            raise ValueError(
                f"found {shift.name} and {later.name}, which overlap, wanted shares as numbers, or shifts that do "
                "not overlap: otherwise a time of day does not determine the shift of an order"
            )
