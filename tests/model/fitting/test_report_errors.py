"""Training reads covariates of the days ahead as reports have them: with errors that grow with the
distance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Encoding, Panel
from forecaster.model.export import to_onnx
from forecaster.model.fitting import boosted_trees, report_errors, train
from forecaster.model.fitting.boosted_trees import Validated
from forecaster.model.network import features, trees
from forecaster.model.network.features import LOOKBACK, Window
from tests import panels


def reporting(lead_error: Any, **training: Any) -> Spec:
    return panels.spec(**training).with_lead_error({"promo": lead_error})


def leaves(candidate: Candidate) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(dict(candidate.parameters))]


def test_a_number_grows_with_the_square_root_and_the_last_of_a_list_continues() -> None:
    def by_lead(error: Any, horizon: int) -> tuple[float, ...]:
        return reporting(error).calendar.report_deviations("promo", horizon)

    np.testing.assert_allclose(by_lead(1.5, 4), [1.5, 1.5 * 2**0.5, 1.5 * 3**0.5, 3])
    assert by_lead((0.0, 2.0), 4) == (0, 2, 2, 2)
    assert by_lead((1.0, 2.0, 3.0), 2) == (1, 2)
    assert panels.spec().calendar.report_deviations("promo", 2) == (0, 0)


def test_steps_are_of_the_covariates_that_have_an_error() -> None:
    panel = panels.panel(covariates=("promo", "rain"))
    steps = report_errors.steps(reporting((3.0, 5.0)), panel)
    assert steps is not None
    assert steps.tolist() == [[3, 0], [4, 0], [0, 0]]  # a random walk: 3² + 4² = 5²
    for error in (0.0, (0.0, 0.0)):
        assert report_errors.steps(reporting(error), panel) is None
    assert report_errors.steps(panels.spec(), panel) is None
    assert report_errors.declared(reporting(2.0), panel)["promo"][0] == 2


def test_a_report_has_one_error_that_grows() -> None:
    steps = jnp.asarray([[3.0], [4.0], [0.0]])
    errors = np.asarray(report_errors.of_crops(jax.random.split(jax.random.key(0), 500), 40, steps))
    assert errors.shape == (500, 40, 3, 1)
    np.testing.assert_allclose(errors.std(axis=(0, 1)), [[3], [5], [5]], rtol=0.02)
    np.testing.assert_allclose(errors.mean(axis=(0, 1)), 0, atol=0.1)
    np.testing.assert_array_equal(errors[:, :, 1], errors[:, :, 2])
    first, later = errors[..., 0, 0].ravel(), errors[..., 1, 0].ravel()
    np.testing.assert_allclose(np.corrcoef(first, later)[0, 1], 3 / 5, atol=0.02)
    next_origin = np.corrcoef(errors[:, :-1, 0].ravel(), errors[:, 1:, 0].ravel())[0, 1]
    assert abs(next_origin) < 0.02


def test_the_error_of_a_depot_and_day_is_always_the_same() -> None:
    steps = jnp.asarray([[1.0, 0.5], [1.0, 0.0]])
    errors = report_errors.of_days(jnp.asarray([4, 0, 2]), jnp.asarray([10, 11, 12]), steps)
    part = report_errors.of_days(jnp.asarray([2]), jnp.asarray([11]), steps)
    np.testing.assert_array_equal(errors[2, 1], part[0, 0])
    assert len(np.unique(errors)) == 9 * 3  # two of a walk, and one constant


@jax.jit
def made(window: Window, errors: Any = None) -> tuple[Any, Any, Any]:
    constants = {"mean": jnp.float32(3), "spread": jnp.float32(1), "calendar": jnp.ones(6), "yearly": jnp.float32(1)}
    sizes: dict[str, Any] = {"scan": 5, "origins": 1, "horizon": 9, "trees": True}
    of_window = features.make(window, constants, **sizes, report_errors=errors)
    return of_window.encoder, of_window.decoder, of_window.trees


def test_report_errors_change_only_covariates_of_the_days_ahead() -> None:
    panel = panels.panel(2, LOOKBACK, 9, covariates=("promo", "rain"))
    window = Window(**{name: jnp.asarray(x) for name, x in panel.window(LOOKBACK).items()})
    errors = np.random.default_rng(0).normal(0, 1, (2, 1, 9, 2)).astype(np.float32)
    off = window.covariates.at[:, LOOKBACK:].add(errors[:, 0])
    with panels.quickly():
        true, others, reported = made(window), made(window._replace(covariates=off)), made(window, errors)
    for expected, actual in zip(others, reported, strict=True):
        np.testing.assert_allclose(expected, actual, atol=1e-6)
    assert not np.array_equal(true[1], reported[1])


def test_an_error_of_zero_and_no_error_train_bit_identically() -> None:
    panel = panels.panel()
    with panels.quickly():
        without, with_nothing, with_error = (
            train.fit(panel, spec)
            for spec in (panels.spec(epochs=2), reporting(0.0, epochs=2), reporting(1.0, epochs=2))
        )
    assert leaves(without) == leaves(with_nothing)
    assert leaves(without) != leaves(with_error)
    assert "lead_error" not in with_nothing.summary
    np.testing.assert_allclose(with_error.summary["lead_error"]["promo"], np.sqrt([1, 2, 3]))


def weather(depots: int, history: int) -> Panel:
    """Return counts that follow only the weather, which is known ahead only from reports."""
    panel, random = panels.panel(depots, history, covariates=("rain",)), np.random.default_rng(1)
    rain = random.normal(0, 1, panel.covariates.shape).astype(np.float32)
    demand = np.round(60 * np.exp(0.3 * rain[:, :history, 0]) * random.lognormal(0, 0.03, panel.demand.shape))
    return replace(
        panel, covariates=rain, demand=demand.astype(np.float32), encoding=Encoding(("rain",), panels.STATICS)
    )


def test_trees_learn_from_the_same_reports_reproducibly() -> None:
    panel = weather(4, 300)
    days = panel.history - 28
    of_network = np.zeros((4, 26, 3), np.float32)
    constants, validated = train.constants(panel, days), Validated(np.arange(4), *[of_network] * 2, of_network > 0)
    steps = np.full((3, 1), 1.0, np.float32)
    with panels.quickly():
        true, off, again = (
            boosted_trees.fit(panel, days, constants, validated, steps_) for steps_ in (None, steps, steps)
        )
    for name, array in off.arrays.items():
        assert array.tobytes() == again.arrays[name].tobytes()
    names = features.tree_inputs(("rain",), panels.CALENDAR, tuple(panels.STATICS))
    inputs = np.zeros((2, 3, len(names)), np.float32)
    inputs[..., names.index("covariate rain today")] = [[-1], [1]]
    arrays = [{name: jnp.asarray(array) for name, array in fitted.arrays.items()} for fitted in (true, off)]
    response = [np.diff(trees.predict(of_trees, jnp.asarray(inputs)), axis=0) for of_trees in arrays]
    assert (response[1] < 0.8 * response[0]).all()  # they trust the rain less


def test_a_model_trained_on_reports_forecasts_better_from_reports() -> None:
    panel, error = weather(6, 260), 1.0
    before = panel.at(panel.days[panel.history - 31].astype(object))
    spec = panels.spec(epochs=15).with_lead_error({"rain": error})
    with panels.quickly():
        on_truth, on_reports = (to_onnx.forecaster(train.fit(before, of)) for of in (panels.spec(epochs=15), spec))
    missed = []
    for predict in (on_truth, on_reports):
        random, errors = np.random.default_rng(3), []
        for day in range(panel.history - 31, panel.history - 3):
            then = panel.at(panel.days[day].astype(object))
            walk = np.cumsum(random.normal(0, error, (6, 3, 1)), axis=1)
            covariates = then.covariates + np.pad(walk, ((0, 0), (day + 1, 0), (0, 0))).astype(np.float32)
            forecast = predict(replace(then, covariates=covariates))
            errors.append(np.abs(forecast.median - panel.actuals(then.cutoff)))
        missed.append(np.mean(errors))
    assert missed[1] < 0.9 * missed[0]
