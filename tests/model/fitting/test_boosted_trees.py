"""Boosted trees give LightGBM's predictions, weigh about a half, and pass through a training into a
bundle."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.errors import MissingExtra
from forecaster.model.export import to_onnx
from forecaster.model.fitting import boosted_trees, ensemble, train
from forecaster.model.fitting.boosted_trees import PARAMETERS, Validated
from forecaster.model.network import features, trees
from forecaster.model.network.features import LOOKBACK
from forecaster.model.network.trees import RAMP, TREES
from forecaster.serving import bundle
from forecaster.serving.numpy_model import ReferenceModel
from tests import panels


def boosted_spec(boosted: bool | None = True) -> Spec:
    spec = panels.spec()
    return spec.model_copy(update={"model": spec.model.model_copy(update={"boosted": boosted})})


def test_ramps_match_lightgbm_if_no_input_is_inside_one() -> None:
    import lightgbm

    random = np.random.default_rng(0)
    x = np.round(random.normal(0, 1, (600, 6)), 1).astype(np.float32)  # thresholds lie halfway between tenths
    x[:, 3:] *= random.random((600, 3)) < 0.5  # and if half are zero, directly above or below it
    y = np.where(x[:, 0] > 0, 1, 0) + x[:, 1] - 2 * (x[:, 3] < 0) + (x[:, 4] == 0)
    booster = lightgbm.train(PARAMETERS, lightgbm.Dataset(x, y, params=PARAMETERS), TREES)
    columns = np.array([9, 2, 0, 4, 3, 7])  # positions of these inputs in the graph
    arrays = boosted_trees.complete_trees(booster.dump_model(), columns)
    assert (arrays["threshold"] == np.float32(-RAMP)).any()
    assert (abs(arrays["threshold"]) < 1e-30).any()
    wide = np.full((600, 1, 10), 7.0, np.float32)
    wide[:, 0, columns] = x
    said = trees.predict({name: jnp.asarray(array[None]) for name, array in arrays.items()}, jnp.asarray(wide))
    np.testing.assert_allclose(said[:, 0], booster.predict(x), atol=1e-5)


def test_a_training_with_trees_has_them_and_their_weight_in_its_parameters() -> None:
    panel = panels.panel(6)
    with panels.quickly():
        candidate = train.fit(panel, boosted_spec(), epochs=1)
        expected = to_onnx.on_arrays(candidate)(panel.window(LOOKBACK))
    shapes = [
        [(str(path), leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(dict(of.parameters))]
        for of in (candidate, train.blank(panel, boosted_spec()))  # programs are compiled ahead with the blank one
    ]
    assert shapes[0] == shapes[1]
    about = to_onnx.about(candidate)
    told, weight = about["training"]["boosted"], float(candidate.parameters["blend"]["trees"])
    assert np.isclose(told["weight"], weight)
    assert 0.25 <= told["weight"] <= 0.6
    assert len(told["trees"]) == panel.horizon
    assert 0 < told["ramps_mean"] <= told["ramps_largest"] < 0.5
    assert "trees_seconds" not in about["training"]
    # Another implementation gives the same from a bundle's content; without the trees, the forecast
    # differs.
    model = ReferenceModel(bundle.npz(to_onnx.weights(candidate)), about)
    np.testing.assert_allclose(model(panel.window(LOOKBACK)), expected, rtol=1e-4, atol=1e-4)
    plain = model(panel.window(LOOKBACK))
    model.weights["blend.trees"] = np.zeros(())
    alone = model(panel.window(LOOKBACK))
    moved = np.log1p(plain) - np.log1p(alone)  # the same for all quantiles
    assert np.abs(moved).max() > 0.01
    np.testing.assert_allclose(moved, np.broadcast_to(moved[..., :1], moved.shape), atol=1e-4)


def validated(median: float, actual: float, scored: bool = True) -> Validated:
    shape = (2, 3, 4)
    arrays = (np.full(shape, value, np.float32) for value in (median, actual))
    return Validated(np.arange(2), *arrays, np.full(shape, scored))


@pytest.mark.parametrize(
    ("actual", "weight"),
    [(2.0, 0.25), (3.0, 0.6), (2.4, 0.45)],  # a network that predicts 2 and trees that predict 3
)
def test_the_weight_is_halfway_between_a_half_and_the_best_on_validation_days(actual: float, weight: float) -> None:
    said, trusted = np.full((6, 4), 3.0), np.ones(6, np.float32)
    assert boosted_trees._weight(said, trusted, validated(2, actual)) == pytest.approx(weight)
    assert boosted_trees._weight(said, trusted, validated(2, actual, scored=False)) == 0.5


def test_trees_do_not_read_waves_that_name_the_date() -> None:
    panel = replace(panels.panel(1), calendar_names=("year_sin", *panels.CALENDAR[1:]))
    names = features.tree_inputs(("promo",), panel.calendar_names, tuple(panels.STATICS))
    left_out = set(names) - {names[place] for place in boosted_trees._columns(panel)}
    assert left_out == {"calendar year_sin"}


def test_trees_learn_from_a_sample_of_a_large_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "MOST_DEPOTS", 3)
    panel = panels.panel(9)
    for rows in (rows for part in boosted_trees._rows(panel, panel.history - 28) for rows in part):
        assert set(rows.depot.tolist()) == {0, 4, 8}


def test_too_few_counts_give_no_trees_and_no_weight() -> None:
    panel = panels.panel(1)
    fitted = boosted_trees.fit(panel, panel.history - 28, {}, validated(2, 2))
    assert fitted.weight == 0
    assert not fitted.arrays["leaf"].any()
    assert fitted.about == {"trees": [0, 0, 0], "weight": 0.0, "ramps_mean": 0.0, "ramps_largest": 0.0}
    weights = train._blend_parameters(ensemble.Blend(np.ones(1, np.float32), 0.1), fitted)
    assert set(weights) == {"blend"}
    assert set(weights["blend"]) == {"members", "anchor"}


def test_without_lightgbm_a_training_reports_the_install_command_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "lightgbm", None)
    install = r"pip install 'harbor-forecaster\[train\]'"
    needs = rf"boosted trees need LightGBM \(.*lightgbm.*\): {install}, or set model.boosted: false"
    with pytest.raises(MissingExtra, match=needs):
        train.fit(panels.panel(), boosted_spec())
    reports: list[str] = []
    assert not boosted_trees.are_fitted(boosted_spec(None), 14, reports.append)
    assert re.fullmatch("the model is trained without boosted trees: " + needs, reports.pop())


@pytest.mark.parametrize(
    ("asked", "horizon", "fitted"), [(None, 14, True), (None, 15, False), (False, 7, False), (True, 7, True)]
)
def test_trees_are_fitted_for_at_most_two_weeks_by_default(asked: bool | None, horizon: int, fitted: bool) -> None:
    assert boosted_trees.are_fitted(boosted_spec(asked), horizon, pytest.fail) == fitted
