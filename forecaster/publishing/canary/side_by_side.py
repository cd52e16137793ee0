"""Champion and canary side by side: both forecast all depots, and each depot sees the numbers of
one of them.

That costs one more inference. A canary that cannot forecast, or not as when it was made, is shown
to nobody: all depots then see the champion's numbers, and it is rolled back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import CanaryTrial
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, of_error, sentence
from forecaster.core.panel import Panel
from forecaster.errors import BundleError, LedgerError
from forecaster.ledger import lease
from forecaster.ledger.store import Ledger
from forecaster.ledger.trials import canaries
from forecaster.publishing.forecast import Beside, ForecastResult, ModelChoice, forecast, forecast_of_bundle
from forecaster.publishing.outcome import Troubles
from forecaster.serving.numpy_model import ReferenceModel
from forecaster.serving.predict import Predictor

CHECKED = 8  # depots on which its graph is compared with NumPy
TOLERANCE = 1e-3  # relative; absolute for counts below one
# factor, and additional seconds, beyond which an inference is too slow
SLOWER, LEAST_SECONDS = 2.0, 1.0


_RIVAL_AWAY = N_("the champion that it is compared with does not forecast tonight")


@dataclass(frozen=True)
class Faulty:
    """Reason why a canary is not shown in this run, and whether it is rolled back."""

    trial: CanaryTrial
    reason: str
    goes_back: bool

    def tell(self, spec: Spec, run_id: str, now: datetime, troubles: Troubles) -> str | None:
        """Report that all depots see the champion's numbers, and roll back a faulty canary; return
        the sentence of the rollback, if any."""
        digest, went_back = self.trial.bundle_digest, None
        nowhere = N_("canary {bundle} is shown to no depot: {reason}")
        troubles.add(sentence(nowhere, bundle=digest, reason=self.reason))
        if self.goes_back:
            with troubles.collect(LedgerError, "it could not be taken back"), Ledger.open(spec.ledger_url) as ledger:
                with ledger.transaction() as connection:
                    lease.admit(connection, spec.name, run_id)
                    canaries.take_back(connection, self.trial, reason=self.reason, now=now)
                went_back = sentence(N_("canary {bundle} was withdrawn: {reason}"), bundle=digest, reason=self.reason)
        return went_back


def forecast_both(
    spec: Spec, choice: ModelChoice, trial: CanaryTrial, knowledge: Knowledge
) -> tuple[ForecastResult, Faulty | None]:
    """Return the shown forecast: the cohort's days by the canary, all others by the champion.

    Raises as `forecast`.
    """
    result = forecast(spec, choice, knowledge)
    if result.digest != trial.champion_digest:
        return result, Faulty(trial, sentence(_RIVAL_AWAY), goes_back=False)
    try:
        return _with_canary(result, trial, spec, knowledge), None
    except BundleError as error:
        return result, Faulty(trial, of_error(error), goes_back=True)


def _with_canary(result: ForecastResult, trial: CanaryTrial, spec: Spec, knowledge: Knowledge) -> ForecastResult:
    """Raises BundleError if the canary cannot forecast next to this champion."""
    choice = replace(result.choice, bundle=spec.paths.bundle(trial.bundle_digest), trial=None)
    canary, predictor = forecast_of_bundle(spec, choice, knowledge, result.panel)
    if canary.forecast.levels != result.forecast.levels:
        template = N_("it forecasts the quantiles {levels}, the champion {others}")
        levels, champion_levels = canary.forecast.levels, result.forecast.levels
        raise BundleError(sentence(template, levels=str(levels), others=str(champion_levels)))
    _require_parity(predictor, canary.panel)
    _require_speed(predictor, canary.panel, canary.seconds, result.seconds)
    cohort = trial.cohort & {*result.panel.depot_ids}
    is_shown = np.array([depot in cohort for depot in result.panel.depot_ids], bool)
    champion = result.forecast
    quantiles = np.where(is_shown[:, None, None], canary.forecast.quantiles, champion.quantiles)
    unknown_depots = (result.strangers - cohort) | (canary.strangers & cohort)
    shown_forecast = replace(champion, quantiles=quantiles.astype(champion.quantiles.dtype))
    return replace(result, forecast=shown_forecast, strangers=unknown_depots, beside=Beside(champion, canary, cohort))


def _require_parity(predictor: Predictor, panel: Panel) -> None:
    """Raises BundleError if the graph's results differ from those of the same parameters in NumPy."""
    window = panel.window(predictor.bundle.lookback, slice(0, CHECKED))
    graph = predictor.run(window)
    with np.errstate(all="ignore"):
        reference = ReferenceModel(predictor.bundle.weights, predictor.bundle.manifest)(window)
    difference = float((np.abs(graph - reference) / np.maximum(np.abs(reference), 1)).max(initial=0.0))
    if not difference <= TOLERANCE:
        template = N_(
            "parity is broken: its graph and its parameters in NumPy differ by {difference}, wanted at most {most}"
        )
        raise BundleError(sentence(template, difference=amount(difference, ".1e"), most=amount(TOLERANCE, ".0e")))


def _require_speed(predictor: Predictor, panel: Panel, seconds: float, champion_seconds: float) -> None:
    """Raises BundleError if an inference takes twice the champion's time plus a second, also when
    repeated: a briefly busy machine is not the model's fault."""
    if _is_slow(seconds, champion_seconds):
        begun = time.perf_counter()
        predictor(panel)
        seconds = min(seconds, time.perf_counter() - begun)
        if _is_slow(seconds, champion_seconds):
            template = N_("an inference takes {seconds} s, the champion's {others} s")
            took = {"seconds": amount(seconds, ".1f"), "others": amount(champion_seconds, ".1f")}
            raise BundleError(sentence(template, **took))


def _is_slow(seconds: float, champion_seconds: float) -> bool:
    return seconds > SLOWER * champion_seconds and seconds - champion_seconds > LEAST_SECONDS
