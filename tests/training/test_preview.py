"""The prior is published instead of the seasonal naive if and only if it is better."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forecaster.core.forecast import Scores
from forecaster.model.export import to_onnx
from forecaster.training import preview
from tests import panels

NAN = float("nan")


def scores(prior: float, naive: float) -> dict[str, Any]:
    of = {preview.PRIOR: prior, preview.NAIVE: naive}
    return {name: SimpleNamespace(metrics={"wape": value}) for name, value in of.items()}


@pytest.mark.parametrize(
    ("prior", "naive", "better"),
    [(0.1, 0.2, True), (0.2, 0.1, False), (0.1, 0.1, False), (NAN, 0.1, False), (0.1, NAN, False)],
)
def test_it_is_better_only_if_both_errors_are_known_and_its_own_is_smaller(
    prior: float, naive: float, better: bool
) -> None:
    judged = scores(prior, naive)
    assert preview.is_better(judged, "wape") is better
    out: Any = object() if better else None
    sentence = preview.Preview(judged, out).sentence("wape")
    assert sentence.endswith("the prior forecasts" if better else "the seasonal naive forecasts")


def test_a_candidate_in_numpy_matches_jax() -> None:
    candidate, panel = panels.candidate(), panels.panel(5)
    with panels.quickly():
        compiled = to_onnx.forecaster(candidate)(panel)
    plain = preview.in_numpy(candidate)(panel)
    np.testing.assert_allclose(plain.quantiles, compiled.quantiles, rtol=1e-4, atol=1e-4)
    assert (plain.depot_ids, plain.target_dates, plain.levels) == (
        compiled.depot_ids,
        compiled.target_dates,
        compiled.levels,
    )


def test_a_large_fleet_is_judged_on_evenly_spaced_depots() -> None:
    ids = tuple(map(str, range(1000)))
    assert preview._some_of(ids, 3) == ("0", "499", "999")
    assert preview._some_of(ids[:2], 3) == ids[:2]


def test_it_is_calibrated_on_known_days_and_compared_with_the_naive() -> None:
    panel = panels.panel(3)
    spec = panels.spec().model_copy(
        update={"model": panels.spec().model.model_copy(update={"layers": 2, "hidden": 32})}
    )
    candidate, judged = preview.judged(panel, spec, most_depots=2)
    assert set(judged) == {preview.PRIOR, preview.NAIVE}
    assert all(isinstance(of_model, Scores) for of_model in judged.values())
    assert {len(fold.forecast.depot_ids) for of_model in judged.values() for fold in of_model.folds} == {2}
    assert [fold.forecast.cutoff for fold in judged["prior"].folds] == [
        fold.forecast.cutoff for fold in judged[preview.NAIVE].folds
    ]
    assert candidate.summary["epochs"] == 0
    assert np.isfinite(candidate.parameters["calibration"]).all()
    assert not (np.asarray(candidate.parameters["calibration"]) == 1).all()
