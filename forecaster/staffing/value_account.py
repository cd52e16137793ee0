"""Account of the costs and savings of rosters over the last weeks, from the sums in the ledger.

Each amount is a sum over weeks, with its range from a block bootstrap over the weeks (`bootstrap`),
which is omitted if there are too few weeks. Data that the reader may not see are not read: a reader
of some cities gets only these, and their sum as the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import sqlalchemy as sa

from forecaster.core.arrays import Doubles
from forecaster.core.language import N_
from forecaster.ledger import value
from forecaster.ledger.accuracy import monday
from forecaster.ledger.value import (
    ALL,
    AS_PLANNED,
    BUFFER,
    CITY,
    FORESIGHT,
    LAST_WEEK,
    MODEL,
    MONTH,
    MORE_VANS,
    PUBLISHED,
    WAYS,
    WORKED,
    ComputedRun,
    ValuedDay,
    WeekCost,
)
from forecaster.staffing import bootstrap

SPANS = (8, 26, 52)  # weeks
COMPARED = (PUBLISHED, LAST_WEEK, BUFFER, FORESIGHT)
HOW: Mapping[str, str] = {
    PUBLISHED: N_(
        "The crews last published by each morning, planners' numbers included, compared with the drivers that the "
        "actual orders needed."
    ),
    LAST_WEEK: N_("The crew that the last same weekday known that morning needed, with the same limits and vans."),
    BUFFER: N_(
        "The crew for the model's median plus a buffer; each day takes the buffer that was cheapest over the eight "
        "weeks before."
    ),
    FORESIGHT: N_("The cost with perfect foresight of the orders, within limits and vans; no policy can save more."),
    MODEL: N_("The crews for the model's own numbers, without planners' numbers."),
    MORE_VANS: N_("The crews of the model with ten vans more, which may stand anywhere."),
    WORKED: N_("The drivers who worked, by recorded hours; only the depots and days where these are known."),
    AS_PLANNED: N_("Our rosters; only the depots and days where worked hours are known."),
}
RANGE = N_(
    "Each range covers 90 % of the sums from resampled blocks of ⌈n^(1/3)⌉ neighboring weeks of the n (circular "
    "block bootstrap); below four weeks there is none."
)


@dataclass(frozen=True)
class Amount:
    """An amount of money and its bootstrap range; None if there are too few weeks."""

    amount: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class WayTotal:
    """Cost of a rostering policy over the days of an account."""

    way: str
    cost: Amount
    dearer: Amount  # additional cost compared with our rosters (of the same days); positive: ours saved that
    short: int
    idle: int
    drivers: int
    depot_days: int


@dataclass(frozen=True)
class ValuePart:
    """The rostering policies over everything, a city or a month."""

    label: str
    ways: tuple[WayTotal, ...]

    def of(self, way: str) -> WayTotal | None:
        """Totals of one policy."""
        return next((total for total in self.ways if total.way == way), None)


@dataclass(frozen=True)
class Computing:
    """Computing time of the runs of these weeks, in seconds of wall time; costs of those with a
    declared cost per hour."""

    runs: int
    seconds: float
    training_seconds: float
    prediction_seconds: float
    forecasts: int  # published depot-days
    cost: float | None
    cost_per_forecast: float | None


@dataclass(frozen=True)
class ValueAccount:
    """The last `weeks` weeks, as far as known; amounts are in the currency, or plain numbers."""

    weeks: int
    currency: str | None
    first: date | None  # None: nothing is known yet
    last: date | None
    days: int
    backfilled: int  # days whose forecast was made later
    overridden: int  # depot-days with a planner's number
    other_currency: int  # omitted days
    whole: ValuePart
    cities: tuple[ValuePart, ...]
    months: tuple[ValuePart, ...]
    more_vans: Amount | None  # saving of ten more vans; None: the pipeline counts none
    overrides: Amount | None  # saving of planners' numbers; None: there were none
    deviation: Amount | None  # cost of deviations from the plan; None: no worked hours are known
    # Monday, cumulative saving of ours up to the end of its week, by policy
    saved: tuple[tuple[date, Mapping[str, float]], ...]
    # None: not recorded, or not visible to the reader
    computing: Computing | None = None
    # for changes of published schedules; None: none published, or not visible to the reader
    premiums: float | None = None


def account(
    connection: sa.Connection, pipeline: str, weeks: int, cities: Collection[str] | None = None
) -> ValueAccount:
    """Account of the last weeks with known costs; optionally only of some cities."""
    days = value.valued_days(connection, pipeline)
    if not days:
        return _empty(weeks)
    currency = days[-1].currency
    since = monday(days[-1].day) - timedelta(weeks=weeks - 1)
    costs = [
        cost
        for part in (ALL, CITY, MONTH)
        for cost in value.week_costs(connection, pipeline, currency, since=since, part=part, cities=cities)
    ]
    of_span = [day for day in days if day.day >= since]
    # the number of overrides elsewhere, and the total cost of computing, stay hidden
    if cities is not None:
        return summed(costs, [replace(day, overridden=0) for day in of_span], weeks)
    runs = value.runs_computed(connection, pipeline, datetime.combine(since, time(), UTC))
    premiums = value.schedule_premiums(connection, pipeline, (since, days[-1].day))
    return replace(summed(costs, of_span, weeks), computing=computing(runs, currency), premiums=premiums)


def computing(runs: Sequence[ComputedRun], currency: str | None) -> Computing | None:
    """Sum of the runs; those with a cost in another currency count in seconds only."""
    if not runs:
        return None
    priced = [(run.cost, run.forecasts) for run in runs if run.cost is not None and run.currency == currency]
    cost, forecasts = sum(cost for cost, _ in priced), sum(count for _, count in priced)
    return Computing(
        len(runs),
        sum(run.seconds for run in runs),
        sum(run.training_seconds for run in runs),
        sum(run.prediction_seconds for run in runs),
        sum(run.forecasts for run in runs),
        cost if priced else None,
        cost / forecasts if forecasts else None,
    )


def summed(costs: Sequence[WeekCost], days: Sequence[ValuedDay], weeks: int) -> ValueAccount:
    """Account from weekly sums by part, and from the days behind them."""
    currency = days[-1].currency
    valued_days = [day for day in days if day.currency == currency]
    of_all, of_cities, of_months = ([cost for cost in costs if cost.part == part] for part in (ALL, CITY, MONTH))
    total = next(iter(_parts(of_all)), ValuePart("", ()))
    planned, model, larger = (total.of(way) for way in (PUBLISHED, MODEL, MORE_VANS))
    overridden = sum(day.overridden for day in valued_days)
    differs = planned and model and (overridden or _differ(planned, model))
    return ValueAccount(
        weeks,
        currency,
        valued_days[0].day,
        valued_days[-1].day,
        len(valued_days),
        sum(day.backfilled for day in valued_days),
        overridden,
        len(days) - len(valued_days),
        total,
        _parts(of_cities),
        _parts(of_months),
        _difference(of_all, MODEL, MORE_VANS) if larger and model else None,
        _difference(of_all, MODEL, PUBLISHED) if differs else None,
        _difference(of_all, WORKED, AS_PLANNED) if total.of(WORKED) else None,
        _cumulative(of_all),
    )


def where_vans_went(account: ValueAccount) -> tuple[tuple[str, int, float], ...]:
    """City, additional drivers that ten more vans would have carried there over all days, and the
    saving; largest saving first."""
    rows = []
    for part in account.cities:
        model, larger = part.of(MODEL), part.of(MORE_VANS)
        if model and larger:
            rows.append((part.label, larger.drivers - model.drivers, model.cost.amount - larger.cost.amount))
    return tuple(sorted(rows, key=lambda row: (-row[2], row[0])))


def _parts(costs: Sequence[WeekCost]) -> tuple[ValuePart, ...]:
    """Totals of each label, by name."""
    return tuple(
        ValuePart(label, _totals([cost for cost in costs if cost.label == label]))
        for label in sorted({cost.label for cost in costs})
    )


def _totals(costs: Sequence[WeekCost]) -> tuple[WayTotal, ...]:
    ways, table = _by_week(costs)
    bases = [AS_PLANNED if way in (WORKED, AS_PLANNED) else PUBLISHED for way in ways]
    ours = np.stack([table[:, ways.index(base)] if base in ways else np.zeros(len(table)) for base in bases], axis=1)
    amounts, dearer = _amounts(table), _amounts(table - ours)
    return tuple(
        WayTotal(
            way,
            amounts[i],
            dearer[i],
            *(
                sum(getattr(cost, name) for cost in costs if cost.way == way)
                for name in ("short", "idle", "drivers", "depot_days")
            ),
        )
        for i, way in enumerate(ways)
    )


def _by_week(costs: Sequence[WeekCost]) -> tuple[list[str], Doubles]:
    """Policies with data, and the cost of each in each week, (weeks, policies)."""
    ways = [way for way in WAYS if any(cost.way == way for cost in costs)]
    weeks = sorted({cost.week for cost in costs})
    table = np.zeros((len(weeks), len(ways)))
    for cost in costs:
        if cost.way in ways:
            table[weeks.index(cost.week), ways.index(cost.way)] += cost.cost
    return ways, table


def _amounts(table: Doubles) -> list[Amount]:
    """Sum of each column over the weeks, with its range."""
    ends = bootstrap.ranges(table)
    if ends is None:
        return [Amount(total, None, None) for total in table.sum(axis=0).tolist()]
    return [Amount(*numbers) for numbers in zip(table.sum(axis=0).tolist(), *ends.tolist(), strict=True)]


def _difference(costs: Sequence[WeekCost], dearer: str, cheaper: str) -> Amount:
    ways, table = _by_week(costs)
    return _amounts(table[:, [ways.index(dearer)]] - table[:, [ways.index(cheaper)]])[0]


def _differ(first: WayTotal, second: WayTotal) -> bool:
    """Return true if two policies had different crews, judged by their sums."""
    return (first.drivers, first.short, first.idle) != (second.drivers, second.short, second.idle)


def _cumulative(costs: Sequence[WeekCost]) -> tuple[tuple[date, Mapping[str, float]], ...]:
    """Cumulative savings of ours against each rival, week by week."""
    ways, table = _by_week(costs)
    if PUBLISHED not in ways:
        return ()
    saved = np.cumsum(table - table[:, [ways.index(PUBLISHED)]], axis=0).tolist()
    weeks = sorted({cost.week for cost in costs})
    return tuple((week, dict(zip(ways, row, strict=True))) for week, row in zip(weeks, saved, strict=True))


def _empty(weeks: int) -> ValueAccount:
    return ValueAccount(weeks, None, None, None, 0, 0, 0, 0, ValuePart("", ()), (), (), None, None, None, ())
