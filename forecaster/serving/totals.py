"""Hierarchical totals of the network and of groups of depots, by day and by week, along joint
sample paths: quantiles of parts do not add up to those of their sum.

Each depot's forecast becomes one equally likely value per template; templates are windows of recent
days of all depots. The values are reordered by the ranks of the depot's surprises in the templates,
so that depots and days that were surprised together stay together in the paths (the Schaake
shuffle: Clark et al. 2004, "The Schaake shuffle", Journal of Hydrometeorology 5). A path's total is
the sum over its depots and days; depots, groups of each level and network, and days and weeks,
therefore agree path by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel

PATHS = 90  # templates, each starting one day after the previous one
WEEKS = 4  # same weekdays whose mean is the expectation
SEASON = 7
CHUNK = 4096  # depots at a time; bounds memory
Group = tuple[str, str]  # level (a column of the depots source), and the value of its depots there
CITY = "city"  # level that every pipeline has
NETWORK: Group = (CITY, "")


def sample_paths(forecast: Forecast, panel: Panel, rows: slice = slice(None)) -> Doubles:
    """Joint sample paths of a forecast made at the panel's cutoff, (paths, depots, horizon), for
    the depots `rows`; zero on closed days.

    A history that is too short for `PATHS` templates gives fewer; without any, there is one path of
    medians.
    """
    templates = _templates(panel, rows)
    if not len(templates):
        return forecast.median[None, rows].astype(float)
    order: NDArray[np.intp] = np.argsort(np.argsort(templates, axis=0, kind="stable"), axis=0)
    shares = (np.arange(len(templates)) + 0.5) / len(templates)
    values = np.take_along_axis(_values_at(forecast, shares, rows), order, axis=0)
    return np.where(forecast.open[None, rows], values, 0.0)


def groups(panel: Panel, levels: Sequence[str] = (CITY,)) -> dict[Group, NDArray[np.bool_]]:
    """Masks of the depots of the network, and of each value of a level with several values."""
    members = {NETWORK: np.ones(len(panel.depot_ids), bool)}
    for level in levels:
        values = np.array(panel.attributes.get(level, ("",) * len(panel.depot_ids)))
        names = sorted(set(values.tolist()) - {""})
        members |= {(level, name): values == name for name in names} if len(names) > 1 else {}
    return members


def week_sums(daily: Doubles) -> Doubles:
    """Sums of each whole week from the first day on, along the last axis."""
    weeks = daily.shape[-1] // SEASON
    days = daily[..., : weeks * SEASON].reshape(*daily.shape[:-1], weeks, SEASON)
    sums: Doubles = days.sum(axis=-1)
    return sums


def with_weeks(daily: Doubles) -> Doubles:
    """Days followed by their `week_sums`, along the last axis."""
    return np.concatenate([daily, week_sums(daily)], axis=-1)


class JointTotals(NamedTuple):
    """Quantiles of sums along the same joint paths, at the forecast's levels."""

    of_groups: dict[Group, Doubles]  # (days, then weeks; levels)
    depot_weeks: Doubles  # (depots, weeks, levels)


class ChunkTotals(NamedTuple):
    """Totals of a chunk of depots."""

    sums: dict[Group, Doubles]  # of each path over the depots of each group, (paths, days, then weeks)
    depot_weeks: Doubles  # (depots, weeks, levels)


def joint_totals(
    forecast: Forecast,
    panel: Panel,
    levels: Sequence[str] = (CITY,),
    scored: NDArray[np.bool_] | None = None,
) -> JointTotals:
    """Quantiles of the total orders of each group of these levels by day and week, and of each
    depot by week.

    Days outside `scored` (depots, horizon) are not counted.
    """
    weeks: list[Doubles] = []

    def sums() -> Iterator[dict[Group, Doubles]]:
        for chunk in chunk_totals(forecast, panel, groups(panel, levels), scored):
            weeks.append(chunk.depot_weeks)
            yield chunk.sums

    return JointTotals(quantiles_of_sums(sums(), forecast.levels), np.concatenate(weeks))


def chunk_totals(
    forecast: Forecast,
    panel: Panel,
    members: Mapping[Group, NDArray[np.bool_]],
    scored: NDArray[np.bool_] | None = None,
) -> Iterator[ChunkTotals]:
    """Yield the totals of `CHUNK` depots at a time."""
    for start in range(0, len(forecast.depot_ids), CHUNK):
        rows = slice(start, start + CHUNK)
        sampled = sample_paths(forecast, panel, rows=rows)
        if scored is not None:
            sampled = np.where(scored[None, rows], sampled, 0.0)
        quantiles = np.quantile(week_sums(sampled), forecast.levels, axis=0)
        sums = {group: with_weeks(sampled[:, inside[rows]].sum(axis=1)) for group, inside in members.items()}
        yield ChunkTotals(sums, np.moveaxis(quantiles, 0, -1))


def quantiles_of_sums(parts: Iterable[Mapping[Group, Doubles]], levels: Sequence[float]) -> dict[Group, Doubles]:
    """Quantiles (days, then weeks; levels) of each group's total over the chunks, which are added
    in their order."""
    sums: dict[Group, Doubles] = {}
    for part in parts:
        for group, of_chunk in part.items():
            sums[group] = sums.get(group, 0.0) + of_chunk
    return {group: np.quantile(total, levels, axis=0).T for group, total in sums.items()}


def score_totals(
    folds: Sequence[Fold], panel: Panel, levels: Sequence[str] = (CITY,)
) -> dict[str, Mapping[str, float]]:
    """Coverage, bias and width of the totals of some folds: of the network, and of all groups of a
    level together, by day and (as `… week`) by week; and of the weeks of depots.

    `coverage` is the share of days or weeks (of each group) within the 80 % interval, `bias` the
    sum of medians minus that of actuals, divided by the latter, `width` the sum of interval widths,
    divided by the same. Days that cannot be scored are in no sum.
    """
    members = groups(panel, levels)
    rows: dict[str, list[Doubles]] = {level if name else "network": [] for level, name in members}
    for fold in folds:
        scored, horizon = np.isfinite(fold.actuals), fold.actuals.shape[1]
        joint = joint_totals(fold.forecast, panel.at(fold.forecast.cutoff), levels, scored)
        ends = [fold.forecast.levels.index(level) for level in (0.1, 0.5, 0.9)]
        actuals = np.nan_to_num(fold.actuals.astype(float))
        cases = [
            (
                (level if name else "network"),
                joint.of_groups[level, name],
                actuals[inside].sum(0),
                scored[inside].any(0),
            )
            for (level, name), inside in members.items()
        ]
        for part, predicted, actual, is_scored in cases:
            numbers = np.column_stack([predicted[:, ends], with_weeks(actual)])
            is_known = with_weeks(is_scored.astype(float)) > 0
            rows[part].append(numbers[:horizon][is_known[:horizon]])
            rows.setdefault(f"{part} week", []).append(numbers[horizon:][is_known[horizon:]])
        weeks = np.concatenate([joint.depot_weeks[..., ends], week_sums(actuals)[..., None]], axis=-1)
        rows.setdefault("depot week", []).append(weeks[week_sums(scored.astype(float)) > 0])
    return {part: _interval_scores(parts) for part, parts in rows.items()}


def _interval_scores(parts: Sequence[Doubles]) -> dict[str, float]:
    """Coverage, bias and width of rows of the interval's lower end, median, upper end, and the
    actual."""
    low, middle, high, actual = np.concatenate(parts).T if parts else np.zeros((4, 0))
    total = actual.sum()
    return {
        "coverage": float(((low <= actual) & (actual <= high)).mean()) if len(actual) else float("nan"),
        "bias": float((middle - actual).sum() / total) if total > 0 else float("nan"),
        "width": float((high - low).sum() / total) if total > 0 else float("nan"),
    }


def _templates(panel: Panel, rows: slice) -> Doubles:
    """Surprises of depots in windows of a horizon's length, (paths, depots, horizon), the newest
    first.

    A surprise is the log count minus the mean of the last same weekdays known when the window
    began; an unknown one is 0.
    """
    horizon, weeks_ahead = panel.horizon, -(-panel.horizon // SEASON)
    needed = SEASON * (WEEKS + weeks_ahead - 1)
    count = min(PATHS, panel.history - needed - horizon + 1)
    if count <= 0:
        return np.zeros((0, len(panel.depot_ids[rows]), horizon))
    days = needed + horizon + count - 1
    demand, open_ = panel.past(days, rows)
    log = np.where(open_[:, :days], np.log1p(demand.astype(float)), np.nan)
    parts = []
    for lead_weeks in range(weeks_ahead):
        weeks = range(lead_weeks + 1, lead_weeks + WEEKS + 1)
        before = np.stack([log[:, needed - SEASON * week : days - SEASON * week] for week in weeks])
        observed = np.isfinite(before)
        usual = np.sum(before, axis=0, where=observed) / np.maximum(observed.sum(axis=0), 1)
        surprise = np.where(observed.any(axis=0), log[:, needed:] - usual, np.nan)
        surprise = np.nan_to_num(surprise, nan=0.0)
        # (depots, paths, horizon)
        windows = np.lib.stride_tricks.sliding_window_view(surprise, horizon, axis=1)
        parts.append(windows[..., SEASON * lead_weeks : SEASON * (lead_weeks + 1)])
    templates: Doubles = np.moveaxis(np.concatenate(parts, axis=-1), 1, 0)[::-1]
    return templates


def _values_at(forecast: Forecast, shares: Doubles, rows: slice) -> Doubles:
    """Values of the forecast at some shares, (shares, depots, horizon): linear between its levels
    in log counts over normal scores, and extrapolated beyond them."""
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(level) for level in forecast.levels])
    targets = np.array([normal.inv_cdf(share) for share in shares])
    log = np.moveaxis(np.log1p(forecast.quantiles[rows].astype(float)), -1, 0)
    place = np.clip(np.searchsorted(scores, targets) - 1, 0, len(scores) - 2)
    along = ((targets - scores[place]) / (scores[place + 1] - scores[place]))[:, None, None]
    values: Doubles = np.maximum(np.expm1(log[place] + along * (log[place + 1] - log[place])), 0.0)
    return values
