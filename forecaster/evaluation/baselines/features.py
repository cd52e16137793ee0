"""Feature engineering for the gradient-boosted baseline: one row per depot, cutoff and step ahead.

Counts are logarithms relative to the depot's level at the cutoff, so that large and small depots
share one model. A row uses nothing after its cutoff except values that are known ahead, up to
cutoff + horizon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.panel import Panel

SEASON, YEAR = 7, 364  # a year of whole weeks
LAGS = 14  # days up to the cutoff, each a separate feature
WINDOWS = (7, 14, 28, 56)
LEVEL = 28
WEEKS = 8  # same weekdays up to the cutoff
LOOKBACK = YEAR + 2 * max(WINDOWS)  # largest number of days before a cutoff that a feature uses
_NEAR = (-7, -2, -1, 1, 2)  # days around the target day whose holidays and covariates are features

_Places = NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """Rows of the feature table: indexes of depots, indexes of cutoffs among the panel's days, and
    steps ahead from 1."""

    depot: _Places
    cutoff: _Places
    step: _Places

    @property
    def target(self) -> _Places:
        return self.cutoff + self.step

    def __getitem__(self, selection: Any) -> Rows:
        return Rows(self.depot[selection], self.cutoff[selection], self.step[selection])


class Table:
    """Feature table of one panel; rows are computed on request."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
        self.log: Doubles = np.log1p(counts.astype(float))  # (depots, history)

    @cached_property
    def level(self) -> Doubles:
        """Mean log count of the last days up to each day, (depots, history); NaN if none is known."""
        return self._rolling(LEVEL, "mean")

    def level_at(self, rows: Rows) -> Doubles:
        return self.level[rows.depot, rows.cutoff]

    def is_word(self, feature: str) -> bool:
        """Return True for a category code without an order."""
        return feature.startswith("static ")

    def target(self, rows: Rows) -> Doubles:
        """Log count of the target day relative to the level."""
        return self.log[rows.depot, rows.target] - self.level[rows.depot, rows.cutoff]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features in the order of `matrix`."""
        nothing = np.zeros(0, np.intp)
        return tuple(name for name, _ in self._features(Rows(nothing, nothing, nothing)))

    def matrix(self, rows: Rows) -> Floats:
        """Features (rows, features); NaN for unknown values."""
        features = np.empty((len(rows.depot), len(self.names)), np.float32)
        for place, (_, values) in enumerate(self._features(rows)):
            features[:, place] = values
        return features

    def _features(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        """Yield the name and one value per row of each feature; counts are relative logarithms."""
        yield from self._recent(rows)
        yield from self._same_weekday(rows)
        yield from self._last_year(rows)
        yield from self._date(rows)
        yield from self._known_ahead(rows)
        for place, name in enumerate(self.panel.encoding.statics):
            yield f"static {name}", self.panel.statics[rows.depot, place]

    def _recent(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        at = (rows.depot, rows.cutoff)
        level = self.level[at]
        yield "level", level
        for lag in range(LAGS):
            yield f"lag {lag}", self._at(self.log, rows.depot, rows.cutoff - lag) - level
        for days in (*WINDOWS, YEAR):
            if days != LEVEL:
                yield f"mean of {days}", self._rolling(days, "mean")[at] - level
        for days in WINDOWS:
            yield f"median of {days}", self._rolling(days, "median")[at] - level
            yield f"deviation of {days}", self._rolling(days, "std")[at]
        yield "known of 28", self.count[at]
        for days in (1, 3, 7):
            yield f"surprise of {days}", self._surprise(days)[at]

    def _same_weekday(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        level = self.level[rows.depot, rows.cutoff]
        last = rows.target - SEASON * -(-rows.step // SEASON)
        weeks = np.stack([self._at(self.log, rows.depot, last - SEASON * week) for week in range(WEEKS)]) - level
        for week in range(4):
            yield f"same weekday {week + 1}", weeks[week]
        with np.errstate(invalid="ignore"):
            yield "same weekday of 4", _mean(weeks[:4])
            yield "same weekday of 8", _mean(weeks)
            yield "same weekday deviation", np.sqrt(_mean((weeks - _mean(weeks)) ** 2))
        yield "same weekday least", np.fmin.reduce(weeks)
        yield "same weekday most", np.fmax.reduce(weeks)

    def _last_year(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        level = self.level[rows.depot, rows.cutoff]
        then = self._at(self.level, rows.depot, rows.cutoff - YEAR)
        day = self._at(self.log, rows.depot, rows.target - YEAR)
        yield "last year", day - level
        yield "last year to its level", day - then
        yield "last year's date", self._at(self.log, rows.depot, rows.target - YEAR - 1) - then
        week = self._at(self._rolling(SEASON, "mean"), rows.depot, rows.target - YEAR + 3)
        yield "last year's week to its level", week - then

    def _date(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        days = self.panel.days[rows.target]
        month, year = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
        yield "weekday", (days.astype(np.int64) + 3) % 7
        yield "month", month.astype(np.int64) % 12
        yield "day of month", (days - month.astype(days.dtype)).astype(np.int64)
        yield "day of year", (days - year.astype(days.dtype)).astype(np.int64)

    def _known_ahead(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        panel = self.panel
        group = panel.calendar_group[rows.depot]
        for place, name in enumerate(panel.calendar_names):
            if not is_holiday_feature(name):
                continue
            yield f"{name}", panel.calendar[group, rows.target, place]
            for near in _NEAR:
                yield f"{name} {near:+}", self._ahead(panel.calendar[..., place], group, rows, near)
        for place, name in enumerate(panel.encoding.covariates):
            yield f"covariate {name}", panel.covariates[rows.depot, rows.target, place]
            for near in _NEAR:
                yield f"covariate {name} {near:+}", self._ahead(panel.covariates[..., place], rows.depot, rows, near)
        for near in _NEAR:
            yield f"open {near:+}", self._ahead(panel.open, rows.depot, rows, near)

    def _ahead(self, values: Any, row: Any, rows: Rows, near: int) -> Floats:
        """Value known ahead of a day near the target day; NaN beyond the horizon."""
        day = rows.target + near
        inside = (day >= 0) & (day <= rows.cutoff + self.panel.horizon)
        return np.where(inside, values[row, np.where(inside, day, 0)], np.nan).astype(np.float32)

    def _at(self, values: Doubles, depot: _Places, day: _Places) -> Doubles:
        """Values on days of the history, NaN before it."""
        return np.where(day >= 0, values[depot, np.maximum(day, 0)], np.nan)

    def _rolling(self, days: int, statistic: str) -> Doubles:
        if (days, statistic) not in self._cache:
            window = self._frame.rolling(days, min_periods=1 if statistic == "mean" else 3)
            self._cache[days, statistic] = getattr(window, statistic)().to_numpy().T
        return self._cache[days, statistic]

    def _surprise(self, days: int) -> Doubles:
        """Mean deviation of the last days from the same weekdays of the four weeks before."""
        if ("surprise", days) not in self._cache:
            before = [np.pad(self.log, [(0, 0), (SEASON * week, 0)], constant_values=np.nan) for week in range(1, 5)]
            expected = _mean(np.stack([x[:, : self.log.shape[1]] for x in before]))
            window = pd.DataFrame((self.log - expected).T).rolling(days, min_periods=1)
            self._cache["surprise", days] = window.mean().to_numpy().T
        return self._cache["surprise", days]

    @cached_property
    def count(self) -> Doubles:
        observed = self._frame.notna().astype(float).rolling(LEVEL, min_periods=1)
        counts: Doubles = observed.sum().to_numpy().T
        return counts

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.log.T)

    @cached_property
    def _cache(self) -> dict[tuple[Any, Any], Doubles]:
        return {}


def is_holiday_feature(name: str) -> bool:
    """Return True if the calendar feature marks holidays or days next to them."""
    return "holiday" in name


def _mean(values: Doubles) -> Doubles:
    """Mean of the known values along the first axis; NaN if none is known."""
    count = np.isfinite(values).sum(axis=0)
    total = np.sum(values, axis=0, where=np.isfinite(values))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
