"""A bundle forecasts the same as the trained model, for panels that were made for it, without
training code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.core.panel import Encoding, Panel
from forecaster.errors import BundleError, InputError
from forecaster.model.export import to_onnx
from forecaster.serving import bundle, predict
from forecaster.serving.predict import Predictor
from tests import panels
from tests.graphs import signer, small


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    candidate = panels.candidate()
    folder = bundle.write(
        tmp_path_factory.mktemp("bundles"),
        panels.graph(),
        to_onnx.weights(candidate),
        to_onnx.about(candidate),
        signer(),
    )
    return Predictor(bundle.read(folder, (signer().public,)))


def test_a_bundle_and_the_trained_model_forecast_the_same(predictor: Predictor) -> None:
    panel = panels.panel(5, seed=4)
    with panels.quickly():
        expected = to_onnx.forecaster(panels.candidate())(panel)
    predicted = predictor(panel)
    np.testing.assert_allclose(predicted.quantiles, expected.quantiles, rtol=1e-4)
    assert predicted.quantiles.dtype == np.float32
    for name in ("depot_ids", "cutoff", "target_dates", "levels"):
        assert getattr(predicted, name) == getattr(expected, name)
    assert predicted.levels == (0.1, 0.5, 0.9)
    assert (np.diff(predicted.quantiles, axis=-1) >= 0).all()
    np.testing.assert_array_equal(predicted.open, panel.open[:, -3:])


def test_ranges_of_new_depots_are_widened_in_any_chunk(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panels.panel(5, seed=4)
    demand, open_, new = panel.demand.copy(), panel.open.copy(), [1, 3]
    demand[new, :-2], open_[new, : panel.history - 2], open_[3, -1] = np.nan, False, False
    panel = replace(panel, demand=demand, open=open_)
    with panels.quickly():
        expected = to_onnx.forecaster(panels.candidate())(panel).quantiles
    predicted = predictor(panel).quantiles
    np.testing.assert_allclose(predicted, expected, rtol=1e-4)
    graphs = predictor.quantiles(panel.window(predictor.bundle.lookback), panel.depot_ids, panel.cutoff)
    assert predicted[[0, 2, 4]].tobytes() == graphs[[0, 2, 4]].tobytes()
    np.testing.assert_allclose(predicted[new, :, 1], graphs[new, :, 1], rtol=1e-6)
    assert not predicted[3, -1].any()  # closed
    assert (predicted[new, :2, 2] > graphs[new, :2, 2]).all()
    assert (predicted[new, :2, 0] < graphs[new, :2, 0]).all()
    monkeypatch.setattr(predict, "CHUNK", 2)
    np.testing.assert_allclose(predictor(panel).quantiles, predicted, rtol=1e-6)


def test_forecasts_in_chunks_and_at_once_are_the_same(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panels.panel(7)
    at_once = predictor(panel).quantiles
    for size in (1, 3, 7):
        monkeypatch.setattr(predict, "CHUNK", size)
        np.testing.assert_allclose(predictor(panel).quantiles, at_once, rtol=1e-6)


def test_parallel_pieces_are_returned_in_order(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panels.panel(7)
    at_once = predictor(panel).quantiles
    monkeypatch.setattr(predict, "MIN_PIECE", 1)
    monkeypatch.setattr(predict, "MAX_PIECE", 2)
    for threads in (1, 2, 5):
        predicted = Predictor(predictor.bundle, threads=threads)(panel).quantiles
        np.testing.assert_allclose(predicted, at_once, rtol=1e-6)


def test_a_panel_made_for_another_pipeline_is_rejected(predictor: Predictor) -> None:
    fitting = panels.panel()
    words = fitting.encoding
    turned = {name: words.statics[name] for name in reversed(words.statics)}
    others: dict[str, Panel] = {
        "its known-future covariates are promo, found weather": replace(
            fitting, encoding=Encoding(("weather",), words.statics)
        ),
        "its words of 'city' are Bonn, Ulm, found Aix, Ulm": replace(
            fitting, encoding=Encoding(words.covariates, {**words.statics, "city": ("Aix", "Ulm")})
        ),
        "its static columns are size, city, found city, size": replace(
            fitting, encoding=Encoding(words.covariates, turned)
        ),
        "its features of the calendar are weekend, .*, found weekday, ": replace(
            fitting, calendar_names=("weekday", *panels.CALENDAR[1:])
        ),
        "it forecasts 3 days, the pipeline file wants 2": panels.panel(horizon=2),
    }
    for difference, panel in others.items():
        with pytest.raises(BundleError, match=rf"bundle [0-9a-f]{{16}} was made for another .*: {difference}"):
            predictor(panel)


def bundle_of(operation: str) -> bundle.Bundle:
    words = Encoding((), {})
    manifest = {"encoding": words.to_json(), "calendar": [], "horizon": 3, "levels": [0.5], "lookback": 3}
    return bundle.Bundle("f" * 64, small(operation), manifest)


def test_unused_inputs_of_a_graph_are_omitted() -> None:
    predicted = Predictor(bundle_of("Abs"))(panels.bare([[1, 2, 3], [4, 5, 6]], horizon=3))
    np.testing.assert_array_equal(predicted.quantiles[..., 0], [[1, 2, 3], [4, 5, 6]])


def test_a_forecast_that_is_not_a_number_is_rejected_with_its_depot() -> None:
    with pytest.raises(BundleError, match=r"bundle f{16}: the forecast of depot 'D1' is not a number"):
        Predictor(bundle_of("Abs"))(panels.bare([[1, 2, 3], [4, np.nan, 6]], horizon=3))


def test_invalid_model_bytes_are_rejected() -> None:
    with pytest.raises(BundleError, match=r"bundle f{16}: onnxruntime refuses the model"):
        Predictor(bundle.Bundle("f" * 64, b"not onnx", {}))


def test_invalid_inputs_are_rejected_with_depot_day_and_bundle(predictor: Predictor) -> None:
    panel = panels.panel()
    demand, statics = np.array(panel.demand), np.array(panel.statics)
    demand[1, -1], statics[2, 1] = -5, -1
    with pytest.raises(InputError, match=r"bundle [0-9a-f]{16}: input 'demand' of depot 'D1' on 2024-04-29 is -5"):
        predictor(replace(panel, demand=demand))
    with pytest.raises(InputError, match=r"depot 'D2', .* 'city' has the code -1"):
        predictor(replace(panel, statics=statics))


def test_serving_imports_no_training_or_orchestration_packages() -> None:
    code = (
        "import sys, forecaster.serving.predict, forecaster.publishing.publish\n"
        "print(sorted({'jax', 'flax', 'optax', 'onnx', 'prefect', 'mlflow'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=500, check=False
    )
    assert (process.stdout.strip(), process.returncode) == ("[]", 0), process.stderr
