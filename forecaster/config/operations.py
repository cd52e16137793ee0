"""The sections of the pipeline file: what each may say, and what holds where it says nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Self

from cronsim import CronSim, CronSimError
from pydantic import Field, field_validator, model_validator

from forecaster.config import data_rules
from forecaster.config.base import Section
from forecaster.config.messages import nearest
from forecaster.config.sources import Source, SqlSource


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
    thin_share: float = Field(default=0.5, ge=0, le=1)
    """A batch that brings its newest day for a smaller share of the depots than the day before had is stopped."""
    late_days: int = Field(default=3, ge=0)
    """Readings up to this many days after their day are expected; later ones are a finding."""
    severity: Mapping[str, data_rules.Severity] = {}
    """Rule → what happens where it is broken: `quarantine` the row, `warn`, or `stop` the batch."""

    @field_validator("severity")
    @classmethod
    def _known(cls, declared: Mapping[str, data_rules.Severity]) -> Mapping[str, data_rules.Severity]:
        for rule, what in declared.items():
            if rule not in data_rules.RULES:
                raise ValueError(
                    f"unknown rule '{rule}'{nearest(rule, data_rules.RULES)}; rules: {', '.join(data_rules.RULES)}"
                )
            if what not in (may := data_rules.RULES[rule].may):
                raise ValueError(f"rule '{rule}': found '{what}', wanted {' or '.join(may)}")
        return declared


class Demand(Section):
    source: Source
    """One row a depot and day; with `aggregate`, one or more."""
    columns: DemandColumns = DemandColumns()
    """What the source calls its columns."""
    aggregate: Literal["none", "sum", "count"] = "none"
    """What a depot's rows of one local day make together: their `sum`, or their `count` when each row is one order."""
    missing: Literal["unknown", "zero"] = "unknown"
    """What it means that an open depot has no row for a day on which most others have one."""
    recorded: Literal["arrival", "next_day"] = "arrival"
    """When a row counts as known: on `arrival` in the lake, or, for archives, from the morning of the `next_day`."""
    rules: DemandRules = DemandRules()
    """What a reading must keep to."""

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        if self.aggregate != "none":
            if isinstance(self.source, SqlSource) and self.source.watermark:
                raise ValueError("aggregate needs all rows of a day at once, and source.watermark brings only new ones")
            if self.columns.recorded_at:
                raise ValueError("aggregate makes one reading of many rows, which cannot each have a recorded_at")
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
        return _snapshot(source)


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
        return _snapshot(source)


class EventColumns(Section):
    date: str = "date"
    """Column with the day, or the first of several."""
    kind: str = "kind"
    """Column with what it is; `closure` closes."""
    name: str = "name"
    """Column with what it is called; may be the same as another."""
    until: str = "until"
    """Column with the last day, where there is one; empty: the first."""
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
        return _snapshot(source)


def _snapshot(source: Source) -> Source:
    """What is gone from a snapshot is over, so it has to be read whole."""
    if isinstance(source, SqlSource) and source.watermark:
        raise ValueError("watermark reads only what is new, and this source is wanted whole each night")
    return source


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

    @model_validator(mode="after")
    def _subdivision_needs_country(self) -> Self:
        if self.subdivision and not self.country:
            raise ValueError("subdivision is given without country; wanted both, as in country: US, subdivision: NY")
        return self


class Model(Section):
    layers: int = Field(default=2, ge=1, le=4)
    """Recurrent layers."""
    hidden: int = Field(default=32, ge=4, le=1024)
    """Width of a layer."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations left out while training."""
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Quantile levels in rising order; 0.1, 0.5 and 0.9 are always among them."""

    @field_validator("quantiles")
    @classmethod
    def _levels(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        if list(levels) != sorted(set(levels)) or not all(0 < level < 1 for level in levels):
            raise ValueError(f"found {list(levels)}, wanted quantile levels between 0 and 1 in rising order")
        if missing := {0.1, 0.5, 0.9} - set(levels):
            raise ValueError(f"{sorted(missing)} missing: 0.5 is the point forecast, 0.1 and 0.9 are the 80 % band")
        return levels


class Hosts(Section):
    """Machines that train as one; each of the others runs `forecaster assist`, numbered from 1."""

    coordinator: str
    """Address of the machine that runs the night, as host:port with a free port; the others must reach it."""
    count: int = Field(ge=2)
    """Machines, the night's own among them."""

    @field_validator("coordinator")
    @classmethod
    def _address(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"found {address!r}, wanted host:port, as in trainer-0.internal:8476")
        return address


class Training(Section):
    preset: Literal["quick", "nightly", "best"] = "nightly"
    """How much is spent: `quick` for a look, `nightly`, or `best`, which takes several times as long."""
    epochs: int | None = Field(default=None, ge=1)
    """Times that the validation days are looked at; an epoch is then as many batches of random crops as cover every
    depot's history once. Left out: as many steps as the preset and the size of the data want."""
    batch_depots: int | None = Field(default=None, ge=1)
    """Crops of depots' histories in a batch. Left out: by the size of the data."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """The highest step size of the schedule."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """How the step size goes on from its highest: down along a cosine, or not at all."""
    history: Literal["crops", "whole"] = "crops"
    """What a batch holds: windows at random, or depots' whole histories, an epoch being all depots once."""
    members: int | None = Field(default=None, ge=1, le=32)
    """Models trained side by side from different keys; their quantiles are averaged. Left out: by the preset."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the products in training; parameters and sums are float32 in any case."""
    seed: int = 0
    """What randomness starts from: the same seed and data give the same model."""
    hosts: Hosts | None = None
    """Several machines train as one. Left out: the night's own devices."""


Baseline = Literal["seasonal_naive", "seasonal_window_average", "auto_ets", "theta", "mstl", "prophet", "lightgbm"]
Rival = Literal[
    "champion", "seasonal_naive", "seasonal_window_average", "auto_ets", "theta", "mstl", "prophet", "lightgbm"
]


class Backtest(Section):
    days: int = Field(default=30, ge=1)
    """Last days held out; each is forecast once, from cutoffs a horizon apart."""
    every: int | None = Field(default=None, ge=1)
    """Days from one cutoff to the next, where they shall be nearer: each day is then forecast several times."""
    retrain_days: int | None = Field(default=None, ge=1)
    """`forecaster backtest` also shows a model that is trained anew whenever so many days have passed since it was."""
    baselines: tuple[Baseline, ...] = ("seasonal_naive", "seasonal_window_average")
    """What the candidate is compared with beside the champion. The two of the default always are; the others need
    `pip install 'forecaster[baselines]'`."""


class Gate(Section):
    metric: Literal["wape", "mape", "mase", "wql"] = "wape"
    """What is compared, over all held-out days; less is better."""
    beat: tuple[Rival, ...] = ("seasonal_naive", "champion")
    """The models that the candidate must not be worse than; baselines among them are declared in `backtest`."""
    margin: float = Field(default=0.0, ge=0, lt=1)
    """Share by which the metric must be lower than that of each model to beat."""
    max_loss: float = Field(default=0.02, ge=0, lt=1)
    """Without a margin: a candidate that is not better than the champion goes out where it is surely (95 %) worse by no
    more than this share."""
    worst_depot: float = Field(default=0.25, gt=0)
    """Share by which none of the largest depots, which make half of the demand, may be served worse than by the
    champion, where that is more than chance."""
    coverage: tuple[float, float] = (0.74, 0.86)
    """Bounds for the share of days that fall into the 80 % interval."""
    max_bias: float = Field(default=0.03, gt=0)
    """Largest absolute bias, as a share of demand."""

    @field_validator("coverage")
    @classmethod
    def _bounds(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= bounds[0] < bounds[1] <= 1:
            raise ValueError(f"found {list(bounds)}, wanted two shares in rising order, as in [0.74, 0.86]")
        return bounds


class Crew(Section):
    """How many drivers a depot may have on an open day."""

    min: int = Field(default=1, ge=0)
    """Fewest drivers."""
    max: int | None = Field(default=None, ge=1)
    """Most drivers. Left out: as many as pay."""

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
    """Length of a shift."""
    cost_short: float = Field(gt=0)
    """Cost of one driver too few for a shift."""
    cost_idle: float = Field(gt=0)
    """Cost of one driver too many for a shift."""
    crew: Crew = Crew()
    """Limits of a depot's crew on an open day."""
    vans: Vans | None = None
    """The fleet: rosters need no more vans than there are. Left out: each driver has one."""


class Schedule(Section):
    cron: str = "15 3 * * *"
    """Minute, hour, day, month and weekday of the night, in the pipeline's time zone."""
    deadline: str = "05:30"
    """Local time by which the forecasts must be out, the first after `cron`'s."""
    catch_up: int = Field(default=7, ge=0)
    """Missed nights that the next one makes up for in the archive, the newest first."""
    refresh: str | None = None
    """When the champion forecasts again with late data, as `cron`; left out: never."""
    maintain: str = "0 12 * * 0"
    """When the lake is tidied and old things are removed, as `cron`."""
    max_training_hours: float = Field(default=4.0, gt=0)
    """A training that takes longer is ended; the champion forecasts, and the next night goes on where it was."""

    @field_validator("cron", "refresh", "maintain")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        wanted = "wanted 'minute hour day month weekday', as in '15 3 * * *'"
        if value is not None and not re.fullmatch(r"\d{1,2} \d{1,2}( [\d*/,-]+){3}", value):
            raise ValueError(f"found {value!r}, {wanted}")
        minute, hour = (int(part) for part in (value or "0 0").split()[:2])
        if minute > 59 or hour > 23:
            raise ValueError(f"found {value!r}, wanted a minute up to 59 and an hour up to 23")
        try:
            CronSim(value or "0 0 * * *", datetime(2024, 1, 1))
        except CronSimError:
            raise ValueError(f"found {value!r}, {wanted}") from None
        return value

    @field_validator("deadline")
    @classmethod
    def _deadline(cls, value: str) -> str:
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
            raise ValueError(f"found {value!r}, wanted a local time as in '05:30'")
        return value

    @property
    def hour_minute(self) -> tuple[int, int]:
        """When the night starts, local time."""
        minute, hour = (int(part) for part in self.cron.split()[:2])
        return hour, minute


class Retention(Section):
    """How long things are kept, in days; `forecaster maintain` removes what is older."""

    runs: int = Field(default=400, ge=30)
    """Runs in the ledger that neither the page shows nor a promotion names."""
    bundles: int = Field(default=30, ge=1)
    """Bundles that never reigned."""
    checkpoints: int = Field(default=14, ge=1)
    """Checkpoints of training."""
    caches: int = Field(default=30, ge=1)
    """Compiled programs, traces of training, and Prefect's flow runs."""
    lake: int = Field(default=7, ge=1)
    """Files of the lake that were put together, for whoever reads an older version."""
    publications: int = Field(default=8, ge=2)
    """How many publications the page can look back at; not days."""


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


Occasion = Literal["late", "degraded", "stop", "failed", "promotion", "rollback"]


class Notify(Section):
    blocks: tuple[str, ...] = ()
    """Prefect's notification blocks that are told, as type/name: custom-webhook/on-call, forecaster-email/on-call."""
    of: tuple[Occasion, ...] = ("late", "degraded", "stop", "failed", "promotion", "rollback")
    """What they are told of: nothing published by the deadline, a degraded night, a batch stopped, a failed night, a
    new champion, a step back to an earlier one."""

    @field_validator("blocks")
    @classmethod
    def _named(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        for block in blocks:
            if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", block):
                raise ValueError(f"found {block!r}, wanted type/name of a block, as in custom-webhook/on-call")
        return blocks
