"""Publication: the forecasts that one night publishes.

A `Publication` is the page's whole world: one forecast of every depot, with the days before it and the names of the
days to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal, Self, get_args

from forecaster.core.marks import CLOSED_WEEKDAY
from forecaster.ledger.week_plan import WeekPlan

Tier = Literal["fresh", "champion", "prior", "fallback"]
TIERS: tuple[Tier, ...] = get_args(Tier)
WITHOUT_OWN_MODEL: frozenset[Tier] = frozenset({"prior", "fallback"})  # of what no model of the fleet's own forecast
PAGE_LEVELS = (0.1, 0.5, 0.9)  # the page shows the median and the 80 % band


@dataclass(frozen=True)
class Shortage:
    """Why a depot has fewer drivers than it wants: no van is left where it could have one from."""

    place: str  # the city; empty: vans have no home
    share: float | None  # the vans there are, of those that are wanted; None = withheld from readers of some cities
    network: bool  # in the whole network; False: in the city


@dataclass(frozen=True)
class LeftCrew:
    """Why a day that was planned anew keeps the crew that it was published with."""

    drivers: int  # of the new plan
    saving: float  # expected of changing to it; below 0 where it gives a van to others
    change_cost: float  # declared, and premiums of a published schedule
    hour: int | None = None  # from which on a depot has one change a day, where that is why
    shifts: tuple[tuple[str, int], ...] = ()  # name and crew of each shift of the new plan; empty: none are declared
    by_hand: bool = False  # a planner set the crew

    def __post_init__(self) -> None:
        _keep(self, shifts=tuple(map(tuple, self.shifts)))  # JSON gives lists


@dataclass(frozen=True)
class LearnedShares:
    """The shares of shifts on a depot's day, where they are learned from times of day, and from how much."""

    shares: tuple[tuple[str, float], ...]  # name and share of each shift, which sum to 1 but for rounding
    source: Literal["depot", "network", "hours"]  # whose days taught them; hours: none did, shifts share as hours do
    days: int  # of the depot, by which they are learned
    weekdays: int  # of these, on the weekday of this day

    def __post_init__(self) -> None:
        _keep(self, shares=tuple(map(tuple, self.shares)))  # JSON gives lists


@dataclass(frozen=True)
class PublishedRoster:
    """A day's crew and its expected cost; money is in the unit of the declared costs."""

    vans: int | None  # None = the pipeline counts no vans
    chance_short: float  # that the day needs more drivers
    cost: float  # expected, of missing and idle drivers
    one_more: float | None  # expected cost with one driver more; None = the limits forbid it
    one_fewer: float | None
    borrowed: tuple[tuple[str, int], ...] = ()  # vans of other depots of the city that stand here: whose, how many
    lent: tuple[tuple[str, int], ...] = ()  # own vans that stand elsewhere: where, how many
    wanted: int | None = None  # drivers, were there vans for all; None = published before that was told
    shortage: Shortage | None = None  # None = there are vans for all that are wanted
    left: LeftCrew | None = None  # None = the crew is the plan's
    changed_at: datetime | None = None  # when the crew last became another after it was published
    shifts: tuple[tuple[str, int], ...] = ()  # name and crew of each shift, which sum to the day's; empty: none
    shares: LearnedShares | None = None  # of these shifts; None = they are declared
    missing: tuple[tuple[str, int], ...] = ()  # name of each shift, and drivers for whom its week's plan has nobody
    by_hand: bool = False  # a planner set the crew

    def __post_init__(self) -> None:
        # JSON gives lists.
        for name in ("borrowed", "lent", "shifts", "missing"):
            _keep(self, **{name: tuple(map(tuple, getattr(self, name)))})

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        shortage, left, at, shares = (content.get(name) for name in ("shortage", "left", "changed_at", "shares"))
        values = {
            "shortage": None if shortage is None else Shortage(**shortage),
            "left": None if left is None else LeftCrew(**left),
            "changed_at": None if at is None else datetime.fromisoformat(at),
            "shares": None if shares is None else LearnedShares(**shares),
        }
        return cls(**{**content, **values})

    @property
    def missing_drivers(self) -> int:
        """Drivers of the crew who do not come: the day's drivers are those who do."""
        return sum(count for _, count in self.missing)

    def to_json(self) -> dict[str, Any]:
        # Not by `asdict`, which looks into every field of each day of each depot.
        inner = ((name, getattr(self, name)) for name in ("shortage", "left", "shares"))
        values = {name: None if value is None else dict(vars(value)) for name, value in inner}
        return vars(self) | values | {"changed_at": None if self.changed_at is None else self.changed_at.isoformat()}


@dataclass(frozen=True)
class PublishedOverride:
    """A planner's number in the place of the model's, which stays next to it."""

    id: int
    orders: int
    quantiles: tuple[float, ...]  # the model's, aligned with the publication's levels
    reason: str
    note: str
    by: str
    at: datetime
    until: date  # the last day as of which a publication takes it up

    def __post_init__(self) -> None:
        _keep(self, quantiles=tuple(map(float, self.quantiles)))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        at, until = datetime.fromisoformat(content["at"]), date.fromisoformat(content["until"])
        return cls(**{**content, "at": at, "until": until})

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"at": self.at.isoformat(), "until": self.until.isoformat()}


@dataclass(frozen=True)
class PublishedChange:
    """Change of the median of a day since an earlier publication, in whole orders; the parts add up
    exactly."""

    since: date  # the local day as of which the earlier one was made
    before: int
    parts: tuple[tuple[str, int], ...]  # in the order in which inputs were swapped: what, by how much

    def __post_init__(self) -> None:
        _keep(self, parts=tuple((name, int(orders)) for name, orders in self.parts))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(date.fromisoformat(content["since"]), content["before"], tuple(map(tuple, content["parts"])))

    @property
    def total(self) -> int:
        return sum(orders for _, orders in self.parts)

    def to_json(self) -> dict[str, Any]:
        return {"since": self.since.isoformat(), "before": self.before, "parts": [list(part) for part in self.parts]}


@dataclass(frozen=True)
class PublishedDay:
    """One depot's forecast for one local calendar day, in orders."""

    target_date: date
    horizon: int  # days after the cutoff, from 1
    open: bool
    quantiles: tuple[float, ...]  # aligned with the publication's levels; all 0 on a closed day
    drivers: int | None = None  # whom to roster; None = the pipeline plans no staff
    roster: PublishedRoster | None = None  # what is said of that crew, on open days
    override: PublishedOverride | None = None  # whose number this is; None = the model's
    change: PublishedChange | None = None  # None = the day before published nothing of this day

    def __post_init__(self) -> None:
        # NumPy scalars are welcome here and plain numbers afterwards: they end as JSON.
        _keep(self, horizon=int(self.horizon), open=bool(self.open), quantiles=tuple(map(float, self.quantiles)))
        _keep(self, drivers=None if self.drivers is None else int(self.drivers))


@dataclass(frozen=True)
class RecentDay:
    """Actual of a day up to the cutoff, in orders; `demand` None = not known (NaN becomes None).

    `served` is the count of a day on which it was a lower bound; `demand` then is an estimate. None:
    both are the same.
    """

    date: date
    demand: float | None
    open: bool = True
    served: float | None = None

    def __post_init__(self) -> None:
        is_known = self.demand is not None and not math.isnan(self.demand)
        _keep(self, demand=float(self.demand) if is_known and self.demand is not None else None, open=bool(self.open))

    @property
    def came(self) -> float | None:
        """The count; None = not known."""
        return self.demand if self.served is None else self.served

    def to_row(self) -> list[Any]:
        """The day as a publication's row has it."""
        day: list[Any] = [self.date.isoformat(), self.demand, self.open]
        return day if self.served is None else [*day, self.served]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> RecentDay:
        return cls(date.fromisoformat(row[0]), *row[1:])


@dataclass(frozen=True)
class PublishedMark:
    """A day worth naming: a holiday, an event, a closure."""

    date: date
    kind: str
    name: str


@dataclass(frozen=True)
class PublishedDepot:
    """One depot of a publication: what is to come, and what the page needs around it."""

    depot_id: str
    days: tuple[PublishedDay, ...]  # cutoff + 1 … cutoff + horizon
    recent: tuple[RecentDay, ...] = ()  # oldest first, up to the cutoff
    attributes: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[PublishedMark, ...] = ()
    timezone: str | None = None  # whose calendar days are its own; None = the publication's
    tier: Tier | None = None  # None = the publication's
    bundle_digest: str | None = None  # of the canary that this depot sees; None = the publication's
    # quantiles of the sum of each whole week from the first day on, aligned with the publication's levels
    weeks: tuple[tuple[float, ...], ...] = ()

    def may_open(self, day: date) -> bool:
        """Is the day closed for its weekday alone, so that a planner may open it?"""
        return any(mark.date == day and mark.kind == CLOSED_WEEKDAY for mark in self.marks)

    def __post_init__(self) -> None:
        _keep(self, attributes={name: str(word) for name, word in self.attributes.items()})
        _keep(self, weeks=tuple(tuple(map(float, week)) for week in self.weeks))


@dataclass(frozen=True)
class PublishedTotal:
    """Total of a group of depots, or of the network, on one day or over a week, in orders."""

    name: str  # the value of `level` that the depots of the group have; empty = the network
    target_date: date  # the first of `days`
    quantiles: tuple[float, ...]  # aligned with the publication's levels; of the sum, which no sum of quantiles is
    level: str = "city"  # the column of the depots source that groups them
    days: int = 1

    def __post_init__(self) -> None:
        _keep(self, quantiles=tuple(map(float, self.quantiles)))

    @property
    def place(self) -> tuple[bool, str, str, int, date]:
        """Place among the totals of a publication: the network first; by level, name, and length."""
        return (bool(self.name), self.level, self.name, self.days, self.target_date)


@dataclass(frozen=True)
class Publication:
    """The forecasts of one night for every depot, ready to be shown. Instants carry a zone."""

    pipeline: str
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    horizon: int
    tier: Tier
    model: str  # for people, as in "harbor-fleet v3" or "seasonal naive"
    timezone: str  # the zone whose calendar days are forecast
    levels: tuple[float, ...]
    depots: tuple[PublishedDepot, ...]
    bundle_digest: str | None = None
    title: str | None = None
    note: str | None = None  # a sentence for the page, as in why tonight's model was not admitted
    totals: tuple[PublishedTotal, ...] = ()  # of the network and of each group of depots, by day and week
    desk: str | None = None  # names the file of what it was made from (`saved_inputs`)
    plans: tuple[WeekPlan, ...] = ()  # of depots whose people are declared

    def __post_init__(self) -> None:
        in_order = sorted(self.totals, key=lambda total: total.place)
        by_depot = tuple(sorted(self.plans, key=lambda plan: plan.depot_id))
        _keep(self, levels=tuple(map(float, self.levels)), totals=tuple(in_order), plans=by_depot)

    @property
    def horizon_days(self) -> list[tuple[int, date]]:
        """The days that are forecast, each with its number of days after the cutoff."""
        return [(step, self.cutoff + timedelta(days=step)) for step in range(1, self.horizon + 1)]


def _keep(value: object, **fields: object) -> None:
    """Settle fields of a frozen value while it is being made."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
