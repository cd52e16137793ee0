"""Preview: a forecast of the untrained prior, made and judged in seconds while a fleet has no model
yet.

The prior is calibrated, and compared with the seasonal naive, on the held-out days of the backtest,
each forecasting from the knowledge at the cutoff; the better one is published. The plain NumPy
model computes it, so that the first page does not wait for a compilation; the bundle is an ordinary
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, partial

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Forecast, Scores
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

# depots, evenly spaced, for calibration and comparison, so that the page of a large fleet need not
# wait
MOST_DEPOTS = 256


@dataclass(frozen=True)
class Preview:
    """Scores of the prior and the seasonal naive on the same held-out days; the prior's bundle if
    it is published."""

    scores: Mapping[str, Scores]
    exported: ExportedBundle | None

    def sentence(self, metric: str) -> str:
        """Return a sentence about the two scores, and which of the two is published without a
        model."""
        of_prior, of_naive = (self.scores[name].metrics[metric] for name in (PRIOR, NAIVE))
        compared = f"{metric} of the prior is {of_prior:.3g}, of the seasonal naive {of_naive:.3g}"
        return f"{compared}: without a model the {'seasonal naive' if self.exported is None else 'prior'} forecasts"


def is_better(scores: Mapping[str, Scores], metric: str) -> bool:
    """Return True if the prior is better than the seasonal naive in the gate's metric; False if
    either is unknown."""
    return scores[PRIOR].metrics[metric] < scores[NAIVE].metrics[metric]


def make(panel: Panel, knowledge: Knowledge, spec: Spec, *, panel_at: backtests.PanelAt | None = None) -> Preview:
    """Calibrate and judge the prior; export it if it is better.

    Raises NoUsableData if nothing can be held out, TrainingError if the prior's file is damaged,
    ExportError and BundleError as `export.to_bundle` does.
    """
    candidate, scores = judged(panel, spec, panel_at=panel_at)
    if not is_better(scores, spec.gate.metric):
        return Preview(scores, None)
    return Preview(scores, export.to_bundle(candidate, panel, scores, knowledge, spec, quick=True))


def judged(
    panel: Panel, spec: Spec, *, panel_at: backtests.PanelAt | None = None, most_depots: int = MOST_DEPOTS
) -> tuple[Candidate, dict[str, Scores]]:
    """Return the prior, calibrated on all known days, and its scores against the seasonal naive
    with the knowledge of earlier days."""
    depot_ids, of_day = _some_of(panel.depot_ids, most_depots), panel_at or panel.at

    @cache
    def at(day: date) -> Panel:
        return of_day(day).among(depot_ids)

    sample = panel.among(depot_ids)
    candidate = untrained.candidate(at(fit_candidate.first_cutoff(sample, spec)), spec)
    # From the validation days of a training on: the prior saw none of them.
    rolling = fit_candidate.rolling_forecaster(candidate, sample, spec, panel_at=at, forecaster=in_numpy)
    naive = partial(seasonal_naive, levels=tuple(spec.model.quantiles))
    days, every = spec.backtest.days, spec.backtest.every
    scores = backtests.run({PRIOR: rolling, NAIVE: naive}, sample, days, every=every, panel_at=at)
    return fit_candidate.calibrated_after_backtest(candidate, rolling, sample), scores


def in_numpy(candidate: Candidate) -> backtests.Predictor:
    """Return the candidate as a function from a panel to a forecast, computed by the plain NumPy
    model."""
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
