"""Hierarchical totals of cities and the network along joint paths, since quantiles of parts do not
add up to a sum's.

Each depot's forecast becomes as many equally likely values as there are templates: windows of
recent days on which all depots were seen together. The values are put into the order that the
depot's surprises had in the templates, so that depots and days which were surprised together are so
in the paths (the Schaake shuffle: Clark et al. 2004, "The Schaake shuffle", Journal of
Hydrometeorology 5). A path's total is the sum of its depots, so depot, city and network agree path
by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel

PATHS = 90  # templates, each a day after the one before
WEEKS = 4  # same weekdays that say what was to be expected
SEASON = 7
CHUNK = 4096  # depots at a time, which bounds memory


def sample_paths(forecast: Forecast, panel: Panel, count: int = PATHS, rows: slice = slice(None)) -> Doubles:
    """Joint sample paths of a forecast made at the panel's cutoff, (paths, depots, horizon), of the
    depots `rows`; zero on closed days.

    Where the history is too short for `count` templates there are fewer; without any, one path of
    medians.
    """
    templates = _templates(panel, count, rows)
    if not len(templates):
        return forecast.median[None, rows].astype(float)
    order: NDArray[np.intp] = np.argsort(np.argsort(templates, axis=0, kind="stable"), axis=0)
    shares = (np.arange(len(templates)) + 0.5) / len(templates)
    values = np.take_along_axis(_values_at(forecast, shares, rows), order, axis=0)
    return np.where(forecast.open[None, rows], values, 0.0)


def groups(panel: Panel) -> dict[str, NDArray[np.bool_]]:
    """Depots of the network, under an empty name, and of each city, where there are several."""
    cities = np.array(panel.attributes.get("city", ("",) * len(panel.depot_ids)))
    names = sorted(set(cities.tolist()) - {""})
    return {"": np.ones(len(cities), bool)} | ({name: cities == name for name in names} if len(names) > 1 else {})


def group_totals(forecast: Forecast, panel: Panel, scored: NDArray[np.bool_] | None = None) -> dict[str, Doubles]:
    """Quantiles (horizon, levels) of the orders of each group together, at the forecast's levels.

    `scored` (depots, horizon) leaves out what is not to be counted.
    """
    return quantiles_of_sums(chunk_sums(forecast, panel, groups(panel), scored), forecast.levels)


def chunk_sums(
    forecast: Forecast,
    panel: Panel,
    members: Mapping[str, NDArray[np.bool_]],
    scored: NDArray[np.bool_] | None = None,
) -> Iterator[dict[str, Doubles]]:
    """Sums of each path over the depots of each group, (paths, horizon), `CHUNK` depots at a
    time."""
    for start in range(0, len(forecast.depot_ids), CHUNK):
        rows = slice(start, start + CHUNK)
        sampled = sample_paths(forecast, panel, rows=rows)
        if scored is not None:
            sampled = np.where(scored[None, rows], sampled, 0.0)
        yield {name: sampled[:, in_group[rows]].sum(axis=1) for name, in_group in members.items()}


def quantiles_of_sums(parts: Iterable[Mapping[str, Doubles]], levels: Sequence[float]) -> dict[str, Doubles]:
    """Quantiles (horizon, levels) of each group, of the sums of its chunks, which are added in
    their order."""
    sums: dict[str, Doubles] = {}
    for part in parts:
        for name, of_chunk in part.items():
            sums[name] = sums.get(name, 0.0) + of_chunk
    return {name: np.quantile(total, levels, axis=0).T for name, total in sums.items()}


def score_totals(folds: Sequence[Fold], panel: Panel) -> dict[str, float]:
    """Coverage, bias and width of the totals of some folds: of the network, and of all cities
    together where depots have one.

    `network_coverage` and `city_coverage` are shares of days (and cities) within the 80 % interval,
    `…_bias` the sum of medians less that of actuals by the latter, `…_width` that of the intervals.
    What cannot be scored is in no sum.
    """
    members = groups(panel)
    rows: dict[str, list[Doubles]] = {"network": [], **({"city": []} if len(members) > 1 else {})}
    for fold in folds:
        scored = np.isfinite(fold.actuals)
        predicted = group_totals(fold.forecast, panel.at(fold.forecast.cutoff), scored)
        ends = [fold.forecast.levels.index(level) for level in (0.1, 0.5, 0.9)]
        for name, in_group in members.items():
            days = scored[in_group].any(axis=0)
            actual = np.nansum(fold.actuals[in_group], axis=0)[days]
            rows["city" if name else "network"].append(np.column_stack([predicted[name][days][:, ends], actual]))
    return {
        f"{level}_{name}": value for level, parts in rows.items() for name, value in _interval_scores(parts).items()
    }


def _interval_scores(parts: Sequence[Doubles]) -> dict[str, float]:
    """Coverage, bias and width of rows of the interval's low end, median and high end, and the
    actual."""
    low, middle, high, actual = np.concatenate(parts).T if parts else np.zeros((4, 0))
    total = actual.sum()
    return {
        "coverage": float(((low <= actual) & (actual <= high)).mean()) if len(actual) else float("nan"),
        "bias": float((middle - actual).sum() / total) if total > 0 else float("nan"),
        "width": float((high - low).sum() / total) if total > 0 else float("nan"),
    }


def _templates(panel: Panel, count: int, chosen: slice) -> Doubles:
    """Surprises of depots in windows of a horizon's length, (paths, depots, horizon), the newest
    first.

    A surprise is the log count less the mean of the last same weekdays that were known when the
    window began; one that is not known is 0: neither.
    """
    horizon, weeks_ahead = panel.horizon, -(-panel.horizon // SEASON)
    needed = SEASON * (WEEKS + weeks_ahead - 1)
    count = min(count, panel.history - needed - horizon + 1)
    if count <= 0:
        return np.zeros((0, len(panel.depot_ids[chosen]), horizon))
    days = needed + horizon + count - 1
    demand, open_ = panel.past(days, chosen)
    log = np.where(open_[:, :days], np.log1p(demand.astype(float)), np.nan)
    parts = []
    for ahead in range(weeks_ahead):
        weeks = range(ahead + 1, ahead + WEEKS + 1)
        before = np.stack([log[:, needed - SEASON * week : days - SEASON * week] for week in weeks])
        observed = np.isfinite(before)
        usual = np.sum(before, axis=0, where=observed) / np.maximum(observed.sum(axis=0), 1)
        surprise = np.where(observed.any(axis=0), log[:, needed:] - usual, np.nan)
        surprise = np.nan_to_num(surprise, nan=0.0)
        # (depots, paths, horizon)
        windows = np.lib.stride_tricks.sliding_window_view(surprise, horizon, axis=1)
        parts.append(windows[..., SEASON * ahead : SEASON * (ahead + 1)])
    templates: Doubles = np.moveaxis(np.concatenate(parts, axis=-1), 1, 0)[::-1]
    return templates


def _values_at(forecast: Forecast, shares: Doubles, chosen: slice) -> Doubles:
    """The forecast's values at some shares, (shares, depots, horizon): straight between its levels,
    in log counts against normal scores, and beyond them on."""
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(level) for level in forecast.levels])
    targets = np.array([normal.inv_cdf(share) for share in shares])
    log = np.moveaxis(np.log1p(forecast.quantiles[chosen].astype(float)), -1, 0)
    place = np.clip(np.searchsorted(scores, targets) - 1, 0, len(scores) - 2)
    along = ((targets - scores[place]) / (scores[place + 1] - scores[place]))[:, None, None]
    values: Doubles = np.maximum(np.expm1(log[place] + along * (log[place + 1] - log[place])), 0.0)
    return values
