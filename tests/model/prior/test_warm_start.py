"""A warm start begins as the prior: the same forecasts, whatever else a pipeline declares."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.core.forecast import Candidate, Prior
from forecaster.core.panel import Panel
from forecaster.errors import TrainingError
from forecaster.model.export import to_onnx
from forecaster.model.fitting import train
from forecaster.model.network import features
from forecaster.model.network.encoder_decoder import Architecture
from forecaster.model.network.features import LOOKBACK, Window
from forecaster.model.prior import warm_start
from tests import panels
from tests.panels import random_members

OLD, NEW = {"mean": 5.0, "spread": 0.7}, {"mean": 2.0, "spread": 1.3}
LEVELS = panels.LEVELS


def shape_of(panel: Panel, levels: tuple[float, ...] = LEVELS, hidden: int = 8) -> Architecture:
    labels = tuple(len(words) for words in panel.encoding.statics.values())
    return Architecture(
        1, hidden, levels, panel.horizon, len(panel.encoding.covariates), len(panel.calendar_names), labels
    )


def model(panel: Panel, parameters: Any, constants: dict[str, float]) -> Candidate:
    count, shape = len(parameters["out"]["bias"]), shape_of(panel)
    calendar = {"calendar": jnp.ones(len(panel.calendar_names)), "yearly": jnp.float32(1)}
    return replace(
        panels.candidate(),
        parameters={
            "members": parameters,
            "constants": {**{name: jnp.float32(value) for name, value in constants.items()}, **calendar},
            "blend": {"members": np.full(count, 1 / count, np.float32), "anchor": np.float32(0)},
            "calibration": np.ones((panel.horizon, len(LEVELS)), np.float32),
        },
        architecture=shape.to_json(),
        encoding=panel.encoding,
        calendar_names=panel.calendar_names,
        horizon=panel.horizon,
    )


@pytest.fixture(scope="module")
def prior(quickly: None) -> Prior:
    """Two members that know promotions and the calendar of the small panels, and no statics."""
    panel = panels.panel(statics={})
    parameters = random_members(shape_of(panel), 2, seed=3)
    return Prior(model(panel, parameters, OLD), "digest")


def test_before_any_training_it_forecasts_as_the_prior(prior: Prior) -> None:
    """Despite another covariate in front, statics, another mean and spread, and twice the members."""
    plain = panels.panel(history=500, statics={})
    wider = panels.panel(history=500, covariates=("rain", "promo"))  # the same numbers in both
    shape = shape_of(wider)
    begun = warm_start.parameters(random_members(shape, 4, seed=9), prior, wider, shape, NEW)
    expected = to_onnx.forecaster(prior.model)(plain).quantiles
    actual = to_onnx.forecaster(model(wider, begun, NEW))(wider).quantiles
    np.testing.assert_allclose(actual, expected, rtol=2e-4)
    assert float(np.abs(to_onnx.forecaster(model(wider, begun, OLD))(wider).quantiles / expected - 1).max()) > 1e-3


def test_the_names_match_the_order_of_the_inputs() -> None:
    """Rows are assigned by name: each column that the window determines alone is checked."""
    window = Window(
        **{name: jnp.asarray(x) for name, x in panels.panel(history=500, horizon=7).window(LOOKBACK).items()}
    )
    constants = {"mean": jnp.float32(3), "spread": jnp.float32(1), "calendar": jnp.ones(6), "yearly": jnp.float32(1)}
    made = jax.jit(partial(features.make, scan=5, origins=1, horizon=7))(window, constants)
    names, read = features.decoder_inputs(("promo",), panels.CALENDAR), features.encoder_inputs(("promo",))
    assert (made.encoder.shape[-1], made.decoder.shape[-1]) == (len(set(read)), len(set(names)))
    promo = window.covariates[..., 0]
    expected = {
        "calendar weekend": window.calendar[:, LOOKBACK:, 0],
        "calendar day_off": window.calendar[:, LOOKBACK:, 4],
        "open": window.open[:, LOOKBACK:],
        "covariate promo yesterday": promo[:, LOOKBACK - 1 : -1],
        "covariate promo today": promo[:, LOOKBACK:],
        "covariate promo tomorrow": jnp.pad(promo[:, LOOKBACK + 1 :], ((0, 0), (0, 1))),
        "anchor": made.anchor[:, 0]
        - made.level
        - sum(made.decoder[:, 0, :, names.index(part)] for part in ("special", "holiday_carry")),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(made.decoder[:, 0, :, names.index(name)], values, atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(made.encoder[..., read.index("open")], window.open[:, LOOKBACK - 5 : LOOKBACK])
    np.testing.assert_array_equal(made.encoder[..., read.index("covariate promo")], promo[:, LOOKBACK - 5 : LOOKBACK])
    np.testing.assert_allclose(made.encoder[:, -1:, read.index("size")], made.level - 3, rtol=1e-6)


def test_a_longer_horizon_starts_as_the_last_day_and_other_levels_as_the_median(prior: Prior) -> None:
    longer, levels = panels.panel(horizon=5, statics={}), (0.1, 0.3, 0.5, 0.9)
    shape = shape_of(longer, levels)
    fresh, old = random_members(shape, 2, seed=9), prior.model.parameters["members"]
    begun = warm_start.parameters(fresh, prior, longer, shape, OLD)
    np.testing.assert_array_equal(begun["step"]["embedding"][:, 2:], np.repeat(old["step"]["embedding"][:, -1:], 3, 1))
    np.testing.assert_array_equal(begun["out"]["kernel"][..., 2], old["out"]["kernel"][..., 1])
    np.testing.assert_array_equal(begun["out"]["kernel"][..., 0], fresh["out"]["kernel"][..., 0])
    assert jax.tree.map(np.shape, begun) == jax.tree.map(np.shape, fresh)


def test_a_warm_start_with_another_width_is_rejected(prior: Prior) -> None:
    panel = panels.panel(statics={})
    shape = shape_of(panel, hidden=16)
    with pytest.raises(TrainingError, match=r"model.hidden is 16, the prior's is 8: set model.hidden: 8"):
        warm_start.parameters(random_members(shape, 2, seed=9), prior, panel, shape, OLD)


def test_a_training_records_the_prior_it_started_from(prior: Prior) -> None:
    panel, declared = panels.panel(), panels.spec(epochs=1)
    warm = declared.model_copy(update={"training": declared.training.model_copy(update={"start": "prior"})})
    begun, fresh = train.fit(panel, warm, prior=prior), train.fit(panel, declared, prior=prior)
    assert to_onnx.about(begun)["training"]["prior"] == "digest"
    assert "prior" not in to_onnx.about(fresh)["training"]
    kernels = [np.asarray(c.parameters["members"]["mix"]["kernel"]) for c in (prior.model, begun, fresh)]
    assert np.abs(kernels[1] - kernels[0]).max() < 0.2 < np.abs(kernels[2] - kernels[0]).max()
