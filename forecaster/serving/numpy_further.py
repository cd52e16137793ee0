"""Further inputs, those of boosted trees, in plain NumPy: the second implementation of the graph's, for one origin.

Rolling means, misses and trends up to the last day of history, more weeks of the same weekday, a year ago by date, what
is known of the days around the one that is forecast, and the last days each by itself.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles
from forecaster.serving.day_arrays import DaySeries, Lengths, near, shift, trailing


def make(
    series: DaySeries, size: Doubles, known_ahead: Doubles, anchor: Doubles, yearly: float, of: Lengths
) -> Doubles:
    """(depots, horizon, further), in the order in which the graph has them; `of` are the manifest's lengths."""
    days, horizon = series.log.shape[1], anchor.shape[1]
    now = _now(series, size, yearly, of)
    parts = [np.broadcast_to(now[:, None], (*anchor.shape, now.shape[-1]))]
    parts += [_same_weekdays(series, anchor, of), _a_year_ago(series, horizon, yearly, of["year"])]
    for by in of["near"]:  # of days after the horizon nothing is known
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

    def mean(x: Doubles, known: Doubles, days: int) -> tuple[Doubles, Doubles]:
        count = trailing(known, days)[:, -1]
        return trailing(x, days)[:, -1] / np.maximum(count, 1), count

    def against_level(days: int) -> Doubles:
        average, count = mean(series.plain, series.observed, days)
        return near(average - level[:, -1]) * (count > 0)

    month, year = of["level"], of["year"]
    month_count = trailing(series.observed, month)
    growth = yearly * near(level[:, -1] - shift(level, year)[:, -1]) * (shift(month_count, year)[:, -1] > 0)
    missed = [mean(np.abs(series.surprise), series.surprising, length)[0] for length in (7, month)]
    values = [against_level(7 * weeks) for weeks in of["means"]]
    values += [yearly * against_level(year), growth, mean(series.surprise, series.surprising, 3)[0], *missed]
    values += [size[:, -1], month_count[:, -1] / month]
    values += [series.surprise[:, -1 - day] for day in range(of["days_surprised"])]
    return np.stack(values, axis=-1)


def _same_weekdays(series: DaySeries, anchor: Doubles, of: Lengths) -> Doubles:
    """Mean, spread, least and most of the last known same weekdays against the anchor, (depots, horizon, 4)."""
    days, (depots, horizon) = series.log.shape[1], anchor.shape
    result = np.zeros((depots, horizon, 4))
    for step in range(horizon):
        last = days + step - 7 * (step // 7 + 1)  # the last same weekday that is known
        place = last - 7 * np.arange(of["more_weeks"])
        known = series.observed[:, place] > 0
        values = np.where(known, series.plain[:, place], np.nan)
        some = known.any(axis=1)
        of_some, middle = values[some], anchor[some, step]
        mean = np.nanmean(of_some, axis=1)
        result[some, step, 0] = near(mean - middle)
        result[some, step, 1] = np.nanmean(np.abs(of_some - mean[:, None]), axis=1)
        result[some, step, 2] = near(np.nanmin(of_some, axis=1) - middle)
        result[some, step, 3] = near(np.nanmax(of_some, axis=1) - middle)
    return result


def _a_year_ago(series: DaySeries, horizon: int, yearly: float, year: int) -> Doubles:
    """The days beside the same weekday of a year ago, against the level of a week before it, (depots, horizon, 4)."""
    ahead = series.log.shape[1] + np.arange(horizon)
    then, parts = series.level[:, ahead - year - 7], []
    for by in (year + 1, year - 1):
        known = yearly * series.observed[:, ahead - by]
        parts += [near(series.log[:, ahead - by] - then) * known, known]
    return np.stack(parts, axis=-1)
