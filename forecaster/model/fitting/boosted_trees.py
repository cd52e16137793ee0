"""Boosted trees in addition to the network: fitted by LightGBM for the median of each day ahead, as
the arrays of `network.trees`.

They read the graph's features of each forecast day (`features.tree_inputs`) except the waves of
month and year, with which trees learn the dates by heart. Their target is the log count relative to
the level that the origin knows. They learn from every day up to the validation days, in at most
`ROWS` forecasts of `MOST_DEPOTS` depots. The validation days determine the number of trees, and
move the trees' weight in the forecast slightly away from a half: the trees were stopped on these
days and therefore look better on them than they are, and all depots share them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra
from forecaster.model.fitting import report_errors
from forecaster.model.network import features, special_days, trees
from forecaster.model.network.day_sums import WEEKS
from forecaster.model.network.features import LOOKBACK, Window
from forecaster.model.network.further_inputs import ENOUGH
from forecaster.model.network.trees import DEPTH, RAMP, TREES

# of all days ahead together; the limit for training. A quarter of it is the limit for early
# stopping
ROWS = 300_000
MOST_DEPOTS = 512  # spread evenly over the fleet, from which rows are taken
LEAST_ROWS = 100  # rows of a day ahead; with fewer, there are no trees
DATES = ("calendar year_", "calendar month_")  # inputs that name the date
PATIENCE = 20  # trees without improvement before the fit stops
HALF, MOST_WEIGHT = 0.5, 0.6  # weight of the trees: the initial and the largest one
BELIEVED = 0.5  # share of the way from a half to the best weight on the validation days
WEIGHTS = np.linspace(0.0, 1.0, 21)  # candidates
# sizes of the compiled program, so that one more day does not need another program
DEPOTS_AT_ONCE, ORIGINS_STEP = 32, 64
# numbers of days with their counterparts, and of inputs, in memory at a time
MOST_CELLS, MOST_NUMBERS = 200_000_000, 50_000_000
NEVER = 1e30  # a threshold above every value
PARAMETERS = {
    "objective": "l1",
    "learning_rate": 0.1,
    "max_depth": DEPTH,
    "num_leaves": 31,
    "min_data_in_leaf": 50,
    "feature_fraction": 0.7,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
    "seed": 0,
    # if other processes compute on the same cores, threads mostly wait for one another
    "num_threads": 1,
}


class Validated(NamedTuple):
    """Network medians on the validation days; log counts (depots, origins, horizon)."""

    depots: NDArray[np.intp]  # positions in the panel
    median: Floats
    actual: Floats
    scored: Bools


@dataclass(frozen=True)
class Boosted:
    """Trees in the form that `network.trees` computes, their weight, and figures about both."""

    arrays: Mapping[str, NDArray[Any]]
    weight: float
    about: Mapping[str, Any]
    seconds: float


def import_lightgbm() -> Any:
    """Import the package. Raises MissingExtra if it is not installed, or a library that it needs
    (`libgomp`) is missing."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        template = N_("boosted trees need LightGBM ({error}): {command}, or set model.boosted: false")
        command = "pip install 'harbor-forecaster[train]'"
        raise MissingExtra(sentence(template, error=error, command=command)) from error
    return lightgbm


def are_fitted(spec: Spec, horizon: int, report: Callable[[str], None]) -> bool:
    """Return True if a training fits trees. If LightGBM is missing, raises MissingExtra if the
    pipeline file asks for trees, and else reports their absence to `report`."""
    if not spec.model.fits_trees(horizon):
        return False
    try:
        import_lightgbm()
    except MissingExtra as error:
        if spec.model.boosted:
            raise
        report(sentence(N_("the model is trained without boosted trees: {error}"), error=error))
        return False
    return True


def fit(
    panel: Panel,
    days: int,
    constants: Mapping[str, Any],
    validated: Validated,
    report_steps: Floats | None = None,
) -> Boosted:
    """Fit trees on a panel's first `days` days, with early stopping on the days after them.
    Covariates of the days ahead have errors according to `report_steps` (`report_errors.steps`).

    The same panel gives the same trees. If a day ahead has fewer than `LEAST_ROWS` counts for
    training or for stopping, the trees predict nothing and have weight 0. Raises MissingExtra
    without LightGBM.
    """
    started, gbm = time.monotonic(), import_lightgbm()
    horizon, arrays = panel.horizon, blank(panel.horizon)
    learned, stopping = _rows(panel, days)
    if min(len(rows.depot) for rows in (*learned, *stopping)) < LEAST_ROWS:
        about = {"trees": [0] * horizon, "weight": 0.0, "ramps_mean": 0.0, "ramps_largest": 0.0}
        return Boosted(arrays, 0.0, about, time.monotonic() - started)
    checked = _validated_rows(validated, days, horizon)
    tables = _tables(panel, constants, [*learned, *stopping, *checked], report_steps)
    log, columns = _log_counts(panel), _columns(panel)
    tree_medians, ramp_errors, counts = [], [], []
    for step in range(horizon):
        parts = []
        for rows, table in ((learned[step], tables[step]), (stopping[step], tables[horizon + step])):
            target = log[rows.depot, rows.origin + 1 + step] - table.level
            parts.append((table.inputs[:, columns], target))
        booster = _train(gbm, *parts)
        counts.append(booster.best_iteration or booster.num_trees())
        for name, value in complete_trees(booster.dump_model(num_iteration=counts[-1]), columns).items():
            arrays[name][step, : len(value)] = value
        table = tables[2 * horizon + step]
        of_step = {name: value[step : step + 1] for name, value in arrays.items()}
        ramped = np.asarray(_predicted(of_step, table.inputs[:, None]))[:, 0]
        ramp_errors.append(
            np.abs(ramped - booster.predict(table.inputs[:, columns], num_iteration=counts[-1], num_threads=1))
        )
        tree_medians.append(np.maximum(ramped + table.level, 0))
    trusted = tables[2 * horizon].trusted
    weight = _weight(np.stack(tree_medians, axis=-1), trusted, validated)
    differences = np.concatenate(ramp_errors)
    about = {
        "trees": counts,
        "weight": weight,
        "ramps_mean": float(differences.mean()),
        "ramps_largest": float(differences.max()),
    }
    return Boosted(arrays, weight, about, time.monotonic() - started)


def blank(horizon: int) -> dict[str, NDArray[Any]]:
    """Return the maximum number of trees for `horizon` days ahead, all of them with leaves of 0."""
    shape = horizon, TREES, 2**DEPTH - 1
    return {
        "feature": np.zeros(shape, np.int32),
        "threshold": np.full(shape, NEVER, np.float32),
        "leaf": np.zeros((*shape[:2], 2**DEPTH), np.float32),
    }


def complete_trees(model: Mapping[str, Any], columns: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Convert LightGBM's trees, as `dump_model` returns them, to arrays of `network.trees`: (trees,
    …). A leaf above the last level is copied to all places below it; `columns` are the positions of
    LightGBM's inputs among those of the graph."""
    count, leaves = len(model["tree_info"]), 2**DEPTH
    feature = np.zeros((count, leaves - 1), np.int32)
    threshold = np.full((count, leaves - 1), NEVER, np.float32)
    leaf = np.zeros((count, leaves), np.float32)
    for number, tree in enumerate(model["tree_info"]):
        nodes = [(tree["tree_structure"], 0, 0)]
        while nodes:
            node, level, place = nodes.pop()
            if "leaf_value" in node:
                leaf[number, place :: 1 << level] = node["leaf_value"]
                continue
            feature[number, (1 << level) - 1 + place] = columns[node["split_feature"]]
            threshold[number, (1 << level) - 1 + place] = _ramp_from(node["threshold"])
            nodes += [
                (node["left_child"], level + 1, place),
                (node["right_child"], level + 1, place + (1 << level)),
            ]
    return {"feature": feature, "threshold": threshold, "leaf": leaf}


def _ramp_from(threshold: float) -> float:
    """Start of a split's ramp: half its width before the threshold, but never with zero, the value
    of many inputs without data, inside the ramp."""
    if 0 <= threshold < RAMP / 2:
        return threshold
    return -RAMP if -RAMP / 2 < threshold < 0 else threshold - RAMP / 2


class _Rows(NamedTuple):
    """Forecasts of one day ahead, by depot, ascending, and origin, the last known day."""

    step: int
    depot: NDArray[np.intp]
    origin: NDArray[np.intp]


class _Table(NamedTuple):
    """Inputs of the trees, the level that the origin knows, and the trust in trees there."""

    inputs: Floats  # (rows, inputs)
    level: Floats  # (rows,)
    trusted: Floats  # (rows,)


def _rows(panel: Panel, days: int) -> tuple[list[_Rows], list[_Rows]]:
    """Return the rows of each day ahead for training and for stopping: known counts after an origin
    with enough known recent days."""
    random, count = np.random.default_rng(0), len(panel.depot_ids)
    of_depot = np.zeros((count, 1), bool)
    of_depot[np.linspace(0, count - 1, min(count, MOST_DEPOTS)).astype(int)] = True
    is_known = np.isfinite(_log_counts(panel))
    lately = np.cumsum(is_known, axis=1)
    lately[:, 7 * WEEKS :] = lately[:, 7 * WEEKS :] - lately[:, : -7 * WEEKS]
    learned: list[_Rows] = []
    stopping: list[_Rows] = []
    for step in range(panel.horizon):
        usable = of_depot & is_known[:, step + 1 :] & (lately[:, : -1 - step] >= ENOUGH)  # by origin
        late = np.arange(usable.shape[1]) + 1 + step >= days
        for which, rows, most in ((~late, learned, ROWS), (late, stopping, ROWS // 4)):
            place = np.flatnonzero(usable & which)
            if len(place) > most // panel.horizon:
                place = np.sort(random.choice(place, most // panel.horizon, replace=False))
            rows.append(_Rows(step, *np.divmod(place, usable.shape[1])))
    return learned, stopping


def _validated_rows(validated: Validated, days: int, horizon: int) -> list[_Rows]:
    origins = days - 1 + np.arange(validated.median.shape[1])
    depot, origin = (x.ravel() for x in np.meshgrid(validated.depots, origins, indexing="ij"))
    return [_Rows(step, depot, origin) for step in range(horizon)]


def _tables(
    panel: Panel, constants: Mapping[str, Any], row_sets: list[_Rows], report_steps: Floats | None
) -> list[_Table]:
    """Return the tree inputs of each of the wanted rows; features are computed for the whole
    history of a few depots at a time."""
    history, device_constants = panel.history, {name: jnp.asarray(value) for name, value in constants.items()}
    origins = -(-history // ORIGINS_STEP) * ORIGINS_STEP
    origin_days = jnp.maximum(jnp.arange(origins) + history - origins, 0)
    days = LOOKBACK + origins - 1
    most = MOST_CELLS // (days * (days + special_days.MOST_BACK - special_days.LEAST_BACK))
    most = min(most, MOST_NUMBERS // (origins * panel.horizon * len(_names(panel))), DEPOTS_AT_ONCE)
    most = max(1, most)
    depots = np.unique(np.concatenate([rows.depot for rows in row_sets]))
    parts: list[list[_Table]] = [[] for _ in row_sets]
    for first in range(0, len(depots), most):
        chunk = depots[np.minimum(np.arange(first, first + most), len(depots) - 1)]
        window = Window(**{name: jnp.asarray(x) for name, x in panel.window(days, chunk).items()})
        reports = None
        if report_steps is not None:
            reports = jnp.asarray(chunk, jnp.int32), origin_days, jnp.asarray(report_steps)
        outputs = _made(window, device_constants, reports, origins=origins, horizon=panel.horizon)
        inputs, level, trusted = (np.asarray(x) for x in outputs)
        for rows, part in zip(row_sets, parts, strict=True):
            start, end = np.searchsorted(rows.depot, (chunk[0], chunk[-1] + 1))
            place = np.searchsorted(chunk, rows.depot[start:end]), rows.origin[start:end] - history + origins
            part.append(_Table(inputs[(*place, rows.step)], level[place], trusted[place]))
    return [_Table(*(np.concatenate(x) for x in zip(*part, strict=True))) for part in parts]


@partial(jax.jit, static_argnames=("origins", "horizon"))
def _made(
    window: Window,
    constants: Mapping[str, Array],
    reports: tuple[Array, Array, Array] | None,
    *,
    origins: int,
    horizon: int,
) -> tuple[Any, Any, Any]:
    """Tree inputs (depots, origins, horizon, inputs), level and trust (depots, origins); `reports`
    are the arguments of `report_errors.of_days`."""
    errors = None if reports is None else report_errors.of_days(*reports)
    tree_features = features.make(
        window, constants, scan=1, origins=origins, horizon=horizon, trees=True, report_errors=errors
    )
    return tree_features.trees, tree_features.level, tree_features.tree_trust


_predicted = jax.jit(trees.predict)


def _train(gbm: Any, learned: tuple[Floats, Floats], stopping: tuple[Floats, Floats]) -> Any:
    data = gbm.Dataset(*learned, params=PARAMETERS)
    stop = data.create_valid(*stopping)
    patience = gbm.early_stopping(PATIENCE, verbose=False)
    return gbm.train(PARAMETERS, data, TREES, valid_sets=[stop], callbacks=[patience])


def _weight(tree_medians: Doubles | Floats, trusted: Floats, validated: Validated) -> float:
    """Return the trees' weight: a half, moved toward the weight with the smallest error of the
    blended median on the validation days."""
    scored = validated.scored
    if not scored.any():
        return HALF
    ours, actual = (x[scored].astype(float) for x in (validated.median, validated.actual))
    shape = validated.median.shape
    towards = (trusted.reshape(shape[:2])[..., None] * (tree_medians.reshape(shape) - validated.median))[scored].astype(
        float
    )
    best = WEIGHTS[int(np.argmin([np.abs(actual - ours - weight * towards).mean() for weight in WEIGHTS]))]
    return float(min(HALF + BELIEVED * (best - HALF), MOST_WEIGHT))


def _log_counts(panel: Panel) -> Floats:
    """Log counts (depots, history); NaN on days that are unknown or closed."""
    log: Floats = np.log1p(np.where(panel.open[:, : panel.history], panel.demand, np.nan)).astype(np.float32)
    return log


def _names(panel: Panel) -> tuple[str, ...]:
    return features.tree_inputs(panel.encoding.covariates, panel.calendar_names, tuple(panel.encoding.statics))


def _columns(panel: Panel) -> NDArray[np.intp]:
    """Positions of the inputs that do not name the date."""
    return np.array([place for place, name in enumerate(_names(panel)) if not name.startswith(DATES)])
