"""Rolling-origin backtest of the candidate, the champion and the baselines on the same past days."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Forecast, Scores
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import of_error, sentence
from forecaster.core.panel import Panel
from forecaster.core.parallel import Fan, in_turn
from forecaster.demand.history.past_panels import Past
from forecaster.errors import ForecasterError
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import baselines, calibration
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.training.fit_candidate import FIRST, LAST

CANDIDATE, CHAMPION, PRIOR, NAIVE = "candidate", "champion", "prior", "seasonal_naive"
ALWAYS = (NAIVE, "seasonal_window_average")


def backtest(
    models: Mapping[str, backtests.Predictor],
    champion: Path | None,
    panel: Panel,
    knowledge: Knowledge,
    spec: Spec,
    *,
    panel_at: backtests.PanelAt | None = None,
    on_model: Callable[[str], None] | None = None,
    fan: Fan = in_turn,
) -> tuple[dict[str, Scores], list[str]]:
    """Score the models (including the candidate), baselines and champion on the same last days, on
    which none of them was trained, each forecasting from the knowledge at the cutoff. A champion
    that has seen some of these days, because fewer were held out when it was trained, is scored
    nevertheless.

    `on_model` receives each model's name before it is fitted; `fan` fits the declared baselines and
    runs their folds. The second value has the reasons why a champion or a declared baseline could
    not be compared, or not fairly; it is empty if all could.
    """
    days, every, levels = spec.backtest.days, spec.backtest.every, tuple(spec.model.quantiles)
    panel_at = panel_at or panel.at
    earlier, troubles = panel_at(backtests.cutoffs(panel, days, every)[0]), []
    # The seasonal naive is the published fallback.
    naive = {name: baselines.fit(name, earlier, levels) for name in ALWAYS} | {
        NAIVE: partial(seasonal_naive, levels=levels)
    }
    declared: list[str] = [name for name in spec.backtest.baselines if name not in ALWAYS]
    fitted = dict(zip(declared, fan(_fits(declared, earlier, levels, on_model)), strict=True))
    troubles += [absent for absent in fitted.values() if isinstance(absent, str)]
    shared: dict[str, backtests.Predictor]
    shared = {name: predict for name, predict in fitted.items() if not isinstance(predict, str)}
    predictors = {name: _announcing(name, predict, on_model) for name, predict in ({**models, **naive}).items()}
    scores = backtests.run(
        {**predictors, **shared}, panel, days, every=every, panel_at=panel_at, shared=shared, fan=fan
    )
    # The champion reads panels with its own encoding, which may know other words than the
    # candidate's.
    if champion is not None:
        try:
            reigning = Predictor(bundles.load(champion, spec.paths.folder))
            past = panel_at if isinstance(panel_at, Past) else Past(knowledge, panel, spec)
            champion_panel_at = past.under(reigning.bundle.encoding)
            troubles += _known_before(reigning, earlier.cutoff, days)
            predictors = {CHAMPION: _announcing(CHAMPION, _without_last_calibration(reigning), on_model)}
            scores |= backtests.run(predictors, panel, days, every=every, panel_at=champion_panel_at)
        except ForecasterError as error:
            troubles.append(sentence(N_("the champion could not be compared: {why}"), why=of_error(error)))
    return scores, troubles


def _known_before(reigning: Predictor, first: date, days: int) -> list[str]:
    """Return a sentence about the held-out days after the first cutoff that a champion has seen;
    empty if there are none."""
    last = reigning.bundle.manifest["training"].get("validated_until")
    known_days = min((date.fromisoformat(last) - first).days, days) if last else 0
    if known_days <= 0:
        return []
    template = N_(
        "the champion was trained on {known} of the {days} held-out days, up to {last}: its scores are too optimistic"
    )
    return [sentence(template, known=known_days, days=days, last=first + timedelta(days=known_days))]


def _without_last_calibration(reigning: Predictor) -> backtests.Predictor:
    """Return a champion with its intervals from before its own backtest, whose days may overlap
    with those of this one."""
    summary = reigning.bundle.manifest["training"]
    if FIRST not in summary or LAST not in summary:
        return reigning
    ratio = (np.asarray(summary[FIRST]) / np.asarray(summary[LAST])).astype(np.float32)
    return lambda panel: calibration.stretched(reigning(panel), ratio)


def _announcing(name: str, predict: backtests.Predictor, on_model: Callable[[str], None] | None) -> backtests.Predictor:
    def announced(panel: Panel) -> Forecast:
        if on_model is not None:
            on_model(f"{name} from {panel.cutoff}")
        return predict(panel)

    return announced


def _fits(
    names: Sequence[str], before: Panel, levels: tuple[float, ...], on_model: Callable[[str], None] | None
) -> Iterator[Callable[[], backtests.Predictor | str]]:
    for name in names:
        if on_model is not None:
            on_model(name)
        yield partial(baselines.fit_or_message, name, before, levels)
