"""The gate objects with its numbers, and to what is not a number."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from forecaster.config import Gate
from forecaster.core.forecast import Scores, Verdict
from forecaster.evaluation.gate import judge
from forecaster.evaluation.metrics import measure
from tests.panels import NAN, fold, scale

GOOD = {"wape": 0.10, "mase": 0.5, "coverage": 0.80, "bias": 0.0}


def scores(model: str, **metrics: float) -> Scores:
    return Scores(model, (), {**GOOD, **metrics}, scale([]))


def verdict(gate: Gate | None = None, rivals: dict[str, float] | None = None, **metrics: float) -> Verdict:
    wape_by_rival = {"seasonal_naive": 0.2, "champion": 0.11} if rivals is None else rivals
    rival_scores = {name: scores(name, wape=value) for name, value in ({"seasonal_naive": 0.2} | wape_by_rival).items()}
    return judge(scores("candidate", **metrics), rival_scores, gate or Gate())


def test_a_good_candidate_is_admitted() -> None:
    judged = verdict()
    assert judged.admitted
    assert judged.objections == ()
    assert judged.sentence() == "admitted"
    assert {model: metrics["wape"] for model, metrics in judged.compared.items()} == {
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
        ({"bias": 0.04}, "bias (forecast minus actual) is +0.0400 of demand, wanted -0.03 to 0.03"),
        ({"bias": -0.04}, "bias (forecast minus actual) is -0.0400 of demand, wanted -0.03 to 0.03"),
    ],
)
def test_each_objection_names_its_numbers(metrics: dict[str, float], objection: str) -> None:
    judged = verdict(**metrics)
    assert not judged.admitted
    assert judged.objections == (objection,)
    assert judged.sentence() == f"not admitted: {objection}"


def test_all_objections_are_told_at_once() -> None:
    judged = verdict(wape=0.3, coverage=0.1, bias=1.0)
    assert len(judged.objections) == 4  # naive, champion, coverage, bias


@pytest.mark.parametrize("metric", ["wape", "coverage", "bias"])
def test_what_is_not_a_number_objects(metric: str) -> None:
    judged = verdict(**{metric: NAN})
    assert not judged.admitted
    assert all("nan" in objection for objection in judged.objections)


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


def test_a_rival_that_was_not_compared_objects() -> None:
    assert verdict(Gate(beat=("lightgbm",))).objections == (
        "lightgbm, which is to be beaten, was not compared: is it in backtest.baselines, and installed?",
    )


def test_the_gate_looks_at_its_own_metric_and_rivals() -> None:
    assert verdict(Gate(metric="mase"), wape=9.0).admitted
    assert verdict(Gate(beat=("seasonal_naive",)), rivals={"seasonal_naive": 0.2, "champion": 0.01}).admitted


def test_the_bounds_themselves_are_allowed() -> None:
    assert verdict(coverage=0.74, bias=0.03).admitted
    assert verdict(coverage=0.86, bias=-0.03).admitted


# --- day by day -------------------------------------------------------------------------------------------------------

DAYS, DEPOTS = 28, 6


def scores_of(model: str, median: Any) -> Scores:
    """Medians (depots, days) against actuals that are 100 for the first depot and 10 for the others, in four folds."""
    medians = np.broadcast_to(np.asarray(median, float), (DEPOTS, DAYS))
    actual = np.broadcast_to(np.array([100.0, *[10.0] * (DEPOTS - 1)])[:, None], (DEPOTS, DAYS))
    folds = tuple(
        fold(
            np.stack([0.5 * medians, medians, 2 * medians], axis=-1)[:, week : week + 7],
            actual[:, week : week + 7],
            cutoff=date(2026, 1, 1) + timedelta(days=week),
        )
        for week in range(0, DAYS, 7)
    )
    size = scale(np.ones(DEPOTS))
    return Scores(model, folds, {**measure(folds, size), "coverage": 0.8, "bias": 0.0}, size)


def off_by(by: Any) -> Any:
    """Medians that are off by a share of the actual; (depots, days) or anything that spreads to it."""
    actual = np.array([100.0, *[10.0] * (DEPOTS - 1)])[:, None]
    return actual * (1 + np.broadcast_to(np.asarray(by, float), (DEPOTS, DAYS)))


def against(champion: Scores, candidate: Scores, **gate: Any) -> tuple[str, ...]:
    return judge(candidate, {"champion": champion}, Gate(beat=("champion",), **gate)).objections


def test_what_chance_explains_does_not_keep_a_candidate_from_going_out() -> None:
    random = np.random.default_rng(0)
    champion = scores_of("champion", off_by(0.1))
    # On each day better or worse by a twentieth of a percent, and a hundredth worse on the whole.
    slightly = scores_of("candidate", off_by(0.1 + 0.0005 * random.choice([-1, 1], DAYS) + 0.00005))
    assert slightly.metrics["wape"] > champion.metrics["wape"] * (1 + 1e-4)
    assert against(champion, slightly) == ()
    (objection,) = against(champion, slightly, max_loss=0)
    assert "the candidate is 0." in objection
    assert objection.endswith("over 28 days), wanted surely no worse than 0%")


def test_a_candidate_that_is_worse_by_more_than_chance_stays() -> None:
    (objection,) = against(scores_of("champion", off_by(0.1)), scores_of("candidate", off_by(0.104)))
    assert objection == (
        "wape is 0.1040, wanted at most 0.1000 to beat champion (0.1000); the candidate is 4.0 % worse than champion "
        "in wape, more than chance (+4.0 % to +4.0 % over 28 days), wanted surely no worse than 2%"
    )


def test_a_large_depot_has_a_veto_and_a_small_one_has_none() -> None:
    champion = scores_of("champion", off_by(0.1))
    by = np.full((DEPOTS, 1), 0.05)
    by[0] = 0.13
    worse_at_the_largest = scores_of("candidate", off_by(by))
    vetoes = [objection for objection in against(champion, worse_at_the_largest) if "largest" in objection]
    assert vetoes == [
        "at D0, one of the largest, the candidate is 30.0 % worse than the champion in wape, more than chance "
        "(+30.0 % to +30.0 % over 28 days), wanted at most 25% worse"
    ]
    assert not [
        objection for objection in against(champion, worse_at_the_largest, worst_depot=0.31) if "largest" in objection
    ]
    by[:] = 0.05
    by[1] = 0.5
    assert against(champion, scores_of("candidate", off_by(by))) == ()


def test_a_forecast_that_is_no_number_is_named() -> None:
    median = off_by(0.05).copy()
    median[2, 9] = NAN
    objections = against(scores_of("champion", off_by(0.1)), scores_of("candidate", median))
    assert objections[0] == "1 forecasts of the fold after 2026-01-08 are not numbers, as of D2 on 2026-01-11"
