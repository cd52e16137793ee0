"""The panel: dense daily demand of all depots up to a cutoff, the known future, and the encoding of
words as numbers.

Every array is NumPy; a value is never changed once made. Unknown is NaN. Axes are named in the
comments: depots, days (history, then horizon), levels (quantile levels).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Days, Doubles, Floats, Ints
from forecaster.core.imputation import cold_start
from forecaster.core.imputation.censoring import CappedCounts, demand_of
from forecaster.core.marks import Marks

Rows = slice | NDArray[np.intp]
"""Depots by their positions."""
ALL_ROWS = slice(None)


@dataclass(frozen=True)
class Encoding:
    """Categorical encoding of the data's words as numbers; learned in training, kept in the bundle.

    `covariates` are the known-future covariates in the order of the panel's last axis; a covariate
    of words has one indicator per word, named `column=word`. `statics` maps each static attribute
    to its labels: label i has code i + 1, and code 0 means "not seen in training".
    """

    covariates: tuple[str, ...]
    statics: Mapping[str, tuple[str, ...]]

    def to_json(self) -> dict[str, Any]:
        # Pairs, not an object: the order of the statics is the order of the model's inputs.
        return {"covariates": list(self.covariates), "statics": [[k, list(v)] for k, v in self.statics.items()]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Encoding:
        return cls(tuple(value["covariates"]), {k: tuple(v) for k, v in value["statics"]})


@dataclass(frozen=True)
class Panel:
    """Dense daily demand of all depots up to the cutoff, and the known future after it.

    `days` holds the history and then the horizon without a gap; the last `horizon` days are after
    the cutoff.
    """

    depot_ids: tuple[str, ...]
    days: Days  # (days,) datetime64[D]
    horizon: int
    demand: Floats  # (depots, days - horizon); NaN = unknown, 0 = open without orders; see `capped`
    open: Bools  # (depots, days); False = closed on that day, or not yet / no longer in business
    covariates: Floats  # (depots, days, covariates), never NaN
    calendar: Floats  # (groups, days, features); depots with one holiday calendar share a group
    calendar_group: Ints  # (depots,)
    statics: Ints  # (depots, static attributes), codes of `encoding`
    encoding: Encoding
    calendar_names: tuple[str, ...]
    # attribute → its value for each depot
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)
    # of the network that these depots belong to; None: they are the whole network
    peers: cold_start.Peers | None = None
    # counts of which some are lower bounds, with estimates in `demand`; None: no count is one
    capped: CappedCounts | None = None

    def __post_init__(self) -> None:
        depots, days = len(self.depot_ids), len(self.days)
        shapes = {
            "demand": (self.demand.shape, (depots, days - self.horizon)),
            "open": (self.open.shape, (depots, days)),
            "covariates": (self.covariates.shape, (depots, days, len(self.encoding.covariates))),
            "calendar": (self.calendar.shape[1:], (days, len(self.calendar_names))),
            "calendar_group": (self.calendar_group.shape, (depots,)),
            "statics": (self.statics.shape, (depots, len(self.encoding.statics))),
        }
        for name, (shape, expected) in shapes.items():
            if shape != expected:
                raise ValueError(f"Panel.{name} has shape {shape}, wanted {expected}")

    @property
    def history(self) -> int:
        """Number of days up to and including the cutoff."""
        return len(self.days) - self.horizon

    @property
    def cutoff(self) -> date:
        """The last day with observed demand."""
        last: date = self.days[self.history - 1].astype(object)
        return last

    @property
    def served(self) -> Floats:
        """Original counts, (depots, days - horizon), also where demand was higher."""
        return self.demand if self.capped is None else self.capped.served

    @property
    def is_capped(self) -> Bools:
        """Days whose demand is an estimate, because their count is a lower bound, (depots, days -
        horizon)."""
        return np.zeros(self.demand.shape, np.bool_) if self.capped is None else self.capped.is_capped

    @property
    def target_dates(self) -> tuple[date, ...]:
        return tuple(self.days[self.history :].astype(object))

    def at(self, cutoff: date) -> Panel:
        """Return the same depots as of an earlier cutoff; of the days after it, only the known
        future is kept.

        Raises ValueError if the cutoff is outside the history.
        """
        history = self.history_at(cutoff)
        days = history + self.horizon
        past = replace(
            self,
            days=self.days[:days],
            demand=self.demand[:, :history],
            open=self.open[:, :days],
            covariates=self.covariates[:, :days],
            calendar=self.calendar[:, :days],
            capped=None,
        )
        return past if self.capped is None else past.with_capped(self.capped.of(ALL_ROWS, slice(history)))

    def history_at(self, cutoff: date) -> int:
        """Number of days up to and including an earlier cutoff. Raises ValueError if it is outside
        the history."""
        history = int((np.datetime64(cutoff, "D") - self.days[0]).astype(int)) + 1
        if not 1 <= history <= self.history:
            raise ValueError(f"cutoff {cutoff} is outside the history {self.days[0]} … {self.cutoff}")
        return history

    def with_capped(self, capped: CappedCounts) -> Panel:
        """Return the same panel with some counts as lower bounds: `demand` is then an estimate from
        the knowledge at the cutoff."""
        demand = demand_of(capped, self.open[:, : self.history], self.depot_ids, self.days[: self.history])
        return replace(self, demand=demand, capped=capped)

    def last(self, days: int) -> Panel:
        """Return the panel with only the last `days` days of its history."""
        start = max(self.history - days, 0)
        return replace(
            self,
            days=self.days[start:],
            demand=self.demand[:, start:],
            open=self.open[:, start:],
            covariates=self.covariates[:, start:],
            calendar=self.calendar[:, start:],
            capped=self.capped and self.capped.of(ALL_ROWS, slice(start, None)),
        )

    def among(self, depot_ids: Sequence[str]) -> Self:
        """Return the same panel for these depots in this order; a depot that it lacks has no known
        day and is never open.

        The result has no `marks`, and guesses nothing for added depots.
        """
        place = {depot: row for row, depot in enumerate(self.depot_ids)}
        rows = np.array([place.get(depot, -1) for depot in depot_ids], np.intp)
        absent = rows < 0

        def of(values: NDArray[Any], missing: float) -> NDArray[Any]:
            selection = values[rows] if len(values) else np.zeros((len(rows), *values.shape[1:]), values.dtype)
            selection[absent] = missing
            return selection

        return replace(
            self,
            depot_ids=tuple(depot_ids),
            demand=of(self.demand, np.nan),
            open=of(self.open, False),
            covariates=of(self.covariates, 0.0),
            calendar_group=of(self.calendar_group, 0),
            statics=of(self.statics, 0),
            attributes={
                name: tuple("" if row < 0 else labels[row] for row in rows) for name, labels in self.attributes.items()
            },
            marks=Marks(),
            capped=self.capped
            and CappedCounts(
                of(self.capped.served, np.nan),
                of(self.capped.is_capped, False),
                None if self.capped.expected is None else of(self.capped.expected, np.nan),
            ),
        )

    @cached_property
    def cold(self) -> Bools:
        """Depots whose forecast rests on their peers, because they have few known days
        (`cold_start`), (depots,)."""
        return cold_start.cold_depots(self.demand, self.open)

    def past(self, lookback: int, rows: Rows = ALL_ROWS) -> tuple[Floats, Bools]:
        """Return the counts of the last `lookback` days of history, and the open days of these and
        the horizon, as the model sees them.

        Days before the history are unknown and open. The unknown days of a young depot before its
        first known one are guessed from its peers' profile (`cold_start`), and open; every other
        value is the panel's own.
        """
        start, missing = max(self.history - lookback, 0), max(lookback - self.history, 0)
        demand, open_ = (
            _pad(self.demand[rows, start:], missing, np.nan),
            _pad(self.open[rows, start:], missing, True),
        )
        is_guessed = self._guess.rows[rows]
        if is_guessed.any():
            guess = self._guess.past[self._place_among_guessed(rows), start:]
            guess = np.pad(guess, [(0, 0), (missing, 0)], constant_values=np.nan)
            guessed = np.isnan(demand[is_guessed]) & np.isfinite(guess)
            demand[is_guessed] = np.where(guessed, guess, demand[is_guessed])
            open_[is_guessed, :lookback] |= guessed
        return demand, open_

    def widen_by_doubt(self, quantiles: Floats, levels: Sequence[float], rows: Rows = ALL_ROWS) -> Floats:
        """Widen the quantiles of young depots by the doubt about their level; `quantiles` are those
        of the depots `rows`, (depots, horizon, levels)."""
        is_guessed = self._guess.rows[rows]
        if not is_guessed.any():
            return quantiles
        wider, doubt = quantiles.copy(), self._guess.doubt[self._place_among_guessed(rows)]
        wider[is_guessed] = cold_start.widened_quantiles(quantiles[is_guessed], levels, doubt)
        return wider

    @property
    def doubt_of_level(self) -> Doubles:
        """Standard deviation of the level of young depots, (depots,), as in `cold_start.Guess`; 0
        for settled ones."""
        doubt = np.zeros(len(self.depot_ids))
        doubt[self._guess.rows] = self._guess.doubt
        return doubt

    def _place_among_guessed(self, rows: Rows) -> NDArray[np.intp]:
        """Positions in the guess of the depots among `rows` whose past is guessed."""
        guessed = self._guess.rows
        place: NDArray[np.intp] = np.cumsum(guessed)[rows][guessed[rows]] - 1
        return place

    @cached_property
    def _guess(self) -> cold_start.Guess:
        return cold_start.guess(self.demand, self.open, self.attributes, self.peers)

    def window(self, lookback: int, rows: Rows = ALL_ROWS) -> dict[str, Floats | Ints]:
        """Return the model's raw input: the last `lookback` days of history and the horizon, by
        name, of the depots `rows`.

        demand (depots, lookback) and open (depots, lookback + horizon), as 0 and 1, come from
        `past`; covariates and calendar are (depots, lookback + horizon, …), statics (depots,
        attributes).
        """
        start, missing = max(self.history - lookback, 0), max(lookback - self.history, 0)
        demand, open_ = self.past(lookback, rows)
        return {
            "demand": demand,
            "open": open_.astype(np.float32),
            "covariates": _pad(self.covariates[rows, start:], missing, 0.0),
            "calendar": _pad(self.calendar[:, start:], missing, 0.0)[self.calendar_group[rows]],
            "statics": self.statics[rows].astype(np.int32),
        }

    def actuals(self, cutoff: date) -> Floats:
        """Actuals of the horizon after an earlier cutoff, (depots, horizon); NaN if unknown (yet)."""
        start = self.history_at(cutoff)
        actuals = np.full((len(self.depot_ids), self.horizon), np.nan, np.float32)
        counts = self.demand[:, start : start + self.horizon]
        actuals[:, : counts.shape[1]] = counts
        return actuals


def _pad(x: NDArray[Any], missing: int, value: float) -> NDArray[Any]:
    """Return a copy with `missing` additional days of `value` before the first."""
    return np.pad(x, [(0, 0), (missing, 0)] + [(0, 0)] * (x.ndim - 2), constant_values=value)
