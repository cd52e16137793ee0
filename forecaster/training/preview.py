"""Preview: what the prior forecasts without any training, made and judged in seconds where a fleet
has no model yet.

The prior is calibrated and scored on the held-out days of tonight's backtest compared with the seasonal
naive, each from what was known then, and goes out in its place where it is better. The plain NumPy
model does it, so that nothing is compiled before the first page stands; the bundle is one like any
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, partial

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Forecast, Prior, Scores
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest as backtests
from forecaster.model.export import to_onnx
from forecaster.model.prior import untrained
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.numpy_model import ReferenceModel
from forecaster.training import export, fit_candidate
from forecaster.training.backtest import NAIVE, PRIOR
from forecaster.training.export import ExportedBundle

# that calibrate and judge, one as far from the next as another: a large fleet's page need not wait
MOST_DEPOTS = 256


@dataclass(frozen=True)
class Preview:
    """The prior and the seasonal naive on the same held-out days; the prior's bundle where it goes
    out."""

    scores: Mapping[str, Scores]
    exported: ExportedBundle | None

    def sentence(self, metric: str) -> str:
        """For people: how the two did, and which of them goes out where there is no model."""
        of_prior, of_naive = (self.scores[name].metrics[metric] for name in (PRIOR, NAIVE))
        compared = f"{metric} of the prior is {of_prior:.3g}, of the seasonal naive {of_naive:.3g}"
        return f"{compared}: without a model the {'seasonal naive' if self.exported is None else 'prior'} forecasts"


def is_better(scores: Mapping[str, Scores], metric: str) -> bool:
    """True if the prior is better than the seasonal naive, by what the gate compares; not where
    either is unknown."""
    return scores[PRIOR].metrics[metric] < scores[NAIVE].metrics[metric]


def make(panel: Panel, knowledge: Knowledge, spec: Spec, *, panel_at: backtests.PanelAt | None = None) -> Preview:
    """Calibrate and judge the prior; where it is better, export it.

    Raises NoUsableData where nothing can be held out, TrainingError where the prior's file is
    damaged, ExportError and BundleError as `export.to_bundle` does.
    """
    candidate, scores = judged(panel, spec, panel_at=panel_at)
    if not is_better(scores, spec.gate.metric):
        return Preview(scores, None)
    return Preview(scores, export.to_bundle(candidate, panel, scores, knowledge, spec, quick=True))


def judged(
    panel: Panel,
    spec: Spec,
    *,
    panel_at: backtests.PanelAt | None = None,
    prior: Prior | None = None,
    most_depots: int = MOST_DEPOTS,
) -> tuple[Candidate, dict[str, Scores]]:
    """The prior, calibrated on all that is known, and how it did compared with the seasonal naive when it
    knew less.

    `prior` takes the place of the package's own.
    """
    depot_ids, of_day = _some_of(panel.depot_ids, most_depots), panel_at or panel.at

    @cache
    def at(day: date) -> Panel:
        return of_day(day).among(depot_ids)

    sample = panel.among(depot_ids)
    candidate = untrained.candidate(at(fit_candidate.first_cutoff(sample, spec)), spec, prior)
    # From the days on by which a training chooses: the prior saw none of them.
    rolling = fit_candidate.rolling_forecaster(candidate, sample, spec, panel_at=at, forecaster=in_numpy)
    naive = partial(seasonal_naive, levels=tuple(spec.model.quantiles))
    days, every = spec.backtest.days, spec.backtest.every
    scores = backtests.run({PRIOR: rolling, NAIVE: naive}, sample, days, every=every, panel_at=at)
    return fit_candidate.calibrated_after_backtest(candidate, rolling, sample), scores


def in_numpy(candidate: Candidate) -> backtests.Predictor:
    """The candidate as a function from a panel to a forecast, computed by the plain NumPy model."""
    about = to_onnx.about(candidate)
    model = ReferenceModel(bundles.npz(to_onnx.weights(candidate)), about)

    def predict(panel: Panel) -> Forecast:
        quantiles = np.maximum.accumulate(model(panel.window(about["lookback"])), axis=-1)
        predicted = panel.widen_by_doubt(quantiles, candidate.levels)
        open_ = panel.open[:, panel.history :]
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, candidate.levels, predicted, open_)

    return predict


def _some_of(depot_ids: tuple[str, ...], most: int) -> tuple[str, ...]:
    places = np.linspace(0, len(depot_ids) - 1, min(most, len(depot_ids))).astype(int)
    return tuple(depot_ids[place] for place in places)
