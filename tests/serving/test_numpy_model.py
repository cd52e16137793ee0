"""The plain NumPy forward pass gives the results of JAX and of the graph, only from the content of
a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.core.forecast import Candidate
from forecaster.core.panel import Encoding, Panel
from forecaster.model.export import to_onnx
from forecaster.model.network import encoder_decoder, features
from forecaster.model.network.features import LOOKBACK
from forecaster.serving import bundle, day_arrays, numpy_model, predict
from forecaster.serving.numpy_model import ReferenceModel
from tests import panels


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    with panels.quickly():
        yield


@cache
def ours() -> ReferenceModel:
    return of(panels.candidate())


def of(candidate: Candidate) -> ReferenceModel:
    return ReferenceModel(bundle.npz(to_onnx.weights(candidate)), to_onnx.about(candidate))


def odd(horizon: int = 3) -> Panel:
    """A panel with gaps, a depot without any reading, closed days, and more than a year of history."""
    panel = panels.panel(5, 500, horizon, seed=3)
    demand, open_ = np.array(panel.demand), np.array(panel.open)
    demand[0, ::3], demand[1], demand[2, -60:] = np.nan, np.nan, np.nan
    open_[3, 480:490], open_[4, -2], demand[4, 100:400] = False, False, 0
    return replace(panel, demand=demand, open=open_)


def christmas() -> Panel:
    """Depots that see their first holidays, which began last week and continue, one that saw the
    same a year ago, one that moved to another level between two holidays, and one whose same
    weekdays had nothing usual a year ago."""
    panel = odd()
    demand, calendar = np.array(panel.demand), np.array(panel.calendar)
    demand[[0, 2], :300] = np.nan
    demand[:, -5:] //= 3
    demand[3, -40:] //= 5  # for good, ten days before the first of them
    calendar[:, [*range(-37, -34), *range(-27, -20)], 5] = 365
    calendar[:, -8:-1, 5], calendar[1, -7, [1, 4]] = 365, 1
    # Days off: now and a year ago, now, a year ago, without a counterpart, and two more of the year.
    calendar[:, [-3, -368, -2, -369, -1, -200, -100], 4] = 1
    of_history = np.array([-368, -369, -200, -100]) + panel.horizon  # counts end where the horizon begins
    demand[:, of_history] //= 3
    demand[4, 100 - (365 + 2) :] = 400
    demand[4, -365 - 6 - 7 * np.arange(1, 4)] = 3
    return replace(panel, demand=demand, calendar=calendar)


def moved() -> Panel:
    """Depots whose level moved a week ago, some with gaps."""
    panel = odd()
    demand = np.array(panel.demand)
    demand[[0, 3], -7:] *= 0.6
    demand[2, -11:] = demand[2, 100:111] * 1.6
    return replace(panel, demand=demand)


def test_numpy_onnx_and_jax_agree() -> None:
    graph = predict.session(panels.graph())
    for panel in (panels.panel(), odd(), christmas(), moved()):
        inputs = panel.window(LOOKBACK)
        predicted = ours()(inputs)
        assert predicted.dtype == np.float32
        np.testing.assert_allclose(predicted, predict.run(graph, inputs), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(predicted, to_onnx.on_arrays(panels.candidate())(inputs), rtol=1e-5, atol=1e-5)


def test_ranges_of_an_earlier_bundle_do_not_grow_after_a_surprising_week() -> None:
    before, inputs = of(panels.candidate()), panels.panel().window(LOOKBACK)
    before.lengths = {name: length for name, length in before.lengths.items() if name != "follows"}
    grown, plain = ours()(inputs), before(inputs)
    median = panels.LEVELS.index(0.5)
    np.testing.assert_allclose(grown[..., median], plain[..., median], rtol=1e-6)
    wider = np.ptp(grown, axis=-1) / np.ptp(plain, axis=-1)
    assert wider.min() >= 1 - 1e-6
    assert wider.max() > 1.05


def test_medians_follow_a_moved_level_except_in_earlier_bundles() -> None:
    before, inputs = of(panels.candidate()), moved().window(LOOKBACK)
    before.lengths = {name: length for name, length in before.lengths.items() if name != "most_moved"}
    median = panels.LEVELS.index(0.5)
    ratio = (ours()(inputs) / np.maximum(before(inputs), 1e-9))[..., median]
    trust = ours().features(inputs)[4][1]
    assert (trust[[0, 3]] > 0.2).all()
    assert (ratio[[0, 3]] < 0.95).all()
    np.testing.assert_allclose(ratio[trust == 0][:1], 1, rtol=1e-6)
    assert not before.features(inputs)[4][1].any()


def test_medians_before_following_can_be_recovered() -> None:
    random = np.random.default_rng(0)
    center, anchor, level_moved = random.normal(5, 0.3, (50, 9)), np.full((50, 9), 5.0), random.normal(0, 0.4, 50)
    open_, trust = np.ones((50, 9)), random.uniform(0, 0.99, 50)
    center += random.normal(0, 0.3, (50, 1))
    moves = level_moved, trust
    after = numpy_model.followed(center, anchor, open_, *moves)
    assert np.abs(after - center).max() > 0.2
    np.testing.assert_allclose(numpy_model.before_following(after, anchor, open_, *moves), center, atol=1e-9)


def test_a_closed_day_is_zero_and_quantiles_do_not_cross() -> None:
    predicted = ours()(odd().window(LOOKBACK))
    assert not predicted[4, 1].any()
    assert (np.diff(predicted, axis=-1) >= 0).all()
    assert (predicted >= 0).all()


def drawn(shape: encoder_decoder.Architecture, encoding: Encoding, calibration: list[float]) -> Candidate:
    """Return a model of two members with random parameters, so that every part of the network has
    an effect."""
    members = panels.random_members(shape, 2, 0.5)
    calendar = np.array([1, 0.5, 0, 1, 1, 1], np.float32)
    constants = {"mean": np.float32(4), "spread": np.float32(0.7), "yearly": np.float32(1), "calendar": calendar}
    parameters = {
        "members": members,
        "constants": constants,
        "blend": {"members": np.array([0.3, 0.7], np.float32), "anchor": np.float32(0.4)},
        "calibration": np.float32([calibration] * shape.horizon),
    }
    sizes = shape.to_json()
    return Candidate(parameters, sizes, encoding, panels.CALENDAR, shape.levels, shape.horizon, {"seconds": 1.0})


def test_a_model_of_several_layers_with_reversed_quantiles_agrees() -> None:
    """Without covariates and statics."""
    shape = encoder_decoder.Architecture(3, 4, (0.1, 0.4, 0.5, 0.6, 0.9), 3, 0, len(panels.CALENDAR), ())
    panel = panels.panel(4, 450, covariates=(), statics={})
    candidate = drawn(shape, panel.encoding, [0.3, 5, 1, 5, 0.3])
    expected = to_onnx.forecaster(candidate)(panel).quantiles
    predicted = of(candidate)(panel.window(LOOKBACK))
    assert (np.diff(predicted, axis=-1) == 0).any()  # the calibration did reverse some
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("horizon", [1, 8, 61])
def test_several_weeks_ahead_agree(horizon: int) -> None:
    panel = odd(horizon)
    panel.covariates[0, -1] = 3  # an event that this depot has never had
    labels = tuple(len(words) for words in panel.encoding.statics.values())
    covariates = len(panel.encoding.covariates)
    shape = encoder_decoder.Architecture(1, 4, (0.1, 0.5, 0.9), horizon, covariates, len(panels.CALENDAR), labels)
    candidate, inputs = drawn(shape, panel.encoding, [1, 1, 1]), panel.window(LOOKBACK)
    if horizon == 8:
        candidate = with_trees(candidate)
    expected = to_onnx.on_arrays(candidate)(inputs)
    model = of(candidate)
    if horizon == 8:
        check_what_trees_read(model, candidate, inputs)
    predicted, bound = model(inputs), model.bound(inputs)
    assert predicted.shape == (5, horizon, 3)
    assert np.isclose(np.log1p(predicted[..., -1]), bound).any()  # an untrained network goes far beyond the bound
    # as in earlier versions
    model.lengths = {name: length for name, length in model.lengths.items() if name != "times_most"}
    np.testing.assert_allclose(predicted, np.minimum(model(inputs), np.expm1(bound)[..., None]), rtol=1e-5)
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4)
    graph = predict.session(to_onnx.to_graph(candidate))
    np.testing.assert_allclose(predict.run(graph, inputs), expected, rtol=1e-4, atol=1e-4)


def with_trees(candidate: Candidate) -> Candidate:
    """Return a candidate with trees that split on all their inputs, within the usual range."""
    names = candidate.encoding.covariates, candidate.calendar_names, tuple(candidate.encoding.statics)
    arrays = panels.random_trees(len(features.tree_inputs(*names)), candidate.horizon)
    blend = {**candidate.parameters["blend"], "trees": np.float32(0.4)}
    return replace(candidate, parameters={**candidate.parameters, "trees": arrays, "blend": blend})


def check_what_trees_read(model: ReferenceModel, candidate: Candidate, inputs: dict[str, Any]) -> None:
    constants = jax.tree.map(jnp.asarray, candidate.parameters["constants"])
    make = partial(features.make, scan=56, origins=1, horizon=candidate.horizon, trees=True)
    made = jax.jit(make)(to_onnx.window(inputs), constants)
    read = model.features(inputs)
    np.testing.assert_allclose(read.trees, made.trees[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(read.trusted, made.tree_trust[:, 0], rtol=1e-6)
    assert (read.trusted < 1).any()
    assert (model.trees(read)[0] > 0).any()


def test_jax_operation_by_operation_matches_compiled_jax() -> None:
    """Parity therefore may use the compiled one."""
    candidate, inputs = panels.candidate(), panels.panel().window(LOOKBACK)
    parameters: Any = jax.tree.map(jnp.asarray, dict(candidate.parameters))
    predicted = encoder_decoder.forward(parameters, to_onnx.window(inputs), to_onnx.architecture(candidate))
    np.testing.assert_allclose(np.asarray(predicted), ours()(inputs), rtol=1e-5, atol=1e-5)


def slowly(x: list[float], length: int, every: int) -> list[float]:
    return [sum(x[i - every * k] for k in range(length) if i - every * k >= 0) for i in range(len(x))]


@pytest.mark.parametrize(("length", "every"), [(3, 1), (10, 1), (2, 7), (4, 7)])
def test_trailing_sums_match_a_slow_loop(length: int, every: int) -> None:
    x = [3.0, 0.0, 5.0, 2.0, 8.0, 1.0, 0.0, 4.0, 6.0, 7.0, 2.0, 2.0, 9.0, 1.0, 3.0, 5.0]
    np.testing.assert_allclose(day_arrays.trailing(np.array([x]), length, every)[0], slowly(x, length, every))


def test_a_day_of_the_recurrence_by_hand() -> None:
    """One unit, one feature: r = z = σ(0) = ½, n = tanh(x + ½ · 0) on the first day, h = ½ n."""
    kernel = np.array([[0.0, 0.0, 1.0]])
    states = numpy_model.gru(np.array([[[0.5], [0.0]]]), kernel, np.zeros(3), np.zeros((1, 3)))
    first = 0.5 * np.tanh(0.5)
    np.testing.assert_allclose(states[0, :, 0], [first, 0.5 * first])
