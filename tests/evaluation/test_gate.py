"""The gate's objections contain their numbers, and numbers that are not finite are objections."""

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
def test_each_objection_contains_its_numbers(metrics: dict[str, float], objection: str) -> None:
    judged = verdict(**metrics)
    assert not judged.admitted
    assert judged.objections == (objection,)
    assert judged.sentence() == f"not admitted: {objection}"


def test_all_objections_are_reported_at_once() -> None:
    judged = verdict(wape=0.3, coverage=0.1, bias=1.0)
    assert len(judged.objections) == 4  # naive, champion, coverage, bias


@pytest.mark.parametrize("metric", ["wape", "coverage", "bias"])
def test_a_metric_that_is_not_a_number_is_an_objection(metric: str) -> None:
    judged = verdict(**{metric: NAN})
    assert not judged.admitted
    assert all("is not a number" in objection for objection in judged.objections)


def test_a_rival_that_is_not_a_number_is_an_objection() -> None:
    assert verdict(rivals={"champion": NAN}).objections == (
        "wape of champion is not a number, so that nothing can be compared with champion",
    )


def test_an_equal_of_the_champion_passes_only_without_a_margin() -> None:
    assert verdict(rivals={"champion": 0.10}).admitted
    assert verdict(rivals={"champion": 0.10 - 5e-6}).admitted  # the same model again, up to rounding
    assert not verdict(rivals={"champion": 0.10 - 5e-5}).admitted
    (objection,) = verdict(Gate(margin=0.05), rivals={"champion": 0.10}).objections
    assert objection == "wape is 0.1000, wanted at most 0.0950 to beat champion (0.1000)"
    assert verdict(Gate(margin=0.05), rivals={"champion": 0.11}).admitted


def test_without_a_champion_there_is_one_rival_less() -> None:
    assert verdict(rivals={"seasonal_naive": 0.2}).admitted
    assert not verdict(rivals={"seasonal_naive": 0.05}).admitted


def test_a_rival_that_was_not_compared_is_an_objection() -> None:
    assert verdict(Gate(beat=("lightgbm",))).objections == (
        "lightgbm, a required baseline, was not compared: is it declared, and installed?",
    )


def test_the_gate_uses_its_declared_metric_and_rivals() -> None:
    assert verdict(Gate(metric="mase"), wape=9.0).admitted
    assert verdict(Gate(beat=("seasonal_naive",)), rivals={"seasonal_naive": 0.2, "champion": 0.01}).admitted


def test_the_bounds_themselves_are_allowed() -> None:
    assert verdict(coverage=0.74, bias=0.03).admitted
    assert verdict(coverage=0.86, bias=-0.03).admitted


# --- day by day -------------------------------------------------------------------------------------------------------

DAYS, DEPOTS = 28, 6


def scores_of(model: str, median: Any) -> Scores:
    """Medians (depots, days) with actuals of 100 for the first depot and 10 for the others, in four
    folds."""
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
    """Medians with an error that is a share of the actual; (depots, days) or anything that
    broadcasts to it."""
    actual = np.array([100.0, *[10.0] * (DEPOTS - 1)])[:, None]
    return actual * (1 + np.broadcast_to(np.asarray(by, float), (DEPOTS, DAYS)))


def against(champion: Scores, candidate: Scores, **gate: Any) -> tuple[str, ...]:
    return judge(candidate, {"champion": champion}, Gate(beat=("champion",), **gate)).objections


def test_a_difference_due_to_chance_does_not_block_a_candidate() -> None:
    random = np.random.default_rng(0)
    champion = scores_of("champion", off_by(0.1))
    # Each day is better or worse by a twentieth of a percent, and the whole a hundredth worse.
    slightly = scores_of("candidate", off_by(0.1 + 0.0005 * random.choice([-1, 1], DAYS) + 0.00005))
    assert slightly.metrics["wape"] > champion.metrics["wape"] * (1 + 1e-4)
    assert against(champion, slightly) == ()
    (objection,) = against(champion, slightly, max_loss=0)
    assert "the candidate is 0." in objection
    assert objection.endswith("over 28 days), wanted surely no worse than 0%")


def test_a_significantly_worse_candidate_is_rejected() -> None:
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


def test_a_forecast_that_is_not_a_number_is_named() -> None:
    median = off_by(0.05).copy()
    median[2, 9] = NAN
    objections = against(scores_of("champion", off_by(0.1)), scores_of("candidate", median))
    assert objections[0] == "not numbers: 1 forecast of the fold after 2026-01-08, the first of D2 on 2026-01-11"


# --- few days ---------------------------------------------------------------------------------------------------------


def covering(covered: Any, bias: float = 0.0) -> tuple[str, ...]:
    """Return the objections to a candidate whose 80 % interval covers the actuals of the days in
    `covered` (depots, days)."""
    inside = np.atleast_2d(np.asarray(covered, bool))
    median = np.full(inside.shape, 100 * (1 + bias))
    actual = np.where(inside, 100.0, np.where(np.arange(inside.shape[1]) % 2, 80.0, 120.0))
    folds = (fold(np.stack([median - 10, median, median + 10], axis=-1), actual, cutoff=date(2026, 1, 1)),)
    size = scale(np.ones(len(inside)))
    candidate = Scores("candidate", folds, measure(folds, size), size)
    objections = judge(candidate, {"seasonal_naive": scores("seasonal_naive", wape=9.0)}, Gate()).objections
    return tuple(objection for objection in objections if "covers" in objection)


def spread(covered: int, days: int = 30) -> Any:
    """Return a mask with a given number of covered days, evenly spread."""
    day = np.arange(days)
    return (day + 1) * covered // days > day * covered // days


def test_one_depot_with_thirty_days_passes_unless_its_coverage_is_significantly_off() -> None:
    # A model with coverage 0.8 covers 18 to 29 of 30 days in 99 of 100 backtests; 23 to 25 lie
    # within 0.74 to 0.86.
    assert [covered for covered in range(31) if not covering(spread(covered))] == [*range(18, 30)]
    assert covering(spread(30)) == (
        "the 80 % interval covers 1.000, wanted 0.74 to 0.86, which is more than chance over 30 days",
    )


def test_a_badly_calibrated_large_fleet_is_rejected() -> None:
    random = np.random.default_rng(0)
    for share, admitted in ((0.6, False), (0.7, False), (0.8, True), (0.9, False), (1.0, False)):
        assert (covering(random.random((100, 30)) < share) == ()) == admitted, share


def test_depots_with_common_errors_count_as_days() -> None:
    random = np.random.default_rng(0)
    days = random.random(30) < 0.68
    assert covering(np.tile(days, (100, 1))) == covering(days) == ()


def test_consecutive_misses_count_less_than_separate_ones() -> None:
    apart, together = np.arange(60) % 5 < 3, np.arange(60) < 36
    assert apart.sum() == together.sum()
    assert covering(apart)
    assert covering(together) == ()


def biased(by: Any) -> tuple[str, ...]:
    """Return the objections to a bias of one depot with actuals of 100 whose medians have an error
    of a given share per day."""
    median = 100 * (1 + np.atleast_2d(np.asarray(by, float)))
    folds = (fold(np.stack([median - 50, median, median + 50], axis=-1), np.full(median.shape, 100.0)),)
    size = scale(np.ones(len(median)))
    candidate = Scores("candidate", folds, {**measure(folds, size), "coverage": 0.8}, size)
    return judge(candidate, {"seasonal_naive": scores("seasonal_naive", wape=9.0)}, Gate()).objections


def test_a_significant_bias_of_either_sign_is_an_objection() -> None:
    noise = np.where(np.arange(30) % 2, 0.2, -0.2) * np.repeat([1, -1, 1], 10)
    for sign in (1, -1):
        assert biased(sign * (0.04 + np.random.default_rng(1).permutation(noise))) == ()
        (objection,) = biased(sign * (0.04 + 0.01 * noise))
        assert objection == (
            f"bias (forecast minus actual) is {sign * 0.04:+.4f} of demand, wanted -0.03 to 0.03, "
            "which is more than chance over 30 days"
        )


def test_days_without_demand_are_reported_in_one_sentence() -> None:
    zeros = np.zeros((2, 5))
    folds = (fold(np.zeros((2, 5, 3)), zeros),)
    candidate = Scores("candidate", folds, measure(folds, scale([NAN, NAN])), scale([NAN, NAN]))
    judged = judge(candidate, {"seasonal_naive": candidate, "champion": candidate}, Gate())
    assert judged.objections == ("no demand on the held-out days (5 days): nothing can be compared",)
    unknown = (fold(np.zeros((2, 5, 3)), zeros * NAN),)
    candidate = Scores("candidate", unknown, measure(unknown, scale([NAN, NAN])), scale([NAN, NAN]))
    assert judge(candidate, {"seasonal_naive": candidate}, Gate()).objections == (
        "no count is known of the held-out days: nothing can be compared",
    )


# --- the model that is published if the candidate is rejected
# ---------------------------------------------------------

WAVE = np.where(np.arange(DAYS) % 2, 1.0, -1.0)  # no bias over two days


def measured(model: str, by: Any, sample: tuple[str, ...] | None = None) -> Scores:
    """Return scores of medians with an error that is a share of the actual, with their own bias and
    coverage."""
    scores = scores_of(model, off_by(by))
    folds = scores.folds if sample is None else tuple(of_all.among(sample) for of_all in scores.folds)
    size = scale(np.ones(len(folds[0].actuals)))
    return Scores(model, folds, measure(folds, size), size)


def judged_with_prior(by: Any, prior: Any, sample: tuple[str, ...] | None = None, **gate: Any) -> Verdict:
    rivals = {"prior": measured("prior", prior, sample), "seasonal_naive": measured("seasonal_naive", 2.0)}
    return judge(measured("candidate", by), rivals, Gate(**{"coverage": (0.1, 1.0), **gate}), instead="prior")


def test_a_biased_candidate_is_admitted_if_the_prior_is_significantly_worse() -> None:
    judged = judged_with_prior(-0.05, 0.2 * WAVE)
    assert judged.admitted
    bias, caution = judged.objections
    assert bias.startswith("bias (forecast minus actual) is -0.0500 of demand")
    assert caution.startswith("prior would be published instead, and the candidate is 75.0 % better than prior in wape")
    assert judged.sentence() == f"admitted with a caution: {bias}; {caution}"


def test_a_biased_candidate_is_rejected_if_the_prior_is_as_accurate_and_unbiased() -> None:
    assert not judged_with_prior(-0.05, 0.05 * WAVE).admitted


def test_a_biased_candidate_is_admitted_if_the_prior_is_as_biased_and_no_better() -> None:
    judged = judged_with_prior(-0.05, 0.05 + 0.01 * WAVE)
    assert judged.admitted
    assert judged.objections[-1] == (
        "prior would be published instead: its bias is +0.0500 of demand, and its 80 % interval covers 1.000"
    )
    assert not judged_with_prior(-0.05, 0.04).admitted


def test_a_bad_coverage_is_compared_with_the_coverage_of_the_prior() -> None:
    assert judged_with_prior(0.01, 0.01, coverage=(0.1, 0.2)).admitted
    assert not judged_with_prior(0.01, 0.0, coverage=(0.1, 0.2)).admitted


def test_a_candidate_worse_than_the_published_model_is_rejected_within_any_bounds() -> None:
    rivals = {"champion": measured("champion", 0.01 * WAVE), "seasonal_naive": measured("seasonal_naive", 2.0)}
    judged = judge(measured("candidate", 0.05), rivals, Gate(coverage=(0.1, 1.0)), instead="champion")
    assert not judged.admitted
    assert len(judged.objections) == 3  # the metric, the largest depot, the bias


def test_a_candidate_worse_than_a_baseline_is_admitted_if_the_champion_is_worse_still() -> None:
    rivals = {"champion": measured("champion", 0.2 * WAVE), "seasonal_naive": measured("seasonal_naive", 0.01)}
    judged = judge(measured("candidate", 0.02), rivals, Gate(coverage=(0.1, 1.0)), instead="champion")
    assert judged.admitted
    assert "to beat seasonal_naive" in judged.objections[0]


def test_a_sample_of_the_depots_is_enough_to_compare_with_the_prior() -> None:
    """As in a large fleet, where the prior is scored on a sample of its depots."""
    assert judged_with_prior(-0.05, 0.2 * WAVE, sample=("D4", "D0")).admitted
