"""LightGBM over all depots at once: a model of the median for each step ahead, and the spread of
the errors on the days of early stopping.

A model for each step did better than one for all steps. Describing a depot by its own past did
better than by its name, from which the model learns by heart how fast the depot once grew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.features import LOOKBACK, Rows, Table
from forecaster.evaluation.baselines.naive import complete, last_weeks
from forecaster.evaluation.baselines.optional import import_optional

HELD_OUT = 28  # days before the cutoff for early stopping
ROWS = 1_500_000  # limit of all steps together; a random sample of more
LEAST_OBSERVED = 7  # fewest counts in the last four weeks of a row's depot
ROUNDS, PATIENCE = 3000, 100
LEAF = 50  # fewest rows in a leaf
LEAST_WIDTH = 1e-9
SHRINK = 28  # number of errors of all depots that are mixed with each depot's own
PARAMETERS = {
    "objective": "l1",
    "learning_rate": 0.03,
    "num_leaves": 63,
    "min_data_in_leaf": LEAF,
    "feature_fraction": 0.4,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
    "seed": 0,
}


def lightgbm(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Train on the days before the last four weeks, with early stopping on these; seasonal naive if
    there are too few rows."""
    gbm = import_optional("lightgbm", "lightgbm")
    table, random = Table(panel), np.random.default_rng(0)
    first, steps = panel.history - HELD_OUT, range(1, panel.horizon + 1)
    most = ROWS // panel.horizon
    train = [_usable(table, step, 0, first, most, random) for step in steps]
    held_out = [_usable(table, step, first, panel.history, most, random) for step in steps]
    if min(len(part.depot) for part in (*train, *held_out)) < LEAF:
        return lambda before: last_weeks(before, levels, 1)
    boosters = tuple(_train(gbm, table, *parts) for parts in zip(train, held_out, strict=True))
    error = [
        table.target(part) - model.predict(table.matrix(part)) for part, model in zip(held_out, boosters, strict=True)
    ]
    return _Boosted(boosters, _spread(error, held_out, len(panel.depot_ids), levels), levels)


@dataclass(frozen=True, eq=False)
class _Boosted:
    """A trained model for each step ahead, and the spread of their log errors, (depots, horizon,
    levels)."""

    boosters: tuple[Any, ...]
    spread: Doubles
    levels: tuple[float, ...]

    def __call__(self, panel: Panel) -> Forecast:
        recent = panel.last(LOOKBACK)
        table, depot = Table(recent), np.arange(len(panel.depot_ids))
        point = np.empty((len(depot), panel.horizon))
        for step, booster in enumerate(self.boosters, 1):
            rows = Rows(depot, np.full(depot.shape, recent.history - 1), np.full(depot.shape, step))
            point[:, step - 1] = booster.predict(table.matrix(rows)) + table.level_at(rows)
        point = np.where(panel.cold[:, None], np.nan, point)
        return complete(panel, self.levels, np.expm1(point[:, :, None] + self.spread))


def _usable(table: Table, step: int, first: int, end: int, most: int, random: np.random.Generator) -> Rows:
    """Return at most `most` rows with a known target day in first … end - 1, of depots with enough
    recent counts."""
    count, days = len(table.log) * max(end - first, 0), max(end - first, 1)
    # For a large panel, not even the indexes are listed in full.
    place = np.arange(count) if count <= 10 * most else np.unique(random.integers(0, count, 10 * most))
    depot, day = place // days, first + place % days
    rows = Rows(depot, day - step, np.full(depot.shape, step))
    rows = rows[rows.cutoff >= 0]
    rows = rows[np.isfinite(table.log[rows.depot, rows.target])]
    rows = rows[table.count[rows.depot, rows.cutoff] >= LEAST_OBSERVED]
    count = len(rows.depot)
    return rows if count <= most else rows[np.sort(random.choice(count, most, replace=False))]


def _train(gbm: Any, table: Table, train: Rows, held_out: Rows) -> Any:
    data = gbm.Dataset(
        table.matrix(train),
        table.target(train),
        categorical_feature=[place for place, name in enumerate(table.names) if table.is_word(name)],
        params=PARAMETERS,
    )
    stop = data.create_valid(table.matrix(held_out), table.target(held_out))
    patience = gbm.early_stopping(PATIENCE, verbose=False)
    return gbm.train(PARAMETERS, data, ROUNDS, valid_sets=[stop], callbacks=[patience])


def _spread(error: list[Doubles], rows: list[Rows], depots: int, levels: tuple[float, ...]) -> Doubles:
    """Quantiles of log errors about their median, (depots, horizon, levels): one shape, scaled by
    the errors of the depot and of the step."""
    depot = np.concatenate([of_step.depot for of_step in rows])
    errors, step = np.concatenate(error), np.repeat(np.arange(len(rows)), [len(of_step) for of_step in error])
    size = np.abs(errors)
    overall = max(float(size.mean()), LEAST_WIDTH)
    width = (np.bincount(depot, size, depots) + SHRINK * overall) / (np.bincount(depot, minlength=depots) + SHRINK)
    by_step = np.maximum(np.bincount(step, size) / np.bincount(step), LEAST_WIDTH) / overall
    shape = np.quantile(errors / (width[depot] * by_step[step]), levels)
    shape -= shape[levels.index(0.5)]
    spread: Doubles = width[:, None, None] * by_step[None, :, None] * shape
    return spread
