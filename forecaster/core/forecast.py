"""Values of a model and its forecasts: candidate, forecast, folds of a backtest, scores, and the
gate's verdict.

Every array is NumPy; a value is never changed once made. Unknown is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.core.panel import Encoding


@dataclass(frozen=True)
class Candidate:
    """The model of this run: its parameters (members first), its architecture, and a summary of its
    training."""

    parameters: Mapping[str, Any]  # a tree of NumPy arrays
    architecture: Mapping[str, Any]
    encoding: Encoding
    calendar_names: tuple[str, ...]
    levels: tuple[float, ...]
    horizon: int
    # measured in training: epochs, losses, seconds, compilations
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Prior:
    """A pretrained model, and the SHA-256 of its bytes."""

    model: Candidate
    digest: str


TrialState = Literal["running", "promoted", "rolled_back", "stopped", "superseded"]


@dataclass(frozen=True)
class CanaryTrial:
    """Trial of a new model against the champion, with its results so far."""

    id: int
    pipeline: str
    run_id: str  # run that made its bundle
    bundle_digest: str
    champion_digest: str  # champion that it is compared with
    model_version: str | None
    since: datetime
    cohort: frozenset[str]  # depots that see it
    state: TrialState
    nights: int  # nights that evaluated new actuals
    judged: Mapping[str, Any] | None  # result of the last of them; None before the first
    ended_at: datetime | None
    by: str | None  # who ended it
    reason: str | None

    @property
    def days(self) -> int:
        """Calendar days on which both models are compared."""
        return int((self.judged or {}).get("days", 0))


@dataclass(frozen=True)
class CanaryOutcome:
    """Result of a night's evaluation of a canary, and the state after it."""

    digest: str
    state: TrialState
    sentence: str


@dataclass(frozen=True)
class Forecast:
    """Quantiles of demand for the horizon after one cutoff."""

    depot_ids: tuple[str, ...]
    cutoff: date
    target_dates: tuple[date, ...]
    levels: tuple[float, ...]
    # (depots, horizon, levels), non-decreasing along levels, ≥ 0, zero on closed days
    quantiles: Floats
    open: Bools  # (depots, horizon)

    @property
    def median(self) -> Floats:
        return self.quantiles[:, :, self.levels.index(0.5)]

    @property
    def mean(self) -> Doubles:
        """Expected value, (depots, horizon) in counts; higher than the median if counts are skewed.

        Assumes that log(1 + count) is normal on either side of the median, each side as wide as its
        outermost quantile implies (the mean of a log-normal, in two halves).
        """
        log, median = np.log1p(self.quantiles.astype(float)), self.levels.index(0.5)
        down, up = (
            np.abs(log[..., end] - log[..., median]) / max(abs(NormalDist().inv_cdf(self.levels[end])), 1e-9)
            for end in (0, -1)
        )
        halves = np.exp(down**2 / 2) * _normal_share(-down) + np.exp(up**2 / 2) * _normal_share(up)
        expected: Doubles = np.exp(log[..., median]) * halves - 1
        return np.maximum(expected, 0.0)


def _normal_share(x: Doubles) -> Doubles:
    """The share of a standard normal distribution below x."""
    share: Doubles = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    return share


@dataclass(frozen=True)
class Fold:
    """One cutoff of a rolling-origin backtest: the forecasts and the actuals, as arrays (depots,
    horizon[, levels])."""

    forecast: Forecast
    actuals: Floats  # NaN on days that are not scored: unknown, or the depot was closed

    def among(self, depot_ids: tuple[str, ...]) -> Fold:
        """Return the fold of these depots alone, in their order."""
        forecast = self.forecast
        if depot_ids == forecast.depot_ids:
            return self
        places = {depot: row for row, depot in enumerate(forecast.depot_ids)}
        rows = [places[depot] for depot in depot_ids]
        quantiles, open_ = forecast.quantiles[rows], forecast.open[rows]
        return Fold(replace(forecast, depot_ids=depot_ids, quantiles=quantiles, open=open_), self.actuals[rows])


class Scale(NamedTuple):
    """Scale of errors (MASE; Hyndman & Koehler 2006): change of a depot's demand from week to week,
    (depots,).

    NaN for a depot without such pairs or without any change.
    """

    absolute: Doubles  # mean |lag-7 change|
    squared: Doubles  # mean (lag-7 change)²


@dataclass(frozen=True)
class Scores:
    """Scores of one model on the folds of a backtest."""

    model: str
    folds: tuple[Fold, ...]
    metrics: Mapping[str, float]
    scale: Scale  # over the days before the first fold


@dataclass(frozen=True)
class Verdict:
    """Verdict of the promotion gate: may the candidate replace the champion?

    Every objection is a sentence with its numbers; objections to an admitted candidate are
    cautions.
    """

    admitted: bool
    objections: tuple[str, ...]
    compared: Mapping[str, Mapping[str, float]]  # model → its metrics on the same folds

    def sentence(self) -> str:
        if self.admitted and self.objections:
            return sentence(N_("admitted with a caution: {cautions}"), cautions=joined(self.objections) or "")
        if self.admitted:
            return sentence(N_("admitted"))
        return sentence(N_("not admitted: {objections}"), objections=joined(self.objections) or "")
