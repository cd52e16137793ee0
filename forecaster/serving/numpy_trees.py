"""Boosted trees in plain NumPy, from the root down, and their further inputs: the second
implementation of the graph's.

Each node has a share of a row. A split sends the share left up to its `threshold`, right from
`ramp` above it, and to both sides in proportion between the two. Node k of a level has the children
k (left) and k + 2**level (right) on the next one.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles
from forecaster.serving.day_arrays import DaySeries, Lengths, near, shift, trailing


def predict(feature: Doubles, threshold: Doubles, leaf: Doubles, inputs: Doubles, ramp: float) -> Doubles:
    """Sum of each day's trees (rows, horizon) for `inputs` (rows, horizon, inputs); `feature` and
    `threshold` are (horizon, trees, nodes), `leaf` is (horizon, trees, leaves)."""
    sums = np.zeros(inputs.shape[:2])
    for step in range(inputs.shape[1]):
        for places, bounds, leaves in zip(feature[step].astype(int), threshold[step], leaf[step], strict=True):
            right = np.clip((inputs[:, step][:, places] - bounds) / ramp, 0, 1)
            share = np.ones((len(inputs), 1))
            while share.shape[1] < len(leaves):
                of_level = right[:, share.shape[1] - 1 : 2 * share.shape[1] - 1]
                share = np.concatenate([share * (1 - of_level), share * of_level], axis=1)
            sums[:, step] += share @ leaves
    return sums


def further_inputs(
    series: DaySeries, size: Doubles, known_ahead: Doubles, anchor: Doubles, yearly: float, of: Lengths
) -> Doubles:
    """Further inputs (depots, horizon, further), in the order of the graph; `of` has the manifest's
    lengths."""
    days, horizon = series.log.shape[1], anchor.shape[1]
    now = _now(series, size, yearly, of)
    parts = [np.broadcast_to(now[:, None], (*anchor.shape, now.shape[-1]))]
    parts += [_same_weekdays(series, anchor, of), _a_year_ago(series, horizon, yearly, of["year"])]
    for by in of["near"]:  # days after the horizon are unknown
        later = known_ahead[:, days + max(by, 0) :] if by > 0 else known_ahead[:, days + by : days + by + horizon]
        parts.append(np.pad(later, [(0, 0), (0, horizon - later.shape[1]), (0, 0)]))
    lags = (
        near(series.log[:, : -of["lags"] - 1 : -1] - series.level[:, -1:]) * series.observed[:, : -of["lags"] - 1 : -1]
    )
    parts.append(np.broadcast_to(lags[:, None], (*anchor.shape, lags.shape[-1])))
    return np.concatenate(parts, axis=-1)


def _now(series: DaySeries, size: Doubles, yearly: float, of: Lengths) -> Doubles:
    """Known values on the last day, (depots, inputs)."""
    level = series.level

    def mean(x: Doubles, known_days: Doubles, days: int) -> tuple[Doubles, Doubles]:
        count = trailing(known_days, days)[:, -1]
        return trailing(x, days)[:, -1] / np.maximum(count, 1), count

    def against_level(days: int) -> Doubles:
        average, count = mean(series.plain, series.observed, days)
        return near(average - level[:, -1]) * (count > 0)

    month, year = of["level"], of["year"]
    month_count = trailing(series.observed, month)
    growth = yearly * near(level[:, -1] - shift(level, year)[:, -1]) * (shift(month_count, year)[:, -1] > 0)
    mean_errors = [mean(np.abs(series.surprise), series.surprising, length)[0] for length in (7, month)]
    values = [against_level(7 * weeks) for weeks in of["means"]]
    values += [yearly * against_level(year), growth, mean(series.surprise, series.surprising, 3)[0], *mean_errors]
    values += [size[:, -1], month_count[:, -1] / month]
    values += [series.surprise[:, -1 - day] for day in range(of["days_surprised"])]
    return np.stack(values, axis=-1)


def _same_weekdays(series: DaySeries, anchor: Doubles, of: Lengths) -> Doubles:
    """Mean, spread, minimum and maximum of the last known same weekdays relative to the anchor,
    (depots, horizon, 4)."""
    days, (depots, horizon) = series.log.shape[1], anchor.shape
    result = np.zeros((depots, horizon, 4))
    for step in range(horizon):
        last = days + step - 7 * (step // 7 + 1)  # the last known same weekday
        place = last - 7 * np.arange(of["more_weeks"])
        is_known = series.observed[:, place] > 0
        values = np.where(is_known, series.plain[:, place], np.nan)
        some = is_known.any(axis=1)
        of_some, middle = values[some], anchor[some, step]
        mean = np.nanmean(of_some, axis=1)
        result[some, step, 0] = near(mean - middle)
        result[some, step, 1] = np.nanmean(np.abs(of_some - mean[:, None]), axis=1)
        result[some, step, 2] = near(np.nanmin(of_some, axis=1) - middle)
        result[some, step, 3] = near(np.nanmax(of_some, axis=1) - middle)
    return result


def _a_year_ago(series: DaySeries, horizon: int, yearly: float, year: int) -> Doubles:
    """The days next to the same weekday of a year ago, relative to the level a week before it, with
    their masks, (depots, horizon, 4)."""
    target_days = series.log.shape[1] + np.arange(horizon)
    then, parts = series.level[:, target_days - year - 7], []
    for by in (year + 1, year - 1):
        weight = yearly * series.observed[:, target_days - by]
        parts += [near(series.log[:, target_days - by] - then) * weight, weight]
    return np.stack(parts, axis=-1)
