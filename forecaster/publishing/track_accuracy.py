"""Forecast accuracy tracking: past forecasts against actuals, compared with the seasonal naive and
another system.

If a nightly run was repeated, its last forecasts count. Weeks are recomputed while late counts may
still arrive, and newer ones are added; so a run reads few weeks of the archive, whatever its
length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.demand.history.aliases import archive_by_current_id
from forecaster.demand.history.point_in_time import former_names
from forecaster.lake import Lake
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, CITY, DEPOT, FORECAST, HORIZON, LEGACY, MODELS, TIER, WEEKDAY, Tally, monday
from forecaster.ledger.publication import Tier
from forecaster.ledger.store import Ledger

if TYPE_CHECKING:
    from forecaster.demand.validation import external_forecasts

SEASON = 7
MAX_WEEKS_BACK = 8  # maximum age in weeks of the last known same weekday
FIRST_WEEKS = 13  # weeks examined if nothing is known yet
OPEN_WEEKS = 2  # weeks that late counts may still change
DEPOT_WINDOW = timedelta(weeks=4)  # period over which depots are compared
MAX_WORST = 50  # maximum number of depots reported
MIN_DAYS = 7  # minimum comparable days of a depot
TIERS = get_args(Tier)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_READ = ("run_id", "recorded_at", "depot_id", "cutoff", "target_date", "horizon", "tier", "levels", "quantiles")


@dataclass(frozen=True, eq=False)
class ScoredForecasts:
    """Forecast-actual pairs, one per forecast depot-day, as aligned arrays (pairs,)."""

    depot: NDArray[np.intp]  # row of the panel
    day: NDArray[np.intp]  # column of the panel
    ahead: NDArray[np.intp]  # days after the cutoff, from 1
    actual: NDArray[np.float64]
    median: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    naive: NDArray[np.float64]
    legacy: NDArray[np.float64]  # NaN without a forecast of the other system
    tier: NDArray[np.intp]  # index in TIERS

    def __len__(self) -> int:
        return len(self.depot)


def track_accuracy(spec: Spec, panel: Panel, rival: external_forecasts.ExternalForecasts | None = None) -> None:
    """Write the accuracy of earlier forecasts into the ledger, and of those of a `rival`.

    Running a past date again leaves the results of later weeks. Raises LakeError and LedgerError.
    """
    last = monday(panel.cutoff)
    with Ledger.open(spec.ledger_url) as ledger:
        with ledger.transaction() as connection:
            newest = accuracy.newest_week(connection, spec.name)
            met = rival is None or accuracy.has_model(connection, spec.name, LEGACY)
        if newest is not None and newest > last:
            return
        weeks = _weeks_to_tally(newest if met else None, last)  # a newly declared rival is compared from the start
        tallies = list(tally_weeks(panel, Lake.of(spec), weeks, rival, former_names(spec, panel.depot_ids)))
        with ledger.transaction() as connection:
            accuracy.replace_weeks(connection, spec.name, weeks, tallies)


def tally_weeks(
    panel: Panel,
    lake: Lake,
    weeks: Iterable[date],
    rival: external_forecasts.ExternalForecasts | None = None,
    former: Mapping[str, str] | None = None,
) -> Iterator[Tally]:
    """Tallies of these weeks, and of the depots over the last four; `former` is former id → depot."""
    depots = np.zeros((len(panel.depot_ids), len(MODELS), 5))
    version = lake.version("forecasts")  # opens the table once
    for week in weeks:
        scored = _read_scored(panel, lake, version, week, rival, former or {})
        if not len(scored):
            continue
        for part, labels, of_row in _breakdowns(panel, scored):
            yield from _tally_labels(week, part, labels, of_row, scored)
        recent = panel.days[scored.day] > np.datetime64(panel.cutoff - DEPOT_WINDOW, "D")
        depots += np.stack(
            [_sum_by_label(terms[:, recent], scored.depot[recent], len(depots)) for terms in _error_terms(scored)],
            axis=1,
        )
    yield from _worst_depots(panel, depots)


def _weeks_to_tally(newest: date | None, last: date) -> list[date]:
    """Mondays of the weeks to examine, oldest first. Depots are compared over four weeks, which are
    always read."""
    back = max(OPEN_WEEKS, DEPOT_WINDOW.days // 7 + 1)
    first = last - timedelta(weeks=FIRST_WEEKS) if newest is None else min(newest, last - timedelta(weeks=back - 1))
    first = max(first, last - timedelta(weeks=FIRST_WEEKS))
    return [first + timedelta(weeks=i) for i in range((last - first).days // 7 + 1)]


def _read_scored(
    panel: Panel,
    lake: Lake,
    version: int,
    week: date,
    rival: external_forecasts.ExternalForecasts | None,
    former: Mapping[str, str],
) -> ScoredForecasts:
    """Forecasts of a week's days up to the cutoff with known actuals."""
    end = min(week + timedelta(days=SEASON - 1), panel.cutoff)
    in_week = (pc.field("target_date") >= pa.scalar(week)) & (pc.field("target_date") <= pa.scalar(end))
    table = archive_by_current_id(lake.read("forecasts", where=in_week, version=version, columns=_READ), former)
    place = {depot: row for row, depot in enumerate(panel.depot_ids)}
    row = np.array([place.get(depot, -1) for depot in table["depot_id"].to_pylist()], np.intp)
    day = (table["target_date"].to_numpy().astype("datetime64[D]") - panel.days[0]).astype(np.intp)
    horizon = table["horizon"].to_numpy().astype(np.intp)
    tier = np.array([TIERS.index(name) for name in table["tier"].to_pylist()], np.intp)
    quantiles = _range_and_median(table)
    # Of a resumed run the last rows count; removed depots and days before the panel do not.
    usable = _latest_rows(row, day, horizon, table["recorded_at"].to_numpy()) & (row >= 0) & (day >= 0)
    row, day, horizon, tier, quantiles = row[usable], day[usable], horizon[usable], tier[usable], quantiles[usable]
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan).astype(float)
    # a count that is a lower bound of demand cannot score a forecast of demand
    actual = np.where(panel.is_capped, np.nan, counts)[row, day]
    naive = _naive_forecast(counts, row, day, horizon)
    # All models are scored on the same days: those with known count, naive forecast and range.
    usable_rows = np.isfinite(actual) & np.isfinite(naive) & np.isfinite(quantiles).all(axis=1)
    low, median, high = quantiles[usable_rows].T
    row, day, horizon = row[usable_rows], day[usable_rows], horizon[usable_rows]
    # The other system's last forecast by the morning of ours counts.
    morning = panel.days[0].astype("datetime64[D]").astype(np.int64) + day - horizon + 1
    other = np.full(len(row), np.nan) if rival is None else rival.by(row, day, morning)
    actual, naive, tier = actual[usable_rows], naive[usable_rows], tier[usable_rows]
    return ScoredForecasts(row, day, horizon, actual, median, low, high, naive, other, tier)


def _range_and_median(table: pa.Table) -> NDArray[np.float64]:
    """Lower end of the 80 % range, median and upper end, (rows, 3); NaN if a run lacked these
    quantile levels."""
    quantiles = np.full((table.num_rows, 3), np.nan)
    runs = np.asarray(table["run_id"].to_pylist(), object)
    for run in np.unique(runs.astype(str)) if len(runs) else ():
        rows = np.flatnonzero(runs == run)
        run_rows = table.take(rows)
        levels = run_rows["levels"][0].as_py()
        if not {0.1, 0.5, 0.9} <= set(levels):
            continue
        values = run_rows["quantiles"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        quantiles[rows] = values.reshape(len(rows), len(levels))[:, [levels.index(level) for level in (0.1, 0.5, 0.9)]]
    return quantiles


def _latest_rows(
    row: NDArray[np.intp], day: NDArray[np.intp], horizon: NDArray[np.intp], at: NDArray[np.datetime64]
) -> NDArray[np.bool_]:
    """Mask of the last row of each depot, day and horizon."""
    order = np.lexsort((at, horizon, day, row))
    key = np.stack([row, day, horizon], axis=1)[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (key[1:] != key[:-1]).any(axis=1)
    latest = np.zeros(len(order), np.bool_)
    latest[order[last]] = True
    return latest


def _naive_forecast(
    counts: NDArray[np.float64], row: NDArray[np.intp], day: NDArray[np.intp], horizon: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Last known count of the same weekday up to each forecast's cutoff; NaN if none is known."""
    naive = np.full(len(row), np.nan)
    place = day - SEASON * -(-horizon // SEASON)
    for _ in range(MAX_WEEKS_BACK):
        missing = np.isnan(naive) & (place >= 0)
        naive[missing] = counts[row[missing], place[missing]]
        place = place - SEASON
    return naive


def _breakdowns(panel: Panel, scored: ScoredForecasts) -> Iterator[tuple[str, list[str], NDArray[np.intp]]]:
    """Each part with its labels and the index of each row's label."""
    yield ALL, [""], np.zeros(len(scored), np.intp)
    yield HORIZON, [f"{step:02d}" for step in range(1, int(scored.ahead.max()) + 1)], scored.ahead - 1
    weekday = (panel.days[scored.day].astype(np.int64) + 3) % SEASON  # 1970-01-01 was a Thursday
    yield WEEKDAY, list(WEEKDAYS), weekday
    yield TIER, list(TIERS), scored.tier
    if cities := panel.attributes.get("city"):
        names = sorted(set(cities))
        place = {name: number for number, name in enumerate(names)}
        yield CITY, names, np.array([place[city] for city in cities], np.intp)[scored.depot]


def _error_terms(scored: ScoredForecasts) -> NDArray[np.float64]:
    """Terms to be summed, (models, 5, rows): days, orders, error, absolute error, inside the range;
    0 without a forecast."""
    inside = (scored.low <= scored.actual) & (scored.actual <= scored.high)
    nowhere = np.zeros(len(scored), np.bool_)
    terms = []
    for point, covered in ((scored.median, inside), (scored.naive, nowhere), (scored.legacy, nowhere)):
        predicted = np.isfinite(point)
        error = np.where(predicted, point - scored.actual, 0.0)
        terms.append(
            np.stack([predicted, np.where(predicted, scored.actual, 0.0), error, np.abs(error), covered]).astype(float)
        )
    return np.stack(terms)


def _sum_by_label(values: NDArray[np.float64], of_row: NDArray[np.intp], labels: int) -> NDArray[np.float64]:
    """Sums for each label, (labels, 5)."""
    return np.stack([np.bincount(of_row, term, labels) for term in values], axis=1)


def _tally_labels(
    week: date, part: str, labels: list[str], of_row: NDArray[np.intp], scored: ScoredForecasts
) -> Iterator[Tally]:
    for model, values in zip(MODELS, _error_terms(scored), strict=True):
        for label, sums in zip(labels, _sum_by_label(values, of_row, len(labels)), strict=True):
            if sums[0]:
                yield _tally(week, model, part, label, sums)


def _worst_depots(panel: Panel, sums: NDArray[np.float64]) -> Iterator[Tally]:
    """Depots with the largest relative errors."""
    ours = sums[:, 0]
    enough = np.flatnonzero((ours[:, 0] >= MIN_DAYS) & (ours[:, 1] > 0))
    for row in enough[np.argsort(-ours[enough, 3] / ours[enough, 1], kind="stable")][:MAX_WORST]:
        for place, model in enumerate(MODELS):
            if sums[row, place, 0]:
                yield _tally(monday(panel.cutoff), model, DEPOT, panel.depot_ids[row], sums[row, place])


def _tally(week: date, model: str, part: str, label: str, sums: NDArray[np.float64]) -> Tally:
    days, actual, error, absolute, covered = sums.tolist()
    return Tally(
        week, model, part, label, int(days), actual, error, absolute, int(covered) if model == FORECAST else None
    )
