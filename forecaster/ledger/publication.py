"""Publication: the forecasts that one run publishes.

A `Publication` holds everything that the page shows: a forecast of every depot, the days before it
and the names of notable days.
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
WITHOUT_OWN_MODEL: frozenset[Tier] = frozenset({"prior", "fallback"})  # forecast without a model trained on the fleet
PAGE_LEVELS = (0.1, 0.5, 0.9)  # the page shows the median and the 80 % band


@dataclass(frozen=True)
class Shortage:
    """Reason why a depot has fewer drivers than it wants: no van is left within its reach."""

    place: str  # the city; empty: vans have no home depot
    share: float | None  # available / wanted vans; None: withheld from readers of some cities
    network: bool  # the whole network lacks vans; False: the city


@dataclass(frozen=True)
class LeftCrew:
    """Reason why a replanned day keeps its published crew."""

    drivers: int  # crew of the new plan
    saving: float  # expected saving of the change; negative if it gives a van to other depots
    change_cost: float  # declared cost, and premiums of a published schedule
    hour: int | None = None  # hour from which a depot may change once a day, if that is the reason
    # name and crew of each shift of the new plan; empty: no shifts are declared
    shifts: tuple[tuple[str, int], ...] = ()
    by_hand: bool = False  # a planner set the crew

    def __post_init__(self) -> None:
        _keep(self, shifts=tuple(map(tuple, self.shifts)))  # JSON returns lists


@dataclass(frozen=True)
class LearnedShares:
    """Shares of shifts on a depot's day, learned from times of day, and the size of their sample."""

    shares: tuple[tuple[str, float], ...]  # name and share of each shift; they sum to 1 except for rounding
    source: Literal["depot", "network", "hours"]  # origin of the days; hours: no days, shares follow the shifts' hours
    days: int  # days of the depot in the sample
    weekdays: int  # of these, those on the same weekday

    def __post_init__(self) -> None:
        _keep(self, shares=tuple(map(tuple, self.shares)))  # JSON returns lists


@dataclass(frozen=True)
class PublishedRoster:
    """A day's crew and its expected cost; money is in the unit of the declared costs."""

    vans: int | None  # None = the pipeline counts no vans
    chance_short: float  # probability that the day needs more drivers
    cost: float  # expected, of missing and idle drivers
    one_more: float | None  # expected cost with one driver more; None: forbidden by the limits
    one_fewer: float | None
    borrowed: tuple[tuple[str, int], ...] = ()  # vans of other depots of the city placed here: depot, number
    lent: tuple[tuple[str, int], ...] = ()  # own vans placed elsewhere: depot, number
    wanted: int | None = None  # drivers if there were vans for all; None: published before this field existed
    shortage: Shortage | None = None  # None: there are vans for all wanted drivers
    left: LeftCrew | None = None  # None: the crew is the plan's
    changed_at: datetime | None = None  # last change of the crew after its publication
    shifts: tuple[tuple[str, int], ...] = ()  # name and crew of each shift, summing to the day's; empty: no shifts
    shares: LearnedShares | None = None  # None: the shares are declared
    missing: tuple[tuple[str, int], ...] = ()  # name of each shift, and drivers for whom the week's plan has nobody
    by_hand: bool = False  # a planner set the crew

    def __post_init__(self) -> None:
        # JSON returns lists
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
        """Drivers of the crew who are not planned; the day's drivers are those who are."""
        return sum(count for _, count in self.missing)

    def to_json(self) -> dict[str, Any]:
        # Not `asdict`, which descends into every field of each day of each depot.
        inner = ((name, getattr(self, name)) for name in ("shortage", "left", "shares"))
        values = {name: None if value is None else dict(vars(value)) for name, value in inner}
        return vars(self) | values | {"changed_at": None if self.changed_at is None else self.changed_at.isoformat()}


@dataclass(frozen=True)
class PublishedOverride:
    """A planner's number that replaces the model's, which is kept next to it."""

    id: int
    orders: int
    quantiles: tuple[float, ...]  # the model's, aligned with the publication's quantile levels
    reason: str
    note: str
    by: str
    at: datetime
    until: date  # last day as of which a publication applies it

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
    """Change of a day's median since an earlier publication, in whole orders; the parts add up
    exactly."""

    since: date  # local day as of which the earlier publication was made
    before: int
    parts: tuple[tuple[str, int], ...]  # name of each input and its effect, in the order in which inputs were swapped

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
    quantiles: tuple[float, ...]  # aligned with the publication's quantile levels; all 0 on a closed day
    drivers: int | None = None  # drivers to roster; None: the pipeline plans no staff
    roster: PublishedRoster | None = None  # details of that crew, on open days
    override: PublishedOverride | None = None  # None: the number is the model's
    change: PublishedChange | None = None  # None: the previous day published no forecast of this day

    def __post_init__(self) -> None:
        # accepts NumPy scalars; stores plain numbers, which become JSON
        _keep(self, horizon=int(self.horizon), open=bool(self.open), quantiles=tuple(map(float, self.quantiles)))
        _keep(self, drivers=None if self.drivers is None else int(self.drivers))


@dataclass(frozen=True)
class RecentDay:
    """Actual of a day up to the cutoff, in orders; `demand` None: unknown (NaN becomes None).

    `served` is the count of a day on which it was only a lower bound; `demand` is an estimate then.
    None: both are equal.
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
        """The count; None: unknown."""
        return self.demand if self.served is None else self.served

    def to_row(self) -> list[Any]:
        """Return the day as stored in a publication's row."""
        day: list[Any] = [self.date.isoformat(), self.demand, self.open]
        return day if self.served is None else [*day, self.served]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> RecentDay:
        return cls(date.fromisoformat(row[0]), *row[1:])


@dataclass(frozen=True)
class PublishedMark:
    """A notable day: a holiday, an event, a closure."""

    date: date
    kind: str
    name: str


@dataclass(frozen=True)
class PublishedDepot:
    """One depot of a publication: its forecasts, and what the page shows around them."""

    depot_id: str
    days: tuple[PublishedDay, ...]  # cutoff + 1 … cutoff + horizon
    recent: tuple[RecentDay, ...] = ()  # oldest first, up to the cutoff
    attributes: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[PublishedMark, ...] = ()
    timezone: str | None = None  # zone of its calendar days; None: the publication's
    tier: Tier | None = None  # None: the publication's
    bundle_digest: str | None = None  # digest of the canary that this depot sees; None: the publication's
    # quantiles of the sum of each whole week from the first day on, aligned with the publication's
    # quantile levels
    weeks: tuple[tuple[float, ...], ...] = ()

    def may_open(self, day: date) -> bool:
        """Return true if the day is closed only for its weekday, so that a planner may open it."""
        return any(mark.date == day and mark.kind == CLOSED_WEEKDAY for mark in self.marks)

    def __post_init__(self) -> None:
        _keep(self, attributes={name: str(word) for name, word in self.attributes.items()})
        _keep(self, weeks=tuple(tuple(map(float, week)) for week in self.weeks))


@dataclass(frozen=True)
class PublishedTotal:
    """Total of a group of depots, or of the network, on one day or over a week, in orders."""

    name: str  # value of `level` shared by the depots of the group; empty: the network
    target_date: date  # first of `days`
    # quantiles of the sum, aligned with the publication's quantile levels; not sums of quantiles
    quantiles: tuple[float, ...]
    level: str = "city"  # column of the depots source that forms the groups
    days: int = 1

    def __post_init__(self) -> None:
        _keep(self, quantiles=tuple(map(float, self.quantiles)))

    @property
    def place(self) -> tuple[bool, str, str, int, date]:
        """Sort key of a publication's totals: the network first; then by level, name, length and
        date."""
        return (bool(self.name), self.level, self.name, self.days, self.target_date)


@dataclass(frozen=True)
class Publication:
    """The forecasts of one run for every depot, ready to be shown. Instants have a zone."""

    pipeline: str
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    horizon: int
    tier: Tier
    model: str  # for people, e.g. "harbor-fleet v3" or "seasonal naive"
    timezone: str  # zone whose calendar days are forecast
    levels: tuple[float, ...]
    depots: tuple[PublishedDepot, ...]
    bundle_digest: str | None = None
    title: str | None = None
    note: str | None = None  # sentence for the page, e.g. why the run's model was not admitted
    totals: tuple[PublishedTotal, ...] = ()  # totals of the network and of each group of depots, by day and week
    desk: str | None = None  # name of the file of its inputs (`saved_inputs`)
    plans: tuple[WeekPlan, ...] = ()  # of depots with declared people

    def __post_init__(self) -> None:
        in_order = sorted(self.totals, key=lambda total: total.place)
        by_depot = tuple(sorted(self.plans, key=lambda plan: plan.depot_id))
        _keep(self, levels=tuple(map(float, self.levels)), totals=tuple(in_order), plans=by_depot)

    @property
    def horizon_days(self) -> list[tuple[int, date]]:
        """Forecast days, each with its number of days after the cutoff."""
        return [(step, self.cutoff + timedelta(days=step)) for step in range(1, self.horizon + 1)]


def _keep(value: object, **fields: object) -> None:
    """Set fields of a frozen value during its construction."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
