"""Rolling-origin backtest: at each cutoff every model forecasts from the knowledge of that day, and
is compared with the actuals.

By default, cutoffs are a horizon apart, but at most a week, so that with a horizon of up to a week
each held-out day is forecast exactly once by each model. If they are closer, each day is forecast
from several distances, and weekdays and distances can be distinguished. Of a horizon that reaches
beyond the held-out days, the known part is scored. With a horizon of more than a week, cutoffs also
begin before the held-out days (`reaching_cutoffs`), so that each held-out day is forecast from each
week ahead; days before the held-out ones are not scored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial

import numpy as np
from numpy.typing import NDArray

from forecaster.core.forecast import Fold, Forecast, Scores
from forecaster.core.panel import Panel
from forecaster.core.parallel import Fan, in_turn
from forecaster.errors import NoUsableData
from forecaster.evaluation.metrics import measure, seasonal_scale

WEEK = 7
# fewest days of history at a cutoff before the held-out days, as many as an encoder reads
LEAST_KNOWN = 56
Predictor = Callable[[Panel], Forecast]
PanelAt = Callable[[date], Panel]
"""Point-in-time panel: as of a cutoff; a depot unknown at that time is never open in it."""


def cutoffs(panel: Panel, days: int, every: int | None = None) -> list[date]:
    """Return the cutoffs (forecast origins) that together cover the last `days` days, oldest first,
    spaced by `every` days."""
    first = panel.cutoff - timedelta(days=days)
    if (np.datetime64(first) - panel.days[0]).astype(int) < panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history, and the backtest (backtest.days) holds out {days}: nothing is left to "
            f"learn from; wanted more than {days + panel.horizon} with a horizon of {panel.horizon} days"
        )
    return [first + timedelta(days=offset) for offset in range(0, days, every or min(panel.horizon, WEEK))]


def reaching_cutoffs(panel: Panel, days: int, every: int | None = None) -> list[date]:
    """Return the cutoffs of `cutoffs`, preceded by those from which a horizon of more than a week
    reaches the last `days` days, as long as at least `LEAST_KNOWN` days are known, and no fewer
    than the horizon."""
    held_out = cutoffs(panel, days, every)
    least = max(LEAST_KNOWN, panel.horizon)
    apart = every or WEEK
    before = (held_out[0] - timedelta(days=back) for back in range(apart, panel.horizon - WEEK + apart, apart))
    far = [day for day in before if (np.datetime64(day) - panel.days[0]).astype(int) >= least]
    return [*reversed(far), *held_out]


def folds(
    predict: Predictor,
    panel: Panel,
    at: Sequence[date],
    panel_at: PanelAt | None = None,
    *,
    scored_after: date | None = None,
) -> tuple[Fold, ...]:
    """Backtest one model, with one fold per cutoff.

    Actuals are NaN if the day is unknown, in the future, not after `scored_after`, or the depot was
    closed, or unknown at the cutoff. Actuals of a depot that was wrongly expected to be closed are
    scored. `panel_at` returns the panel as of a cutoff; by default the current one, cut off.
    """
    [model_folds] = folds_of_models({"": predict}, panel, at, panel_at, scored_after=scored_after).values()
    return model_folds


def first_scored(fold: Fold) -> int:
    """Return the index of the first day of a fold that may be scored: with a horizon of more than a
    week, earlier days lie before the held-out days."""
    scored_days = np.flatnonzero(np.isfinite(fold.actuals).any(axis=0))
    horizon = fold.actuals.shape[1]
    return 0 if horizon <= WEEK else int(scored_days[0]) if len(scored_days) else horizon


def first_weeks(folds: Sequence[Fold]) -> tuple[Fold, ...]:
    """Return the first week of each fold, without folds of unknown days: if cutoffs are a week
    apart, each held-out day counts once, whatever the horizon."""
    if all(fold.actuals.shape[1] <= WEEK for fold in folds):
        return tuple(folds)
    near = (_first_week(fold) for fold in folds)
    return tuple(fold for fold in near if np.isfinite(fold.actuals).any())


def _first_week(fold: Fold) -> Fold:
    full_forecast = fold.forecast
    forecast = replace(
        full_forecast,
        target_dates=full_forecast.target_dates[:WEEK],
        quantiles=full_forecast.quantiles[:, :WEEK],
        open=full_forecast.open[:, :WEEK],
    )
    return Fold(forecast, fold.actuals[:, :WEEK])


def folds_of_models(
    predictors: Mapping[str, Predictor],
    panel: Panel,
    at: Sequence[date],
    panel_at: PanelAt | None = None,
    *,
    shared: Collection[str] = (),
    fan: Fan = in_turn,
    scored_after: date | None = None,
) -> dict[str, tuple[Fold, ...]]:
    """Backtest several models on the same cutoffs, as `folds` does for one; `fan` runs the `shared`
    ones, the others run here.

    Only one panel of the past is in memory at a time, or as many as the fan takes at once.
    """
    actuals: list[NDArray[np.float32]] = []
    forecasts: dict[str, list[Forecast]] = {name: [] for name in predictors}

    def calls() -> Iterator[Callable[[], Forecast]]:
        for cutoff in at:
            before = (panel_at or panel.at)(cutoff)
            actuals.append(_scored_actuals(panel, before, cutoff, scored_after))
            for name, predict in predictors.items():
                if name in shared:
                    yield partial(predict, before)
                else:
                    forecasts[name].append(predict(before))

    shared_names = itertools.cycle(name for name in predictors if name in shared)
    for forecast, name in zip(fan(calls()), shared_names, strict=False):
        forecasts[name].append(forecast)
    return {name: tuple(map(Fold, of_model, actuals)) for name, of_model in forecasts.items()}


def _scored_actuals(panel: Panel, before: Panel, cutoff: date, scored_after: date | None) -> NDArray[np.float32]:
    """Actuals of the days after a cutoff, NaN if not scored."""
    scored = panel.at(cutoff).open[:, -panel.horizon :] & before.open.any(axis=1, keepdims=True)
    if scored_after is not None and cutoff < scored_after:
        scored = scored & (np.arange(1, panel.horizon + 1) > (scored_after - cutoff).days)
    return np.where(scored, panel.actuals(cutoff), np.nan).astype(np.float32)


def run(
    predictors: Mapping[str, Predictor],
    panel: Panel,
    days: int,
    *,
    every: int | None = None,
    panel_at: PanelAt | None = None,
    shared: Collection[str] = (),
    fan: Fan = in_turn,
) -> dict[str, Scores]:
    """Score every model on the same folds over the panel's last `days` days; `shared` as in
    `folds_of_models`."""
    first, at = cutoffs(panel, days, every)[0], reaching_cutoffs(panel, days, every)
    before = (panel_at or panel.at)(first)
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    folds_by_model = folds_of_models(predictors, panel, at, panel_at, shared=shared, fan=fan, scored_after=first)
    return {name: Scores(name, of_model, measure(of_model, scale), scale) for name, of_model in folds_by_model.items()}
