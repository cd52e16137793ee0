"""Sections of the pipeline file about data: demand, depots, calendar and events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf, sqrt
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from forecaster.config import data_rules
from forecaster.config.base import Section
from forecaster.config.messages import nearest
from forecaster.config.sources import Source, WholeSource, is_incremental
from forecaster.core import timezones

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
LONGEST_ID = 200  # characters of a depot id


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"found {', '.join(repeated)} more than once, wanted each name once")
    return names


class DemandColumns(Section):
    depot_id: str = "depot_id"
    """Column with the depot."""
    date: str | tuple[str, str, str] = "date"
    """Column with the local calendar day, or with a timestamp (its local day counts); or three
    columns, as in `[year, month, day]`."""
    demand: str = "demand"
    """Column with the count; empty = unknown, 0 = open without orders. Not read with `aggregate:
    count`."""
    open: str | None = None
    """Column with 0 on closed days. Planned closures may also be events."""
    capped: str | None = None
    """Column with yes or no; yes: demand was at least the count, as on a day on which a shop sold
    out. The model learns an estimate of demand instead."""
    sold_out_at: str | None = None
    """Column with the local time, as in 14:30, from which nothing more could be ordered; empty if
    orders were possible all day. The count of a day with such a time is a lower bound of demand."""
    capacity: str | None = None
    """Column with the largest count that the depot could serve on the day; a count that reaches it
    is a lower bound of demand."""
    recorded_at: str | None = None
    """Column with the instant at which the source recorded the row, or the day of a snapshot: the
    last row of a depot's day counts. Without it: see `demand.recorded`."""
    order_id: str | None = None
    """Column with the order number, or with the line number if an order has several rows. With
    `aggregate`: of rows of one depot and day with the same number, the last one counts. For
    overlapping exports."""

    @field_validator("date")
    @classmethod
    def _three_columns(cls, names: str | tuple[str, str, str]) -> str | tuple[str, str, str]:
        if not isinstance(names, str):
            _each_once(names)
        return names

    @property
    def limits(self) -> tuple[str, ...]:
        """Declared columns that mark the days on which the count is a lower bound of demand."""
        return tuple(name for name in (self.capped, self.sold_out_at, self.capacity) if name)

    @property
    def day(self) -> str:
        """Name of the column with the day; the names of three columns are joined."""
        return self.date if isinstance(self.date, str) else "-".join(self.date)

    @property
    def day_columns(self) -> tuple[str, ...]:
        """Columns of the source that hold the day."""
        return (self.date,) if isinstance(self.date, str) else self.date


def _words(values: Any) -> Any:
    """Convert a value or a list of values to texts. Raises ValueError if there is none."""
    if isinstance(values, Mapping):
        return values
    listed = values if isinstance(values, list | tuple) else [values]
    if not listed:
        raise ValueError('found no value, wanted one or more; "" stands for an empty cell')
    return tuple("" if value is None else str(value) for value in listed)


class Excluded(Section):
    """Values that a row must not have."""

    values: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        alias="not", description="A value or a list of values of the column."
    )


Condition = Annotated[tuple[str, ...], BeforeValidator(_words)] | Excluded


class DemandRules(Section):
    max_demand: float = Field(default=1e7, gt=0)
    """Larger counts are quarantined."""
    spike_factor: float = Field(default=5, gt=1)
    """A count of more than this multiple of the depot's usual count on such a day is a spike."""
    flat_days: int = Field(default=14, ge=3)
    """The same count on this many consecutive days is a finding."""
    max_gap_days: int = Field(default=14, ge=1)
    """An open depot without readings for longer is a finding."""
    closed_after_days: int = Field(default=90, ge=1)
    """A depot without readings for longer counts as closed, unless its closing day is declared."""
    max_age_days: int | None = Field(default=None, ge=0)
    """Largest age of the newest reading, in days before the last complete day. An older history is
    not forecast; depots that are silent for longer are named. Left out: no limit."""
    unreadable_share: float = Field(default=0.1, ge=0, le=1)
    """A batch with a larger share of unreadable rows is stopped; ten such rows are always
    tolerated."""
    thin_share: float = Field(default=0.5, ge=0, le=1)
    """A batch whose newest day has a smaller share of the depots of the day before is stopped."""
    late_days: int = Field(default=3, ge=0)
    """Readings up to this many days after their day are on time; later ones are a finding."""
    severity: Mapping[str, data_rules.Severity] = {}
    """Rule → action: `quarantine` the row, `warn`, or `stop` the batch."""

    @field_validator("severity")
    @classmethod
    def _known_rules(cls, declared: Mapping[str, data_rules.Severity]) -> Mapping[str, data_rules.Severity]:
        for rule, severity in declared.items():
            if rule not in data_rules.RULES:
                raise ValueError(
                    f"unknown rule '{rule}'{nearest(rule, data_rules.RULES)}; rules: {', '.join(data_rules.RULES)}"
                )
            if severity not in (may := data_rules.RULES[rule].may):
                raise ValueError(f"rule '{rule}': found '{severity}', wanted {' or '.join(may)}")
        return declared


class Demand(Section):
    source: Source
    """One row for each depot and day; with `aggregate`, one or more."""
    columns: DemandColumns = DemandColumns()
    """Names of the source's columns."""
    depot: str | None = None
    """Id of the only depot of a source without a column of depots."""
    where: Mapping[str, Condition] = {}
    """Filter of rows by the values of their columns: `{status: [paid, sent]}` keeps rows with one
    of these values, `{status: {not: [cancelled]}}` leaves out rows with these values. Case and
    blanks around a value do not matter; "" stands for an empty cell."""
    aggregate: Literal["none", "sum", "count"] = "none"
    """Aggregation of a depot's rows of one local day: their `sum`, or their `count` if each row is
    one order."""
    negative: Literal["refuse", "subtract", "leave_out"] = "refuse"
    """Treatment of rows below 0, such as returns: `refuse` quarantines them; with `aggregate: sum`,
    `subtract` takes them off the day's sum, and `leave_out` counts them as 0."""
    date_zone: str | None = None
    """Time zone that turns instants of the date column into days, as in UTC for
    2024-03-05T00:00:00Z. Without it: the depot's zone."""
    day_starts: str | None = None
    """Local time at which a business day begins, at a full or half hour up to 12:00, as in "03:00":
    earlier timestamps belong to the previous day, which ends at that time."""
    closed_values: tuple[str, ...] = ()
    """Words in the column of counts that mark a day on which the depot was closed, as in
    `[CLOSED]`; upper or lower case."""
    missing: Literal["unknown", "zero"] = "unknown"
    """Meaning of a missing row of an open depot on a day on which most depots have one."""
    weekdays: Literal["learn", "all"] | tuple[Weekday, ...] = "learn"
    """Open weekdays: `learn` closes a weekday on which a depot never has a count; `all` closes
    none; a list such as `[mon, tue, wed, thu, fri]` declares the open ones."""
    recorded: Literal["arrival", "next_day"] = "arrival"
    """Instant from which a row is known: its `arrival` in the lake, or, for archives, the morning
    of the `next_day`."""
    rules: DemandRules = DemandRules()
    """Limits for readings."""

    @field_validator("weekdays", mode="before")
    @classmethod
    def _known_weekdays(cls, declared: Any) -> Any:
        expected = f"wanted learn, all, or a list of {', '.join(WEEKDAYS)}"
        if isinstance(declared, str):
            if declared not in (modes := ("learn", "all")):
                raise ValueError(f"found '{declared}'{nearest(declared, modes)}, {expected}")
        elif not isinstance(declared, (list, tuple)) or not declared:
            raise ValueError(f"found {declared!r}, {expected}")
        else:
            for word in declared:
                if word not in WEEKDAYS:
                    raise ValueError(f"found '{word}'{nearest(str(word), WEEKDAYS)}, {expected}")
        return declared

    @field_validator("depot")
    @classmethod
    def _one_line(cls, depot: str | None) -> str | None:
        if depot is None:
            return None
        if depot.strip() in ("", ".", "..") or len(depot.strip()) > LONGEST_ID or not depot.isprintable():
            raise ValueError(f"found {depot!r}, wanted an id in one line of at most {LONGEST_ID} characters")
        return depot.strip()

    @field_validator("day_starts")
    @classmethod
    def _at_a_half_hour(cls, text: str | None) -> str | None:
        if text is not None and not re.fullmatch(r"(0[0-9]|1[01]):[03]0|12:00", text):
            raise ValueError(f"found '{text}', wanted a full or half hour up to 12:00, as in \"03:00\"")
        return text

    @field_validator("date_zone")
    @classmethod
    def _exists(cls, zone: str | None) -> str | None:
        if zone is not None and not timezones.exists(zone):
            raise ValueError(f"unknown time zone '{zone}'; wanted one such as UTC{timezones.hint(zone)}")
        return zone

    @model_validator(mode="after")
    def _long_form(self) -> Self:
        if self.source.wide is not None:
            keys = {"depot": self.depot, "columns.date as a list": self.columns.day_columns[1:]}
            if set_keys := [key for key, value in keys.items() if value]:
                raise ValueError(f"{set_keys[0]} needs a row for each reading, and source.wide reads counts from cells")
        if self.depot is not None and "depot_id" in self.columns.model_fields_set:
            raise ValueError("depot names the only depot, and columns.depot_id a column of depots; wanted one of them")
        return self

    @property
    def first_half_hour(self) -> int:
        """Half hour of the clock at which a business day begins."""
        hour, minute = (int(part) for part in (self.day_starts or "00:00").split(":"))
        return 2 * hour + minute // 30

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        if self.aggregate != "none":
            if is_incremental(self.source):
                raise ValueError("aggregate needs all rows of a day at once, but source.watermark reads only new ones")
            if self.columns.recorded_at:
                raise ValueError("aggregate makes one reading of many rows, so rows cannot each have a recorded_at")
        if self.aggregate != "sum" and self.negative != "refuse":
            raise ValueError(f"negative: {self.negative} applies to the rows of a sum; wanted aggregate: sum with it")
        if self.aggregate == "none" and self.columns.order_id:
            raise ValueError(
                "columns.order_id identifies rows of the same order, but a row is a whole day; wanted aggregate: "
                "count or sum with it"
            )
        if self.aggregate == "count" and self.source.wide is not None:
            raise ValueError(
                "aggregate: count counts rows, and source.wide reads counts from cells; wanted only one of them"
            )
        return self


class DepotColumns(Section):
    depot_id: str = "depot_id"
    """Column with the depot."""
    opened: str | None = None
    """Column with the first day of business. Without it: the first reading."""
    closed: str | None = None
    """Column with the first day out of business; empty for open depots."""
    timezone: str | None = None
    """Column with the depot's time zone; empty: the pipeline's."""
    capacity: str | None = None
    """Column with the largest count that the depot can serve on a day; a count that reaches it is a
    lower bound of demand. Empty: no limit."""
    external_id: str | None = None
    """Column with the depot's number in 7shifts (location) or Deputy (area), for `schedule
    --export`. Left out: the depot id is that number."""


class Aliases(Section):
    source: WholeSource
    """Source with the columns alias (a former id) and depot_id (its current depot). Several former
    ids of one depot were merged into it."""


class Depots(Section):
    source: WholeSource
    """One row for each depot."""
    columns: DepotColumns = DepotColumns()
    """Names of the source's columns."""
    static: tuple[str, ...] = ()
    """Columns with one value for each depot: city, country, subdivision, and others that
    distinguish depots, such as size. They give the level of a new depot."""
    levels: tuple[str, ...] = ()
    """Columns that group depots for forecasts of totals, in addition to `city`: region, channel.
    Each depot has one of at most 1,000 values. No model reads a column that is not in `static`."""
    aliases: Aliases | None = None
    """Former ids of renamed or merged depots."""

    @field_validator("static", "levels")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(names)


class EventColumns(Section):
    date: str = "date"
    """Column with the day, or the first of several."""
    kind: str = "kind"
    """Column with the kind, in upper or lower case; `closure` closes the depot."""
    name: str = "name"
    """Column with the name; may equal another column."""
    until: str | None = "until"
    """Column with the last day; empty: the first day; 9999-12-31: until further notice."""
    depot_id: str | None = "depot_id"
    """Column with the depot; empty: the next columns decide; all empty: every depot."""
    city: str | None = "city"
    """Column with the city."""
    subdivision: str | None = "subdivision"
    """Column with the subdivision."""
    country: str | None = "country"
    """Column with the country."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that the source must have: the mandatory ones, and the declared ones."""
        must = {"date", "kind", "name", *self.model_fields_set}
        return tuple(name for key in type(self).model_fields if key in must and (name := getattr(self, key)))


class Events(Section):
    source: WholeSource
    """One row for each event and day, or an event from `date` to `until`."""
    columns: EventColumns = EventColumns()
    """Names of the source's columns. Those from `until` on are optional; null: not read."""


class Calendar(Section):
    holidays: bool = True
    """Public holidays by the depot's country and subdivision."""
    country: str | None = None
    """Country code (ISO 3166) for depots without a `country` attribute."""
    subdivision: str | None = None
    """Subdivision code for depots without a `subdivision` attribute."""
    events: Events | None = None
    """Source of promotions, closures and other events: day, kind, and scope."""
    known_future: tuple[str, ...] = ()
    """Covariates that are known for the horizon: columns of the demand source or kinds of events."""
    lead_error: Mapping[str, float | tuple[float, ...]] = {}
    """Column of numbers in `known_future` → standard deviation of the errors of its reports for the
    days ahead, in the column's own unit: that of the first day ahead, which grows with the square
    root of the days, or a list by day ahead, whose last number holds for all later days. Without
    it: learned from the reports in the lake."""

    @field_validator("known_future")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(names)

    @field_validator("lead_error", mode="before")
    @classmethod
    def _deviations(cls, declared: Any) -> Any:
        if not isinstance(declared, Mapping):
            raise ValueError(f"found {declared!r}, wanted a number for each covariate, as in {{temperature: 1.5}}")
        for name, value in declared.items():
            by_day = list(value) if isinstance(value, (list, tuple)) else [value]
            are_numbers = all(type(deviation) in (int, float) and 0 <= deviation < inf for deviation in by_day)
            if not by_day or not are_numbers or by_day != sorted(by_day):
                raise ValueError(
                    f"found {value!r} for {name}, wanted a standard deviation of at least 0, or a list of them by day "
                    "ahead that does not fall"
                )
        return declared

    @model_validator(mode="after")
    def _errors_of_reports(self) -> Self:
        for name in self.lead_error:
            if name not in self.known_future:
                near = nearest(name, self.known_future)
                raise ValueError(f"lead_error: found '{name}', wanted a covariate that known_future names{near}")
            if name == "open":
                raise ValueError("lead_error: found 'open', which has no error, wanted a column of numbers")
        return self

    def report_deviations(self, name: str, horizon: int) -> tuple[float, ...]:
        """Standard deviation of a covariate's reports on each day ahead, from `lead_error`; 0 if
        not declared."""
        value = self.lead_error.get(name, 0.0)
        if isinstance(value, tuple):
            return (*value, *(value[-1:] * horizon))[:horizon]
        return tuple(value * sqrt(day) for day in range(1, horizon + 1))

    @model_validator(mode="after")
    def _subdivision_needs_country(self) -> Self:
        if self.subdivision and not self.country:
            raise ValueError("found subdivision without country; wanted both, as in country: US, subdivision: NY")
        return self
