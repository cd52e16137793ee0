"""Sections of the pipeline file about data: demand, depots, calendar and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from forecaster.config import data_rules
from forecaster.config.base import Section
from forecaster.config.messages import nearest
from forecaster.config.sources import Source, is_incremental, whole_rows
from forecaster.core import timezones

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"found {', '.join(repeated)} more than once, wanted each name once")
    return names


class DemandColumns(Section):
    depot_id: str = "depot_id"
    """Column that names the depot."""
    date: str = "date"
    """Column with the local calendar day, or with a timestamp, which falls on its local day."""
    demand: str = "demand"
    """Column with the count; empty = not known, 0 = open and none came. Not read with `aggregate: count`."""
    open: str | None = None
    """Column that is 0 on days the depot is closed; planned closures can also come from events."""
    recorded_at: str | None = None
    """Column with the instant at which the source recorded the row; without it, `demand.recorded` decides."""
    order_id: str | None = None
    """Column with the number of each row's order or, where an order has several rows, of its line, with `aggregate`:
    rows of one depot and day with the same number count once, the last of them. For exports that overlap."""


class DemandRules(Section):
    max_demand: float = Field(default=1e7, gt=0)
    """A larger count is quarantined."""
    spike_factor: float = Field(default=5, gt=1)
    """A count of more than so many times what the depot usually has on such a day is a spike."""
    flat_days: int = Field(default=14, ge=3)
    """The same count on so many days in a row is a finding."""
    max_gap_days: int = Field(default=14, ge=1)
    """A depot in business without readings for longer is a finding."""
    closed_after_days: int = Field(default=90, ge=1)
    """A depot without readings for longer counts as closed, where no closing day is declared."""
    max_age_days: int | None = Field(default=None, ge=0)
    """No forecast starts from a history whose newest reading is more days old than this, counted from the last day that
    was over; depots that are silent for longer than the others are named. Left out: any age will do."""
    unreadable_share: float = Field(default=0.1, ge=0, le=1)
    """A batch of which a larger share of the rows cannot be read is stopped; ten such rows are always borne with."""
    thin_share: float = Field(default=0.5, ge=0, le=1)
    """A batch that brings its newest day for a smaller share of the depots than the day before had is stopped."""
    late_days: int = Field(default=3, ge=0)
    """Readings up to this many days after their day are expected; later ones are a finding."""
    severity: Mapping[str, data_rules.Severity] = {}
    """Rule → what happens where it is broken: `quarantine` the row, `warn`, or `stop` the batch."""

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
    """One row a depot and day; with `aggregate`, one or more."""
    columns: DemandColumns = DemandColumns()
    """What the source calls its columns."""
    aggregate: Literal["none", "sum", "count"] = "none"
    """What a depot's rows of one local day make together: their `sum`, or their `count` when each row is one order."""
    date_zone: str | None = None
    """Zone in which the instants of the date column are days, as in UTC for 2024-03-05T00:00:00Z; without it an instant
    falls on the local day of its depot."""
    missing: Literal["unknown", "zero"] = "unknown"
    """What it means that an open depot has no row for a day on which most others have one."""
    weekdays: Literal["learn", "all"] | tuple[Weekday, ...] = "learn"
    """On which weekdays depots are open: `learn` takes a weekday on which a depot never has a count, while it otherwise
    reports, as closed; `all` takes none; a list such as `[mon, tue, wed, thu, fri]` declares the open ones."""
    recorded: Literal["arrival", "next_day"] = "arrival"
    """When a row counts as known: on `arrival` in the lake, or, for archives, from the morning of the `next_day`."""
    rules: DemandRules = DemandRules()
    """What a reading must keep to."""

    @field_validator("weekdays", mode="before")
    @classmethod
    def _known_weekdays(cls, declared: Any) -> Any:
        wanted = f"wanted learn, all, or a list of {', '.join(WEEKDAYS)}"
        if isinstance(declared, str):
            if declared not in (words := ("learn", "all")):
                raise ValueError(f"found '{declared}'{nearest(declared, words)}, {wanted}")
        elif not isinstance(declared, (list, tuple)) or not declared:
            raise ValueError(f"found {declared!r}, {wanted}")
        else:
            for word in declared:
                if word not in WEEKDAYS:
                    raise ValueError(f"found '{word}'{nearest(str(word), WEEKDAYS)}, {wanted}")
        return declared

    @field_validator("date_zone")
    @classmethod
    def _exists(cls, zone: str | None) -> str | None:
        if zone is not None and not timezones.exists(zone):
            raise ValueError(f"unknown time zone '{zone}'; wanted one such as UTC{timezones.hint(zone)}")
        return zone

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        if self.aggregate != "none":
            if is_incremental(self.source):
                raise ValueError("aggregate needs all rows of a day at once, and source.watermark brings only new ones")
            if self.columns.recorded_at:
                raise ValueError("aggregate makes one reading of many rows, which cannot each have a recorded_at")
        elif self.columns.order_id:
            raise ValueError(
                "columns.order_id says which rows are the same order, and a row is a whole day; wanted aggregate: "
                "count or sum with it"
            )
        if self.aggregate == "count" and self.source.wide is not None:
            raise ValueError(
                "aggregate: count counts rows, and source.wide reads counts from cells; wanted one of both"
            )
        return self


class DepotColumns(Section):
    depot_id: str = "depot_id"
    """Column that names the depot."""
    opened: str | None = None
    """Column with the first day of business; without it the first reading decides."""
    closed: str | None = None
    """Column with the first day out of business; empty for depots in business."""
    timezone: str | None = None
    """Column with the zone whose local days the depot counts; where it is empty, the pipeline's."""


class Aliases(Section):
    source: Source
    """Source with columns alias and depot_id: an old id, and the depot that it belongs to now. Several old ids of one
    depot were merged into it."""

    @field_validator("source")
    @classmethod
    def _whole(cls, source: Source) -> Source:
        return whole_rows(source)


class Depots(Section):
    source: Source
    """One row a depot."""
    columns: DepotColumns = DepotColumns()
    """What the source calls its columns."""
    static: tuple[str, ...] = ()
    """Columns that are one value a depot: city, country, subdivision, and what else tells depots apart, such as a kind
    or a size: they tell the level of a new depot."""
    aliases: Aliases | None = None
    """Former ids of renamed or merged depots."""

    @field_validator("source")
    @classmethod
    def _whole(cls, source: Source) -> Source:
        return whole_rows(source)

    @field_validator("static")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(names)


class EventColumns(Section):
    date: str = "date"
    """Column with the day, or the first of several."""
    kind: str = "kind"
    """Column with what it is, in any case; `closure` closes."""
    name: str = "name"
    """Column with what it is called; may be the same as another."""
    until: str = "until"
    """Column with the last day, where there is one; empty: the first; 9999-12-31: until further notice."""
    depot_id: str = "depot_id"
    """Column with the depot it concerns, where there is one; empty: see the next ones; all empty: every depot."""
    city: str = "city"
    """Column with the city it concerns, where there is one."""
    subdivision: str = "subdivision"
    """Column with the subdivision it concerns, where there is one."""
    country: str = "country"
    """Column with the country it concerns, where there is one."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that the source must have: those of every event, and what the file declares."""
        must = {"date", "kind", "name", *self.model_fields_set}
        return tuple(getattr(self, key) for key in type(self).model_fields if key in must)


class Events(Section):
    source: Source
    """One row an event and day, or an event from `date` to `until`."""
    columns: EventColumns = EventColumns()
    """What the source calls its columns."""

    @field_validator("source")
    @classmethod
    def _whole(cls, source: Source) -> Source:
        return whole_rows(source)


class Calendar(Section):
    holidays: bool = True
    """Public holidays by the depot's country and subdivision."""
    country: str | None = None
    """Country code (ISO 3166) for depots without a `country` attribute."""
    subdivision: str | None = None
    """Subdivision code for depots without a `subdivision` attribute."""
    events: Events | None = None
    """Source with promotions, closures and the like: when, of which kind, and whom they concern."""
    known_future: tuple[str, ...] = ()
    """Covariates known for the horizon: columns of the demand source or kinds of events."""

    @field_validator("known_future")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(names)

    @model_validator(mode="after")
    def _subdivision_needs_country(self) -> Self:
        if self.subdivision and not self.country:
            raise ValueError("subdivision is given without country; wanted both, as in country: US, subdivision: NY")
        return self
