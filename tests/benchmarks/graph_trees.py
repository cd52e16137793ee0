"""Trees over what the network's graph computes for them, more and larger ones than a bundle holds.

They read what those of `model.boosted` read. A model for each step ahead says the median against the level; its spread
is that of its errors on the last `HELD_OUT` days, as of our LightGBM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines import lightgbm as baseline
from forecaster.evaluation.baselines.features import Rows
from forecaster.evaluation.baselines.naive import complete
from forecaster.model.fitting import boosted_trees, train
from forecaster.model.network import features, special_days
from forecaster.model.network.features import LOOKBACK, Features, Window

LEAST_BEFORE = 14  # days before the first origin
MOST_CELLS = 200_000_000  # of a window's days, its counterparts' and depots, at once


def predictor(panel: Panel, levels: tuple[float, ...], rows: int, rounds: int, changes: Mapping[str, Any]) -> Predictor:
    """Trained on the days before the last `baseline.HELD_OUT` of a panel, which stop it; `rows` are those of all steps
    that it learns from at most, `changes` of the
    baseline's parameters."""
    import lightgbm

    known = train.constants(panel, panel.history - baseline.HELD_OUT)
    columns = boosted_trees._columns(panel)
    origins = panel.history - panel.horizon - LEAST_BEFORE
    made = _made(panel.at(panel.cutoff - timedelta(days=panel.horizon)), known, origins)
    last = panel.history - panel.horizon - origins + np.arange(origins)  # an origin's last known day
    log = _log_counts(panel)
    random, parameters = np.random.default_rng(0), {**baseline.PARAMETERS, **changes}
    boosters, errors, held_out = [], [], []
    for step in range(panel.horizon):
        actual = log[:, last + 1 + step] - made.level  # (depots, origins)
        is_known, late = (
            np.isfinite(actual),
            np.broadcast_to(last + 1 + step >= panel.history - baseline.HELD_OUT, actual.shape),
        )
        learned, stopping = np.flatnonzero(is_known & ~late), np.flatnonzero(is_known & late)
        if len(learned) > rows // panel.horizon:
            learned = np.sort(random.choice(learned, rows // panel.horizon, replace=False))
        x, target = made.of_step(step)[:, columns], actual.ravel()
        data = lightgbm.Dataset(x[learned], target[learned], params=parameters)
        stop = data.create_valid(x[stopping], target[stopping])
        patience = lightgbm.early_stopping(baseline.PATIENCE, verbose=False)
        boosters.append(lightgbm.train(parameters, data, rounds, valid_sets=[stop], callbacks=[patience]))
        errors.append(target[stopping] - boosters[-1].predict(x[stopping]))
        depot = stopping // origins
        held_out.append(Rows(depot, depot, depot))
    spread = baseline._spread(errors, held_out, len(panel.depot_ids), levels)
    return partial(_predict, known=known, columns=columns, boosters=boosters, spread=spread, levels=levels)


def _predict(
    panel: Panel,
    *,
    known: Mapping[str, Array],
    columns: NDArray[np.intp],
    boosters: Sequence[Any],
    spread: Doubles,
    levels: tuple[float, ...],
) -> Forecast:
    made = _made(panel, known, 1)
    point = [booster.predict(made.of_step(step)[:, columns]) for step, booster in enumerate(boosters)]
    median = np.where(panel.cold[:, None], np.nan, np.stack(point, axis=1) + made.level)
    return complete(panel, levels, np.expm1(median[:, :, None] + spread))


@dataclass(frozen=True)
class _Made:
    """What trees read of a panel's last origins, and the level that each knows."""

    days: Floats  # (depots, origins, horizon, inputs)
    level: Floats  # (depots, origins)

    def of_step(self, step: int) -> Floats:
        """(depots · origins, inputs)"""
        return self.days[:, :, step].reshape(-1, self.days.shape[-1])


def _made(panel: Panel, known: Mapping[str, Array], origins: int) -> _Made:
    window = Window(**{name: jnp.asarray(x) for name, x in panel.window(LOOKBACK + origins - 1).items()})
    depots, days = window.demand.shape
    most = max(1, MOST_CELLS // (days * (special_days.MOST_BACK - special_days.LEAST_BACK + days)))
    parts = []
    for first in range(0, depots, most):
        rows = np.minimum(np.arange(first, first + min(most, depots)), depots - 1)
        part = jax.tree.map(lambda x, rows=rows: x[rows], window)
        made = _compiled(part, known, origins=origins, horizon=panel.horizon)
        parts.append([np.asarray(x)[: min(most, depots - first)] for x in made])
    return _Made(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _log_counts(panel: Panel) -> Floats:
    """(depots, history); NaN where a day is not known or the depot was closed."""
    log: Floats = np.log1p(np.where(panel.open[:, : panel.history], panel.demand, np.nan)).astype(np.float32)
    return log


@partial(jax.jit, static_argnames=("origins", "horizon"))
def _compiled(window: Window, known: Mapping[str, Array], *, origins: int, horizon: int) -> tuple[Any, Any]:
    """What trees read (depots, origins, horizon, …), and the level (depots, origins)."""
    made: Features = features.make(window, known, scan=1, origins=origins, horizon=horizon, trees=True)
    return made.trees, made.level
