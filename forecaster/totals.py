"""Cities and the network: sums of depots along joint paths, since quantiles of parts do not add up to those of a sum.

Each depot's forecast becomes as many equally likely values as there are templates: windows of recent days on which all
depots were seen together. The values are put into the order that the depot's surprises had in the templates, so that
depots and days which were surprised together are so in the paths (the Schaake shuffle: Clark et al. 2004, "The Schaake
shuffle", Journal of Hydrometeorology 5). A path's total is the sum of its depots, so depot, city and network agree path
by path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecaster.values import Doubles, Fold, Forecast, Panel

PATHS = 90  # templates, each a day after the one before
WEEKS = 4  # same weekdays that say what was to be expected
SEASON = 7


def paths(forecast: Forecast, panel: Panel, count: int = PATHS) -> Doubles:
    """Joint sample paths of a forecast made at the panel's cutoff, (paths, depots, horizon); zero on closed days.

    Where the history is too short for `count` templates there are fewer; without any, one path of medians.
    """
    templates = _templates(panel, count)
    if not len(templates):
        return forecast.median[None].astype(float)
    order: NDArray[np.intp] = np.argsort(np.argsort(templates, axis=0, kind="stable"), axis=0)
    shares = (np.arange(len(templates)) + 0.5) / len(templates)
    values = np.take_along_axis(_at(forecast, shares), order, axis=0)
    return np.where(forecast.open[None], values, 0.0)


def quantiles(sampled: Doubles, members: NDArray[np.bool_], levels: Sequence[float]) -> Doubles:
    """Quantiles (horizon, levels) of the members' sum; `members` (depots,) says who belongs to it."""
    total = sampled[:, members].sum(axis=1)
    found: Doubles = np.quantile(total, levels, axis=0).T
    return found


def measure(folds: Sequence[Fold], panel: Panel, seen: Callable[[date], Panel] | None = None) -> dict[str, float]:
    """How the totals of some folds did: of the network, and of all cities together where depots have one.

    `network_coverage` and `city_coverage` are shares of days (and cities) within the 80 % interval, `…_bias` the sum of
    medians less that of actuals by the latter, `…_width` that of the intervals. What cannot be scored is in no sum.
    """
    cities = np.array(panel.attributes.get("city", ("",) * len(panel.depot_ids)))
    groups = {"network": [np.ones(len(cities), bool)]}
    if len(set(cities.tolist())) > 1:
        groups["city"] = [cities == city for city in sorted(set(cities.tolist()))]
    rows: dict[str, list[Doubles]] = {level: [] for level in groups}
    for fold in folds:
        scored = np.isfinite(fold.actuals)
        sampled = np.where(scored[None], paths(fold.forecast, (seen or panel.at)(fold.forecast.cutoff)), 0.0)
        for level, members in groups.items():
            for each in members:
                days = scored[each].any(axis=0)
                came = np.nansum(fold.actuals[each], axis=0)[days]
                rows[level].append(np.column_stack([quantiles(sampled, each, (0.1, 0.5, 0.9))[days], came]))
    found = {}
    for level, parts in rows.items():
        low, middle, high, came = np.concatenate(parts).T if parts else np.zeros((4, 0))
        total = came.sum() if len(came) else np.nan
        found[f"{level}_coverage"] = float(((low <= came) & (came <= high)).mean()) if len(came) else float("nan")
        found[f"{level}_bias"] = float((middle - came).sum() / total) if total > 0 else float("nan")
        found[f"{level}_width"] = float((high - low).sum() / total) if total > 0 else float("nan")
    return found


def _templates(panel: Panel, count: int) -> Doubles:
    """How depots were surprised in windows of a horizon's length, (paths, depots, horizon), the newest first.

    A surprise is the log count less the mean of the same weekdays before; one that is not known is 0: neither.
    """
    horizon, needed = panel.horizon, SEASON * WEEKS
    count = min(count, panel.history - needed - horizon + 1)
    if count <= 0:
        return np.zeros((0, len(panel.depot_ids), horizon))
    days = needed + horizon + count - 1
    demand, open_ = panel.past(days)
    log = np.where(open_[:, :days], np.log1p(demand.astype(float)), np.nan)
    before = np.stack([log[:, needed - SEASON * week : days - SEASON * week] for week in range(1, WEEKS + 1)])
    known = np.isfinite(before)
    usual = np.sum(before, axis=0, where=known) / np.maximum(known.sum(axis=0), 1)
    surprise = np.where(known.any(axis=0), log[:, needed:] - usual, np.nan)
    surprise = np.nan_to_num(surprise, nan=0.0)
    windows = np.lib.stride_tricks.sliding_window_view(surprise, horizon, axis=1)  # (depots, paths, horizon)
    found: Doubles = np.moveaxis(windows, 1, 0)[::-1]
    return found


def _at(forecast: Forecast, shares: Doubles) -> Doubles:
    """The forecast's values at some shares, (shares, depots, horizon): straight between its levels, in log counts
    against normal scores, and beyond them on."""
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(level) for level in forecast.levels])
    wanted = np.array([normal.inv_cdf(share) for share in shares])
    log = np.moveaxis(np.log1p(forecast.quantiles.astype(float)), -1, 0)
    place = np.clip(np.searchsorted(scores, wanted) - 1, 0, len(scores) - 2)
    along = ((wanted - scores[place]) / (scores[place + 1] - scores[place]))[:, None, None]
    values: Doubles = np.maximum(np.expm1(log[place] + along * (log[place + 1] - log[place])), 0.0)
    return values
