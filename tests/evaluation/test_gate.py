"""The gate objects with its numbers, and to what is not a number."""

from __future__ import annotations

import pytest

from forecaster.evaluation.gate import judge
from forecaster.spec import Gate
from forecaster.values import Scores, Verdict
from tests.panels import NAN

GOOD = {"wape": 0.10, "mase": 0.5, "coverage": 0.80, "bias": 0.0}


def scores(model: str, **metrics: float) -> Scores:
    return Scores(model, (), {**GOOD, **metrics})


def verdict(gate: Gate | None = None, rivals: dict[str, float] | None = None, **metrics: float) -> Verdict:
    found = {"seasonal_naive": 0.2, "champion": 0.11} if rivals is None else rivals
    others = {name: scores(name, wape=value) for name, value in found.items()}
    return judge(scores("candidate", **metrics), others, gate or Gate())


def test_a_good_candidate_is_admitted() -> None:
    found = verdict()
    assert found.admitted
    assert found.objections == ()
    assert found.sentence() == "admitted"
    assert {model: metrics["wape"] for model, metrics in found.compared.items()} == {
        "candidate": 0.10,
        "seasonal_naive": 0.2,
        "champion": 0.11,
    }


@pytest.mark.parametrize(
    ("metrics", "objection"),
    [
        ({"wape": 0.12}, "wape is 0.1200, wanted at most 0.1100 to beat champion (0.1100)"),
        ({"coverage": 0.7}, "the 80 % interval covers 0.700, wanted 0.74 to 0.86"),
        ({"coverage": 0.9}, "the 80 % interval covers 0.900, wanted 0.74 to 0.86"),
        ({"bias": 0.04}, "bias (forecast minus actual) is +0.0400 of demand, wanted at most 0.03"),
        ({"bias": -0.04}, "bias (forecast minus actual) is -0.0400 of demand, wanted at most 0.03"),
    ],
)
def test_each_objection_names_its_numbers(metrics: dict[str, float], objection: str) -> None:
    found = verdict(**metrics)
    assert not found.admitted
    assert found.objections == (objection,)
    assert found.sentence() == f"not admitted: {objection}"


def test_all_objections_are_told_at_once() -> None:
    found = verdict(wape=0.3, coverage=0.1, bias=1.0)
    assert len(found.objections) == 4  # naive, champion, coverage, bias


@pytest.mark.parametrize("metric", ["wape", "coverage", "bias"])
def test_what_is_not_a_number_objects(metric: str) -> None:
    found = verdict(**{metric: NAN})
    assert not found.admitted
    assert all("nan" in objection for objection in found.objections)


def test_a_rival_that_is_not_a_number_objects() -> None:
    assert verdict(rivals={"champion": NAN}).objections == (
        "wape is 0.1000, wanted at most nan to beat champion (nan)",
    )


def test_a_champions_equal_passes_without_a_margin_and_not_with_one() -> None:
    assert verdict(rivals={"champion": 0.10}).admitted
    assert verdict(rivals={"champion": 0.10 - 5e-6}).admitted  # the same model again, but for rounding
    assert not verdict(rivals={"champion": 0.10 - 5e-5}).admitted
    (objection,) = verdict(Gate(margin=0.05), rivals={"champion": 0.10}).objections
    assert objection == "wape is 0.1000, wanted at most 0.0950 to beat champion (0.1000)"
    assert verdict(Gate(margin=0.05), rivals={"champion": 0.11}).admitted


def test_without_a_champion_there_is_one_rival_less() -> None:
    assert verdict(rivals={"seasonal_naive": 0.2}).admitted
    assert not verdict(rivals={"seasonal_naive": 0.05}).admitted


def test_the_gate_looks_at_its_own_metric_and_rivals() -> None:
    assert verdict(Gate(metric="mase"), wape=9.0).admitted
    assert verdict(Gate(beat=("seasonal_naive",)), rivals={"seasonal_naive": 0.2, "champion": 0.01}).admitted


def test_the_bounds_themselves_are_allowed() -> None:
    assert verdict(coverage=0.74, bias=0.03).admitted
    assert verdict(coverage=0.86, bias=-0.03).admitted
