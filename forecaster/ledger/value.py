"""Cost of each rostering policy by day and city as stored in the ledger, and its sums.

A row holds one day, one city and one rostering policy: the cost of missing and idle drivers, over
the forecast depots with known actuals, which are the same for every policy. Each day also has a
digest of the readings behind it, so that a run updates the days changed by corrections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from forecaster.ledger import tables
from forecaster.ledger.accuracy import monday

PUBLISHED, MODEL, LAST_WEEK = "our rosters", "the model alone", "same as last week"
BUFFER, FORESIGHT, MORE_VANS = "median plus buffer", "perfect foresight", "ten more vans"
# only of depots and days with known worked hours
WORKED, AS_PLANNED = "as worked", "our rosters of the same days"
WAYS = (PUBLISHED, LAST_WEEK, BUFFER, FORESIGHT, MODEL, MORE_VANS, WORKED, AS_PLANNED)
VANS_MORE = 10
KEPT_WEEKS = 53
TRAINING_STAGES = ("weigh", "train", "backtest", "gate", "export")
ALL, CITY, MONTH = "all", "city", "month"


@dataclass(frozen=True)
class ValuedDay:
    """A day with known costs. `basis` is a digest of the readings behind them."""

    day: date
    basis: str
    currency: str | None
    backfilled: bool  # the forecast was made later, as of that morning
    overridden: int  # depots with a planner's number
    buffer: str  # buffer of "median plus buffer"
    buffer_costs: Sequence[float]  # costs of each candidate buffer


@dataclass(frozen=True)
class WayCost:
    """Cost of one rostering policy in a city on a day."""

    day: date
    city: str  # empty: depots without one
    way: str
    cost: float
    short: int  # missing drivers
    idle: int  # surplus drivers
    drivers: int  # rostered
    depots: int  # with known actuals


@dataclass(frozen=True)
class WeekCost:
    """Costs of a rostering policy over one week and part: everything, a city, or the days of a
    month."""

    week: date  # its Monday
    part: str
    label: str  # the city's name, or the month's first day in ISO format
    way: str
    cost: float
    short: int
    idle: int
    drivers: int
    depot_days: int


@dataclass(frozen=True)
class ComputedRun:
    """Computing time of a run that published, in seconds of wall time, and the cost of an hour at
    the time."""

    kind: str
    seconds: float  # total
    training_seconds: float  # including backtest, gate and export
    prediction_seconds: float
    forecasts: int  # published depot-days
    cost_per_hour: float | None
    currency: str | None

    @property
    def cost(self) -> float | None:
        """Cost of the run; None if no cost is declared."""
        return None if self.cost_per_hour is None else self.seconds / 3600 * self.cost_per_hour

    @property
    def cost_per_forecast(self) -> float | None:
        """Cost of one depot-day."""
        return None if self.cost is None or not self.forecasts else self.cost / self.forecasts


def valued_days(connection: sa.Connection, pipeline: str) -> tuple[ValuedDay, ...]:
    """Days with known costs, oldest first."""
    table = tables.value_days
    columns = [column for column in table.c if column.name != "pipeline"]
    query = sa.select(*columns).where(table.c.pipeline == pipeline).order_by(table.c.day)
    return tuple(ValuedDay(**row) for row in connection.execute(query).mappings())


def replace_days(
    connection: sa.Connection, pipeline: str, days: Iterable[ValuedDay], costs: Iterable[WayCost], *, keep_from: date
) -> None:
    """Replace these days, and delete those before `keep_from`."""
    day_rows = [{"pipeline": pipeline, **asdict(day)} for day in days]
    cost_rows = [
        {"pipeline": pipeline, "week": monday(cost.day), "month": cost.day.replace(day=1), **asdict(cost)}
        for cost in costs
    ]
    for table, rows in ((tables.value_days, day_rows), (tables.value_costs, cost_rows)):
        old = sa.or_(table.c.day.in_([row["day"] for row in day_rows]), table.c.day < keep_from)
        connection.execute(table.delete().where(table.c.pipeline == pipeline, old))
        if rows:
            connection.execute(table.insert(), rows)


def week_costs(
    connection: sa.Connection,
    pipeline: str,
    currency: str | None,
    *,
    since: date,
    part: str = ALL,
    cities: Collection[str] | None = None,
) -> tuple[WeekCost, ...]:
    """Weekly sums from `since` on, over the days in one currency; optionally only of some cities."""
    costs, days = tables.value_costs, tables.value_days
    label: dict[str, sa.ColumnElement[Any]] = {ALL: sa.literal(""), CITY: costs.c.city, MONTH: costs.c.month}
    group: list[sa.ColumnElement[Any]] = [costs.c.week, costs.c.way, *([] if part == ALL else [label[part]])]
    sums = [sa.func.sum(costs.c[name]) for name in ("cost", "short", "idle", "drivers", "depots")]
    joined = costs.join(days, (days.c.pipeline == costs.c.pipeline) & (days.c.day == costs.c.day))
    query = sa.select(costs.c.week, label[part], costs.c.way, *sums).select_from(joined)
    query = query.where(
        costs.c.pipeline == pipeline, costs.c.week >= since, days.c.currency.is_not_distinct_from(currency)
    )
    if cities is not None:
        query = query.where(costs.c.city.in_(list(cities)))
    rows = connection.execute(query.group_by(*group).order_by(costs.c.week))
    return tuple(
        WeekCost(week, part, str(name), way, float(cost), *(int(number) for number in numbers))
        for week, name, way, cost, *numbers in rows
    )


def runs_computed(connection: sa.Connection, pipeline: str, since: datetime) -> tuple[ComputedRun, ...]:
    """Runs that published from an instant on, oldest first."""
    runs = tables.runs.c
    query = sa.select(runs.kind, runs.timings, runs.computing).where(
        runs.pipeline == pipeline, runs.as_of >= since, runs.computing.is_not(None), runs.finished_at.is_not(None)
    )
    return tuple(
        computed
        for kind, timings, computing in connection.execute(query.order_by(runs.as_of))
        if (computed := computed_run(kind, timings, computing)) is not None
    )


def schedule_premiums(connection: sa.Connection, pipeline: str, days: tuple[date, date]) -> float | None:
    """Premiums for changes of published schedules, over an inclusive range of days; None if none of
    them was published."""
    row = tables.schedule_days.c
    query = sa.select(sa.func.count(), sa.func.sum(row.premium)).where(
        row.pipeline == pipeline, row.target_date.between(*days)
    )
    published, premiums = connection.execute(query).one()
    return float(premiums or 0.0) if published else None


def computed_run(kind: str, timings: Mapping[str, float], computing: Mapping[str, Any] | None) -> ComputedRun | None:
    """Computing time of a run, from its row; None if it published nothing or did not record its
    duration."""
    if computing is None or "night" not in timings:
        return None
    training = sum(timings.get(stage, 0.0) for stage in TRAINING_STAGES)
    seconds = (timings["night"], training, timings.get("predict", 0.0))
    return ComputedRun(kind, *seconds, computing["forecasts"], computing["cost_per_hour"], computing["currency"])


def first_kept(last: date) -> date:
    """First day kept if the last one is `last`."""
    return monday(last) - timedelta(weeks=KEPT_WEEKS - 1)
