"""Publication: the forecasts that one night publishes, and the integrity checks that they must pass.

A `Publication` is the page's whole world: one forecast of every depot, with the days before it and the names of the
days to know. `objections` says in sentences why one must not go out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from itertools import chain, islice, pairwise
from typing import Any, Literal, Self, get_args

from forecaster.core import timezones
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
    change_cost: float  # declared
    hour: int | None = None  # from which on a depot has one change a day, where that is why
    shifts: tuple[tuple[str, int], ...] = ()  # name and crew of each shift of the new plan; empty: none are declared

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
    """Actual of a day up to the cutoff, in orders; `demand` None = not known (NaN becomes None)."""

    date: date
    demand: float | None
    open: bool = True

    def __post_init__(self) -> None:
        is_known = self.demand is not None and not math.isnan(self.demand)
        _keep(self, demand=float(self.demand) if is_known and self.demand is not None else None, open=bool(self.open))


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

    def may_open(self, day: date) -> bool:
        """Is the day closed for its weekday alone, so that a planner may open it?"""
        return any(mark.date == day and mark.kind == CLOSED_WEEKDAY for mark in self.marks)

    def __post_init__(self) -> None:
        _keep(self, attributes={name: str(word) for name, word in self.attributes.items()})


@dataclass(frozen=True)
class PublishedTotal:
    """Total of a city, or of the network, on one day, in orders."""

    city: str  # empty = the network
    target_date: date
    quantiles: tuple[float, ...]  # aligned with the publication's levels; of the sum, which no sum of quantiles is

    def __post_init__(self) -> None:
        _keep(self, quantiles=tuple(map(float, self.quantiles)))


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
    totals: tuple[PublishedTotal, ...] = ()  # of the network and of each city, by city and day
    desk: str | None = None  # names the file of what it was made from (`saved_inputs`)
    plans: tuple[WeekPlan, ...] = ()  # of depots whose people are declared

    def __post_init__(self) -> None:
        in_order = sorted(self.totals, key=lambda total: (total.city, total.target_date))
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


def objections(publication: Publication, most: int = 5, *, in_parts: bool = False) -> tuple[str, ...]:
    """Integrity check: why this publication must not go out, at most `most` sentences; empty when it is whole.

    With `in_parts` its depots are not looked at: `objections_to_depots` checks each part where it is made.
    """
    of_depots = () if in_parts else chain(_wrong_ids(publication), _wrong_depots(publication))
    return tuple(islice(chain(_wrong_head(publication), of_depots, _wrong_totals(publication)), most))


def objections_to_depots(
    depots: Iterable[PublishedDepot], levels: Sequence[float], days: Sequence[date], most: int = 5
) -> tuple[str, ...]:
    """The same for some depots of a publication of these quantile levels and days."""
    numbered = list(enumerate(days, 1))
    return tuple(islice(chain.from_iterable(_wrong_depot(depot, levels, numbered) for depot in depots), most))


def _wrong_depots(publication: Publication) -> Iterator[str]:
    days = publication.horizon_days
    return chain.from_iterable(_wrong_depot(depot, publication.levels, days) for depot in publication.depots)


def _wrong_totals(publication: Publication) -> Iterator[str]:
    days = {day for _, day in publication.horizon_days}
    for total in publication.totals:
        yield from _wrong_total(total, publication, days)


def _wrong_head(publication: Publication) -> Iterator[str]:
    """Objections to the publication as a whole."""
    levels = publication.levels
    if publication.tier not in TIERS:
        yield f"tier is {publication.tier!r}, wanted one of {', '.join(TIERS)}"
    if not timezones.exists(publication.timezone):
        yield f"timezone is {publication.timezone!r}, wanted a zone such as Europe/Berlin"
    if list(levels) != sorted(set(levels)) or not set(PAGE_LEVELS) <= set(levels):
        yield f"levels are {list(levels)}, wanted rising quantile levels with 0.1, 0.5 and 0.9 among them"


def _wrong_ids(publication: Publication) -> Iterator[str]:
    if not publication.depots:
        yield "there is no depot in it"
    ids = [depot.depot_id for depot in publication.depots]
    # Counting is quadratic: only where the ids are known to repeat.
    for repeated_id in sorted({name for name in ids if ids.count(name) > 1} if len(set(ids)) < len(ids) else ()):
        yield f"depot {repeated_id!r} stands in it twice"


def _wrong_depot(depot: PublishedDepot, levels: Sequence[float], days: list[tuple[int, date]]) -> Iterator[str]:
    """Contradictions in one depot; `days` are the horizon's, each with its number of days after the cutoff."""
    cutoff = days[0][1] - timedelta(days=1)
    if not depot.depot_id:
        yield "a depot has an empty id"
    if depot.timezone is not None and not timezones.exists(depot.timezone):
        yield f"depot {depot.depot_id!r} has timezone {depot.timezone!r}, wanted a zone such as Europe/Berlin"
    if [(day.horizon, day.target_date) for day in depot.days] != days:
        published = ", ".join(str(day.target_date) for day in depot.days) or "no day"
        yield (f"depot {depot.depot_id!r} has {published}, wanted the {len(days)} days after {cutoff}")
    for day in depot.days:
        if objection := _wrong_day(day, levels):
            yield f"depot {depot.depot_id!r}, {day.target_date}: {objection}"
    for past in depot.recent:
        if past.date > cutoff or (past.demand is not None and not 0 <= past.demand < math.inf):
            yield (
                f"depot {depot.depot_id!r}, {past.date}: recent demand {past.demand}, "
                f"wanted a finite number of orders, 0 or more, not after {cutoff}"
            )


def _wrong_total(total: PublishedTotal, publication: Publication, days: set[date]) -> Iterator[str]:
    whose = f"the total of {total.city or 'the network'}, {total.target_date}"
    if total.target_date not in days:
        yield f"{whose}: wanted one of the {publication.horizon} days after {publication.cutoff}"
    if objection := _wrong_quantiles(total.quantiles, len(publication.levels)):
        yield f"{whose}: {objection}"


def _wrong_day(day: PublishedDay, levels: Sequence[float]) -> str | None:
    """Objections to one day's forecast."""
    if objection := _wrong_quantiles(day.quantiles, len(levels)):
        return objection
    if 0.5 in levels and (objection := _wrong_planning(day, day.quantiles[levels.index(0.5)])):
        return objection
    if not day.open and any(day.quantiles):
        return f"quantiles {list(day.quantiles)} on a closed day, wanted 0"
    if day.drivers is not None and day.drivers < 0:
        return f"{day.drivers} drivers, wanted 0 or more"
    return None if day.roster is None else _wrong_roster(day.roster)


def _wrong_planning(day: PublishedDay, median: float) -> str | None:
    """Objections to an override, and to what is said of a change."""
    if day.override is not None:
        if objection := _wrong_quantiles(day.override.quantiles, len(day.quantiles)):
            return f"the model's {objection}"
        if median != day.override.orders:
            return f"an override of {day.override.orders} and a median of {median}, wanted the same number"
    if day.change is not None and day.change.before + day.change.total != round(median):
        parts = " + ".join(str(orders) for _, orders in day.change.parts)
        return f"a change of {day.change.before} + {parts}, wanted the sum to be {round(median)}"
    return None


def _wrong_roster(roster: PublishedRoster) -> str | None:
    if not 0 <= roster.chance_short <= 1:
        return f"a chance of {roster.chance_short} to be short, wanted one from 0 to 1"
    money = [amount for amount in (roster.cost, roster.one_more, roster.one_fewer) if amount is not None]
    if not all(0 <= amount < math.inf for amount in money):
        return f"expected costs {money}, wanted finite amounts of 0 or more"
    counts = [count for _, count in (*roster.borrowed, *roster.lent)] + [roster.vans or 0]
    share = 1.0 if roster.shortage is None else roster.shortage.share
    if share is None or not 0 <= share <= 1:
        return f"a share of {share} of the vans wanted, wanted one from 0 to 1"
    return f"vans {counts}, wanted 0 or more" if min(counts) < 0 else None


def _wrong_quantiles(values: tuple[float, ...], levels: int) -> str | None:
    if len(values) != levels:
        return f"{len(values)} quantiles, wanted {levels}, one for each level"
    if not all(math.isfinite(value) for value in values):
        return f"quantiles {list(values)}, wanted finite numbers"
    if not all(value >= 0 for value in values):
        return f"quantiles {list(values)}, wanted 0 or more"
    if not all(low <= high for low, high in pairwise(values)):
        return f"quantiles {list(values)}, wanted no fall from one level to the next"
    return None
