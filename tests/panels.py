"""Small panels with a weekly rhythm, and one small model trained on such a panel, which tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Fold, Forecast, Scale
from forecaster.core.panel import Encoding, Panel
from tests import shared

NAN = float("nan")
FIRST = np.datetime64("2024-01-01")  # a Monday
CALENDAR = ("weekend", "holiday", "before_holiday", "after_holiday", "day_off", "counterpart")
STATICS = {"size": ("large", "small"), "city": ("Bonn", "Ulm")}  # on purpose not in alphabetical order
WEEK = np.array([1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7])
LEVELS = (0.1, 0.5, 0.9)


def panel(
    depots: int = 3,
    history: int = 120,
    horizon: int = 3,  # compiles faster than a week
    *,
    covariates: tuple[str, ...] = ("promo",),
    statics: dict[str, tuple[str, ...]] | None = None,
    seed: int = 0,
) -> Panel:
    """Return depots with a weekly rhythm, a promotion on every ninth day, and 6 % noise; nothing is
    missing or closed."""
    random, days = np.random.default_rng(seed), history + horizon
    labels = STATICS if statics is None else statics
    calendar = np.zeros((2, days, len(CALENDAR)), np.float32)
    calendar[:, np.arange(days) % 7 >= 5, 0] = 1
    calendar[1, 20::30, 1] = calendar[1, 19::30, 2] = calendar[1, 21::30, 3] = 1
    calendar[1, 20::30, 4] = 1
    calendar[1, 20::30, 5] = 330
    covariate_values = np.zeros((depots, days, len(covariates)), np.float32)
    covariate_values[:, ::9] = 1
    mean = 40.0 * (1 + np.arange(depots))[:, None] * WEEK[np.arange(history) % 7]
    mean = mean * (1 + 0.3 * covariate_values[:, :history].any(axis=-1))
    demand = np.round(mean * random.lognormal(0, 0.06, mean.shape)).astype(np.float32)
    codes = [1 + np.arange(depots) % len(words) for words in labels.values()]
    return Panel(
        depot_ids=tuple(f"D{i}" for i in range(depots)),
        days=FIRST + np.arange(days),
        horizon=horizon,
        demand=demand,
        open=np.ones((depots, days), bool),
        covariates=covariate_values,
        calendar=calendar,
        calendar_group=(np.arange(depots) % 2).astype(np.int32),
        statics=np.stack(codes, axis=1).astype(np.int32) if codes else np.zeros((depots, 0), np.int32),
        encoding=Encoding(covariates, labels),
        calendar_names=CALENDAR,
    )


def bare(demand: Any, *, horizon: int = 7, closed: Any = None) -> Panel:
    """Return a panel of the given counts (depots, days) and nothing else; `closed` are (depot,
    day)."""
    counts = np.asarray(demand, np.float32)
    depots, days = len(counts), counts.shape[1] + horizon
    open_ = np.ones((depots, days), bool)
    for depot, day in closed or ():
        open_[depot, day] = False
    return Panel(
        depot_ids=tuple(f"D{i}" for i in range(depots)),
        days=FIRST + np.arange(days),
        horizon=horizon,
        demand=counts,
        open=open_,
        covariates=np.zeros((depots, days, 0), np.float32),
        calendar=np.zeros((1, days, 0), np.float32),
        calendar_group=np.zeros(depots, np.int32),
        statics=np.zeros((depots, 0), np.int32),
        encoding=Encoding((), {}),
        calendar_names=(),
    )


def forecast(
    quantiles: Any, *, levels: tuple[float, ...] = LEVELS, closed: Any = None, cutoff: date = date(2024, 1, 1)
) -> Forecast:
    """Return a forecast with the given quantiles (depots, horizon, levels)."""
    values = np.asarray(quantiles, np.float32)
    open_ = np.ones(values.shape[:2], bool)
    for depot, step in closed or ():
        open_[depot, step] = False
    dates = tuple(cutoff + timedelta(days=1 + step) for step in range(values.shape[1]))
    return Forecast(tuple(f"D{i}" for i in range(len(values))), cutoff, dates, levels, values, open_)


def fold(quantiles: Any, actuals: Any, *, levels: tuple[float, ...] = LEVELS, cutoff: date = date(2024, 1, 1)) -> Fold:
    return Fold(forecast(quantiles, levels=levels, cutoff=cutoff), np.asarray(actuals, np.float32))


def scale(absolute: Any, squared: Any = None) -> Scale:
    """Return the scale of depots with the given weekly changes; all of one size, unless `squared`
    is given."""
    sizes = np.asarray(absolute, float)
    return Scale(sizes, sizes**2 if squared is None else np.asarray(squared, float))


def spec(**training: Any) -> Spec:
    """Return a small pipeline: one layer of 8, dropout, two members, twenty epochs."""
    return Spec.model_validate(
        {
            "name": "small",
            "demand": {"source": {"kind": "csv", "path": "demand.csv"}},
            "model": {"layers": 1, "hidden": 8, "quantiles": LEVELS, "boosted": False},
            "training": {"epochs": 20, "members": 2, "batch_depots": 8, "learning_rate": 0.01, **training},
            "backtest": {"days": 7},
        }
    )


def random_members(shape: Any, count: int, spread: float = 0.3, seed: int = 1) -> Any:
    """Return random parameters of `count` members of a network, (members, …) each, all with an
    effect; nothing is compiled."""
    from jax import tree

    from forecaster.model.fitting import train

    random = np.random.default_rng(seed)
    blank = train.blank_members(shape, count)
    return tree.map(lambda leaf: random.normal(0, spread, leaf.shape).astype(np.float32), blank)


def random_trees(inputs: int, horizon: int) -> dict[str, Any]:
    """Return trees that split on all their inputs, within the usual range."""
    from forecaster.model.network.trees import DEPTH, TREES

    rng, shape = np.random.default_rng(2), (horizon, TREES, 2**DEPTH - 1)
    return {
        "feature": rng.integers(0, inputs, shape).astype(np.int32),
        "threshold": rng.normal(0, 0.3, shape).astype(np.float32),
        "leaf": rng.normal(0, 0.05, (*shape[:2], 2**DEPTH)).astype(np.float32),
    }


@contextmanager
def quickly(cache_folder: Path | None = None) -> Iterator[None]:
    """Compile without optimizing, which takes a third of the time, and each program once for all workers."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    from forecaster.model.fitting import jax_setup

    changed = ("jax_compilation_cache_dir", "jax_disable_most_optimizations")
    before = {name: jax.config.values[name] for name in changed}
    compilation_cache.reset_cache()
    jax_setup.configure(cache_folder or shared.folder("jax-cache"))
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@cache
def candidate() -> Candidate:
    """Return a small model, trained once for all workers, with a calibration that is not one
    everywhere."""
    from forecaster.model.export import serialization
    from forecaster.model.fitting import train

    def trained() -> bytes:
        with quickly():
            fitted = train.fit(panel(), spec())
        calibration = np.float32([[1.3, 1.0, 0.8]] * 3)
        return serialization.to_bytes(replace(fitted, parameters={**fitted.parameters, "calibration": calibration}))

    return serialization.from_bytes(shared.content("candidate", trained))


@cache
def graph() -> bytes:
    """Return the ONNX file of `candidate()`."""
    from forecaster.model.export import to_onnx

    return shared.content("graph", lambda: to_onnx.to_graph(candidate()))
