"""Cost tracking of rosters: the published ones, and those of other rostering policies, on days with
actuals.

The roster of a day is the last one published by the end of its morning: among the archived
forecasts as of that day or before, those of the latest night, refresh or prediction; if none of
these covers the day, those of a past night that was run later (a backfill), which is marked. Its
crews, per shift, are those of the publication while the ledger keeps it, otherwise they are
recomputed from the archive's quantiles and the planners' numbers. A run adds the newly known days,
and recomputes those whose readings were corrected since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.arrays import Doubles, Ints
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.demand.history.aliases import archive_by_current_id, by_current_id
from forecaster.demand.history.point_in_time import former_names
from forecaster.lake import Lake
from forecaster.ledger import tables, value
from forecaster.ledger.accuracy import monday
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import ValuedDay, WayCost
from forecaster.planning.apply import move_quantiles
from forecaster.staffing import daily_ways
from forecaster.staffing.cost_backtest import describe_buffer
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.rosters import van_pool
from forecaster.staffing.shift_values import ShiftShares

if TYPE_CHECKING:
    from forecaster.demand.worked_hours import WorkedHours

MOST_WEEKS = 13  # maximum number of weeks per run; later runs do the rest
BUFFER_DAYS = 56  # days before a day on which its buffer is chosen
_READ = ("run_id", "recorded_at", "depot_id", "cutoff", "target_date", "levels", "quantiles")


@dataclass(frozen=True)
class Origin:
    """A run that forecast: its local `as_of` day, and whether it was run later."""

    run_id: str
    morning: date
    backfilled: bool

    def covers(self, day: date, horizon: int) -> bool:
        """Return true if it may have forecast a day by that day's own morning."""
        return 0 <= (day - self.morning).days < horizon


def track_value(spec: Spec, panel: Panel, shares: ShiftShares | None = None, worked: WorkedHours | None = None) -> None:
    """Write the costs of rosters of the days up to the panel's cutoff into the ledger; do nothing
    without `staffing`.

    If shares of shifts are learned, days are billed by the current `shares`. Days with `worked`
    hours also have the cost of the drivers who worked. Running a past date again leaves the results
    of later days. Raises LakeError and LedgerError.
    """
    if spec.staffing is None:
        return
    with Ledger.open(spec.ledger_url) as ledger:
        with ledger.transaction() as connection:
            valued = {day.day: day for day in value.valued_days(connection, spec.name)}
            origins = origins_of(connection, spec)
        if valued and max(valued) > panel.cutoff:
            return
        former = former_names(spec, panel.depot_ids)
        digests = _digests(panel, former)
        if worked is not None:
            digests = {day: digest + worked.digest(day) for day, digest in digests.items()}
        first = max(value.first_kept(panel.cutoff), panel.days[0].astype(object))
        due = [
            day
            for day in (first + timedelta(days=number) for number in range((panel.cutoff - first).days + 1))
            if (day not in valued or valued[day].basis != digests[day])
            and any(origin.covers(day, spec.horizon) for origin in origins.values())
        ]
        lake = Lake.of(spec)
        version = lake.version("forecasts")  # opens the table once
        for week in sorted({monday(day) for day in due})[:MOST_WEEKS]:
            days = [day for day in due if monday(day) == week]
            table = archive_by_current_id(_read(lake, version, days), former)
            reckoner = _Reckoner(spec, panel, origins, valued, digests, former, shares, worked)
            with ledger.transaction() as connection:
                reckoned = [result for day in days if (result := reckoner.reckon(connection, table, day))]
                costs = [cost for _, of_day in reckoned for cost in of_day]
                valued_days = [valued_day for valued_day, _ in reckoned]
                value.replace_days(connection, spec.name, valued_days, costs, keep_from=first)


def _read(lake: Lake, version: int, days: Sequence[date]) -> pa.Table:
    """Archived forecasts of some days of a week."""
    in_days = pc.field("target_date").isin(pa.array(days, pa.date32()))
    return lake.read("forecasts", where=in_days, version=version, columns=_READ)


def origins_of(connection: sa.Connection, spec: Spec) -> dict[str, Origin]:
    """Runs that ended with forecasts, by id."""
    runs = tables.runs.c
    query = sa.select(runs.run_id, runs.as_of, runs.kind).where(
        runs.pipeline == spec.name, runs.outcome.in_(("published", "degraded")), runs.kind != "maintain"
    )
    return {
        run_id: Origin(run_id, as_of.astimezone(spec.zone).date(), kind == "backfill")
        for run_id, as_of, kind in connection.execute(query)
    }


def _digests(panel: Panel, former: Mapping[str, str]) -> dict[date, str]:
    """Digest of each day's actuals up to the cutoff, and of the city of each depot.

    It is the sum of a hash of each depot's known count, so that new depots and renamed ones leave
    the earlier days unchanged; `former` is former id → depot.
    """
    first_names = {depot: id_ for id_, depot in sorted(former.items(), reverse=True)}
    cities = panel.attributes.get("city", ("",) * len(panel.depot_ids))
    names = [f"{first_names.get(depot, depot)}\x1f{city}" for depot, city in zip(panel.depot_ids, cities, strict=True)]
    keys = np.array([int.from_bytes(sha256(name.encode()).digest()[:8], "little") for name in names], np.uint64)
    counts = np.where(panel.is_capped, panel.served, _counts(panel))  # an estimate may change with each run
    is_known = np.isfinite(counts)
    mixed = (keys[:, None] ^ np.where(is_known, counts, 0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * is_known
    days: list[date] = panel.days[: panel.history].astype(object).tolist()
    return {day: f"{number:016x}" for day, number in zip(days, mixed.sum(axis=0).tolist(), strict=True)}


def _counts(panel: Panel) -> Doubles:
    """Demand (depots, days) up to the cutoff; NaN if unknown or closed."""
    counts: Doubles = np.where(panel.open[:, : panel.history], panel.demand, np.nan).astype(float)
    return counts


class _Reckoner:
    """Computes the costs of days, in order: the buffer of each is chosen on those before it."""

    def __init__(
        self,
        spec: Spec,
        panel: Panel,
        origins: Mapping[str, Origin],
        valued: dict[date, ValuedDay],
        digests: Mapping[date, str],
        former: Mapping[str, str],
        shares: ShiftShares | None,
        worked_hours: WorkedHours | None,
    ) -> None:
        assert spec.staffing is not None
        self._spec, self._panel, self._origins, self._valued, self._digests = spec, panel, origins, valued, digests
        self._staffing, self._former, self._worked = spec.staffing, former, worked_hours
        self._rosters = RosterWays.of_depots(spec.staffing, van_pool(panel, spec), len(panel.depot_ids), shares)
        self._counts = _counts(panel)
        self._cities = panel.attributes.get("city", ("",) * len(panel.depot_ids))

    def reckon(
        self, connection: sa.Connection, table: pa.Table, day: date
    ) -> tuple[ValuedDay, tuple[WayCost, ...]] | None:
        """Costs of a day; None if there was no forecast of it in time."""
        of_day = table.filter(pc.equal(table["target_date"], pa.scalar(day)))
        origin = self._origin(of_day, day)
        if origin is None:
            return None
        fold = self._fold(of_day.filter(pc.equal(of_day["run_id"], origin.run_id)), day)
        overrides = (
            {} if origin.backfilled else by_current_id(_overrides(connection, self._spec.name, day), self._former)
        )
        published, fold = self._published(connection, origin, fold, day, overrides)
        earlier_days = sorted(earlier for earlier in self._valued if earlier <= fold.forecast.cutoff)
        recent = [earlier for earlier in earlier_days if (day - earlier).days <= BUFFER_DAYS]
        buffer = daily_ways.best_buffer([self._valued[earlier].buffer_costs for earlier in recent])
        before = self._counts[:, : (fold.forecast.cutoff - self._panel.days[0].astype(object)).days + 1]
        ways = daily_ways.crews(fold, published, before, buffer, self._rosters)
        valued_day = ValuedDay(
            day,
            self._digests[day],
            self._staffing.currency,
            origin.backfilled,
            len(overrides),
            describe_buffer(buffer),
            daily_ways.buffer_costs(fold, self._rosters),
        )
        self._valued[day] = valued_day
        bills = daily_ways.bills(ways, fold, self._cities, self._rosters, day)
        return valued_day, bills + self._worked_bills(published, fold, day)

    def _worked_bills(self, published: Ints, fold: Fold, day: date) -> tuple[WayCost, ...]:
        """Costs of the crews that worked, and of the published ones, where worked hours are known."""
        depot_ids, shifts = self._panel.depot_ids, [shift.name for shift in self._staffing.shifts]
        crews = self._worked.crews(day, depot_ids, shifts, self._rosters.hours) if self._worked else None
        if crews is None:
            return ()
        worked_crews, is_known = crews
        known_fold = replace(fold, actuals=np.where(is_known[:, None], fold.actuals, np.nan).astype(np.float32))
        ways = {value.WORKED: worked_crews, value.AS_PLANNED: published}
        return daily_ways.bills(ways, known_fold, self._cities, self._rosters, day)

    def _origin(self, of_day: pa.Table, day: date) -> Origin | None:
        """The run whose forecast of a day was shown that morning: publications come before
        backfills."""
        run_ids = pc.unique(of_day["run_id"]).to_pylist()
        candidates = [self._origins[run_id] for run_id in run_ids if run_id in self._origins]
        in_time = [origin for origin in candidates if origin.covers(day, self._spec.horizon)]
        recorded = dict(zip(of_day["run_id"].to_pylist(), of_day["recorded_at"].to_pylist(), strict=True))
        order = lambda origin: (not origin.backfilled, origin.morning, recorded[origin.run_id])  # noqa: E731
        return max(in_time, key=order, default=None)

    def _fold(self, rows: pa.Table, day: date) -> Fold:
        """A run's forecast of a day against its actuals; a depot not forecast is closed, and not
        billed."""
        # of a resumed run
        rows = rows.filter(pc.equal(rows["recorded_at"], pc.max(rows["recorded_at"])))
        levels = tuple(rows["levels"][0].as_py())
        place = {depot: row for row, depot in enumerate(self._panel.depot_ids)}
        quantiles = np.zeros((len(place), 1, len(levels)), np.float32)
        forecast_rows = np.zeros((len(place), 1), bool)
        for depot, values in zip(rows["depot_id"].to_pylist(), rows["quantiles"].to_pylist(), strict=True):
            if depot in place:
                quantiles[place[depot], 0], forecast_rows[place[depot]] = values, True
        cutoff: date = rows["cutoff"][0].as_py()
        forecast = Forecast(self._panel.depot_ids, cutoff, (day,), levels, quantiles, np.any(quantiles > 0, axis=2))
        column = (day - self._panel.days[0].astype(object)).days
        actuals = np.where(forecast_rows, self._counts[:, [column]], np.nan).astype(np.float32)
        return Fold(forecast, actuals)

    def _published(
        self, connection: sa.Connection, origin: Origin, fold: Fold, day: date, overrides: Mapping[str, int]
    ) -> tuple[Ints, Fold]:
        """Published crews (shifts, depots, 1), and the fold with the days that were open; from the
        ledger while it keeps them."""
        names, open_ = tuple(shift.name for shift in self._staffing.shifts), fold.forecast.open.copy()
        crews = np.zeros((len(names) or 1, len(self._panel.depot_ids), 1), np.int32)
        if stored_crews := _kept_crews(connection, self._spec.name, origin.run_id, day, names):
            stored_crews = by_current_id(stored_crews, self._former)
            for row, depot in enumerate(self._panel.depot_ids):
                if depot in stored_crews:
                    crews[:, row, 0], is_open = stored_crews[depot]
                    # a planner opens it for our roster only
                    open_[row] = open_[row] if depot in overrides else is_open
            return crews, replace(fold, forecast=replace(fold.forecast, open=open_))
        quantiles = fold.forecast.quantiles.copy()
        for row, depot in enumerate(self._panel.depot_ids):
            if depot in overrides:
                quantiles[row] = move_quantiles(quantiles[row], fold.forecast.levels, overrides[depot])
                open_[row] = True
        changed = replace(fold.forecast, quantiles=quantiles, open=open_)
        return self._rosters.cheapest(replace(fold, forecast=changed)), fold


def _kept_crews(
    connection: sa.Connection, pipeline: str, run_id: str, day: date, shifts: Sequence[str]
) -> dict[str, tuple[list[int], bool]] | None:
    """Depot → drivers of each of these shifts, or of the day without shifts, and whether it was
    open, in a run's last publication; None if the ledger has none, or with other crews."""
    publications, published = tables.publications.c, tables.published.c
    newest = sa.select(sa.func.max(publications.publication_id)).where(
        publications.pipeline == pipeline, publications.run_id == run_id
    )
    query = sa.select(published.depot_id, published.drivers, published.roster, published.open).where(
        published.publication_id == newest.scalar_subquery(), published.target_date == day
    )
    rows = connection.execute(query).all()
    crews = {depot: (_crews_of(drivers, roster, shifts), is_open) for depot, drivers, roster, is_open in rows}
    stored_crews = {depot: (crew, is_open) for depot, (crew, is_open) in crews.items() if crew is not None}
    return stored_crews if stored_crews and len(stored_crews) == len(rows) else None


def _crews_of(drivers: int | None, roster: Mapping[str, Any] | None, shifts: Sequence[str]) -> list[int] | None:
    """Crew of each shift of a published day, including missing drivers; None if it has other
    shifts, or no crew."""
    if drivers is None:
        return None
    if not shifts:
        return [drivers]
    by_shift, missing = (dict((roster or {}).get(key) or ()) for key in ("shifts", "missing"))
    if not by_shift and not drivers:  # a closed day has no drivers
        return [0] * len(shifts)
    return [by_shift[name] + missing.get(name, 0) for name in shifts] if by_shift.keys() == set(shifts) else None


def _overrides(connection: sa.Connection, pipeline: str, day: date) -> dict[str, int]:
    """Depot → a planner's last published number of a day."""
    book = tables.overrides.c
    query = sa.select(book.depot_id, book.orders).join(tables.override_results)
    rows = connection.execute(query.where(book.pipeline == pipeline, book.target_date == day).order_by(book.id))
    return dict(rows.tuples().all())
