"""Properties of the network for any input, trained or not."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.model.export import to_onnx
from forecaster.model.network import encoder_decoder, features
from forecaster.model.network.features import LOOKBACK
from tests import panels
from tests.panels import LEVELS, NAN

HORIZON = 3


def raw(**changes: Any) -> dict[str, Any]:
    return {**panels.panel().window(LOOKBACK), **changes}


def say(arrays: dict[str, Any], parameters: Any = None) -> np.ndarray[Any, Any]:
    """Return quantiles of counts (depots, horizon, levels) of the small candidate, or with other
    parameters of its shape."""
    candidate = panels.candidate()
    return np.asarray(_compiled()(parameters or candidate.parameters, to_onnx.window(arrays)))


@cache
def _compiled() -> Any:
    return jax.jit(partial(encoder_decoder.forward, shape=to_onnx.architecture(panels.candidate())))


def counts(value: float) -> np.ndarray[Any, Any]:
    return np.full((3, LOOKBACK), value, np.float32)


def spiky() -> np.ndarray[Any, Any]:
    random = np.random.default_rng(0)
    values = np.where(random.random((3, LOOKBACK)) < 0.5, 0.0, random.lognormal(0, 6, (3, LOOKBACK)))
    return np.where(random.random((3, LOOKBACK)) < 0.3, NAN, values).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="as trained"),
        pytest.param({"demand": counts(NAN)}, id="nothing known"),
        pytest.param({"open": np.zeros((3, LOOKBACK + HORIZON), np.float32)}, id="always closed"),
        pytest.param({"demand": counts(0.0)}, id="nobody comes"),
        pytest.param({"demand": counts(1e9)}, id="a billion a day"),
        pytest.param({"demand": counts(np.inf)}, id="infinite"),
        pytest.param({"demand": spiky()}, id="spikes and gaps"),
        pytest.param({"statics": np.zeros((3, 2), np.int32)}, id="a city never seen"),
    ],
)
def test_quantiles_rise_and_are_finite_and_never_negative(changes: dict[str, Any], scale: float) -> None:
    """Also for parameters far from trained ones."""
    parameters = dict(panels.candidate().parameters)
    parameters["members"] = jax.tree.map(lambda leaf: leaf * np.float32(scale), parameters["members"])
    parameters["calibration"] = np.ones((HORIZON, 3), np.float32)
    quantiles = say(raw(**changes), parameters)
    assert quantiles.shape == (3, HORIZON, 3)
    assert np.isfinite(quantiles).all()
    assert (quantiles >= 0).all()
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    down, up = np.moveaxis(np.diff(np.log1p(quantiles), axis=-1), -1, 0)
    assert down.max() <= encoder_decoder.FARTHEST_DOWN + 1e-4
    assert up.max() <= encoder_decoder.FARTHEST_UP + 1e-4


def test_closed_days_are_zero_and_open_ones_are_not() -> None:
    open_ = np.ones((3, LOOKBACK + HORIZON), np.float32)
    open_[1, LOOKBACK + 2] = 0
    quantiles = say(raw(open=open_))
    assert not quantiles[1, 2].any()
    assert (quantiles > 0).all(axis=-1).sum() == 3 * HORIZON - 1


def test_members_are_averaged_in_logs_drawn_to_the_anchor_and_calibrated() -> None:
    candidate = panels.candidate()
    shape, parameters = to_onnx.architecture(candidate), candidate.parameters

    @jax.jit
    def run(member: Any, constants: Any, window: features.Window) -> tuple[encoder_decoder.NetworkOutput, Any]:
        inputs = features.make(window, constants, scan=shape.scan, origins=1, horizon=shape.horizon)
        return encoder_decoder.member_forward(member, inputs, window.statics, shape), inputs.missed[:, 0]

    members = [
        run(
            jax.tree.map(lambda leaf, i=i: leaf[i], parameters["members"]),
            parameters["constants"],
            to_onnx.window(raw()),
        )
        for i in (0, 1)
    ]
    first, second = (np.asarray(member.quantiles)[:, 0] for member, _ in members)
    assert not np.allclose(first, second)
    mean, anchor = 0.75 * first + 0.25 * second, np.asarray(members[0][0].anchor)[:, 0, :, None]
    center = 0.9 * mean[..., 1:2] + 0.1 * anchor
    distance = encoder_decoder._surprised(jnp.asarray(mean - mean[..., 1:2]), members[0][1], shape.levels)
    log = center + np.asarray(distance) * np.array([1.3, 1.0, 0.8], np.float32)
    blend = {"members": np.array([0.75, 0.25], np.float32), "anchor": np.float32(0.1)}
    np.testing.assert_allclose(say(raw(), {**parameters, "blend": blend}), np.expm1(log), rtol=1e-5)


def test_distances_grow_if_they_are_short_for_the_errors_of_the_last_week() -> None:
    levels, missed = (0.1, 0.4, 0.5, 0.9), np.float32([0.0, 0.1, 0.5, 60.0])
    distance = np.tile(np.float32([-0.3, -0.05, 0.0, 0.2]), (4, 2, 1))
    grown = np.asarray(encoder_decoder._surprised(jnp.asarray(distance), jnp.asarray(missed), levels))
    asked = np.array([1.2816, 0.2533, 0.0, 1.2816]) * np.sqrt(np.pi / 2)  # of a normal distribution, in mean misses
    np.testing.assert_allclose(grown[:2], distance[:2], rtol=1e-6)  # nothing is known, and a week as usual
    wanted = distance[2] * np.clip(asked * 0.5 / np.maximum(np.abs(distance[2]), 1e-9), 1, 4) ** 0.3
    np.testing.assert_allclose(grown[2], wanted, rtol=1e-4)
    np.testing.assert_allclose(grown[3], distance[3] * 4**0.3, rtol=1e-4)
    assert (np.diff(grown, axis=-1) > 0).all()


@pytest.mark.parametrize("back", [0, 4])
def test_later_demand_does_not_change_the_forecast_of_an_origin(back: int) -> None:
    """The leak detector, through encoder and decoder."""
    candidate, origins = panels.candidate(), 8
    member = jax.tree.map(lambda leaf: leaf[0], candidate.parameters["members"])
    arrays = panels.panel(3, LOOKBACK + origins - 1).window(LOOKBACK + origins - 1)
    constants = jax.tree.map(jnp.asarray, dict(candidate.parameters["constants"]))
    shape = to_onnx.architecture(candidate)
    sizes = {"scan": 40, "origins": origins, "horizon": HORIZON}

    @jax.jit
    def compiled(window: features.Window) -> Any:
        inputs = features.make(window, constants, **sizes)
        return encoder_decoder.member_forward(member, inputs, window.statics, shape).quantiles

    expected = compiled(to_onnx.window(arrays))
    assert expected.shape == (3, origins, HORIZON, 3)
    place = origins - 1 - back
    for later in (NAN, 0.0, 1e6):
        demand = np.array(arrays["demand"])
        demand[:, demand.shape[1] - back :] = later
        quantiles = compiled(to_onnx.window({**arrays, "demand": demand}))
        np.testing.assert_array_equal(quantiles[:, : place + 1], expected[:, : place + 1])
        if back:
            assert not np.allclose(quantiles[:, -1], expected[:, -1])


def test_a_forecast_of_a_depot_is_independent_of_other_depots() -> None:
    alone = raw()
    alone["demand"] = np.array(alone["demand"])
    before = say(alone)
    alone["demand"][1:] = NAN
    np.testing.assert_array_equal(say(alone)[0], before[0])


def test_dropout_depends_on_its_key_and_is_off_without_one() -> None:
    shape = encoder_decoder.Architecture(1, 8, LEVELS, HORIZON, 1, len(panels.CALENDAR), (2, 2), scan=20)
    parameters = jax.tree.map(lambda leaf: leaf[0], panels.random_members(shape, 1))
    window = to_onnx.window(panels.panel().window(40))
    constants = jax.tree.map(jnp.asarray, dict(panels.candidate().parameters["constants"]))
    inputs = jax.jit(partial(features.make, scan=20, origins=1, horizon=HORIZON))(window, constants)
    run = jax.jit(
        lambda masks: encoder_decoder.member_forward(parameters, inputs, window.statics, shape, masks=masks).quantiles
    )

    def quantiles(rate: float, seed: int) -> Any:
        return run(encoder_decoder.dropout_masks(shape, jnp.float32(rate), jax.random.key(seed), 3))

    first, again, other_seed, without_dropout = (
        quantiles(0.5, 1),
        quantiles(0.5, 1),
        quantiles(0.5, 2),
        quantiles(0.0, 1),
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other_seed)
    assert not np.allclose(first, without_dropout)
    np.testing.assert_allclose(without_dropout, run(None), rtol=1e-6)


def test_dropout_keeps_the_mean() -> None:
    shape = encoder_decoder.Architecture(2, 50, LEVELS, HORIZON, 1, 5, ())
    masks = np.asarray(encoder_decoder.dropout_masks(shape, jnp.float32(0.2), jax.random.key(0), 400))
    assert masks.shape == (400, (2 + encoder_decoder.WIDER) * 50)
    np.testing.assert_allclose(np.unique(masks), [0, 1.25])
    assert masks.mean() == pytest.approx(1, abs=0.01)


def test_fresh_parameters_start_at_the_anchor_with_a_band_around_it() -> None:
    shape = encoder_decoder.Architecture(2, 8, (0.1, 0.2, 0.5, 0.9), HORIZON, 1, 5, (3, 2))
    first, second = (encoder_decoder.initial_parameters(shape, jax.random.key(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(first["out"]["bias"], np.float32([-2.4, -2.4, 0, -2.4]))
    assert not np.array_equal(first["day"]["kernel"], second["day"]["kernel"])
    # one more than the labels: "not seen in training" is code 0
    assert first["embeddings"]["0"]["embedding"].shape == (4, 2)
    assert list(first["cells"]) == ["0", "1"]
