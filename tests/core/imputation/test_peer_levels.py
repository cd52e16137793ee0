"""Levels from attributes, compared with a slow leave-one-out ridge regression."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.core.imputation.peer_levels import PENALTIES, typical_levels


def test_without_attributes_it_is_the_mean_and_the_leave_one_out_variance() -> None:
    levels = typical_levels(np.array([1.0, 2.0, 6.0, np.nan]), np.arange(3), ())
    np.testing.assert_allclose(levels.level, 3)
    assert levels.variance == pytest.approx((3**2 + 1.5**2 + 4.5**2) / 3)


def test_a_single_peer_gives_a_variance_of_one() -> None:
    levels = typical_levels(np.array([np.nan, 2.0]), np.array([1]), (("a", "b"),))
    assert levels.level.tolist() == [2, 2]
    assert levels.variance == 1


def test_labels_of_one_peer_unknown_labels_and_none_have_no_effect() -> None:
    log = np.array([1.0, 1.2, 3.0, 3.2, 9.0, np.nan, np.nan, np.nan])
    words = ("a", "a", "b", "b", "alone", "alone", "never seen", "")
    levels = typical_levels(log, np.arange(5), (words,))
    assert len(set(levels.level[5:].round(12))) == 1


def test_uninformative_attributes_have_little_effect() -> None:
    random = np.random.default_rng(0)
    log = random.normal(5, 1, 200)
    levels = typical_levels(log, np.arange(200), (tuple(random.choice(["a", "b", "c"], 200)),))
    np.testing.assert_allclose(levels.level, log.mean(), atol=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_levels_match_a_slow_ridge_regression(seed: int) -> None:
    random = np.random.default_rng(seed)
    depots, peers = 40, np.sort(random.choice(40, 30, replace=False))
    words = [tuple(random.choice(["a", "b", "c", ""], depots)), tuple(random.choice(list("defghijklmno"), depots))]
    log = random.normal(3, 0.3, depots) + np.array([{"a": 2, "b": 0}.get(word, 1) for word in words[0]])
    labels = [(column, word) for column in words for word in sorted({column[p] for p in peers}) if word]
    labels = [(column, word) for column, word in labels if 2 <= sum(column[p] == word for p in peers) < len(peers)]
    table = np.array([[column[d] == word for column, word in labels] for d in range(depots)], float)

    def predicted(rows: list[int], center: np.ndarray, penalty: float) -> np.ndarray:
        """Predict all depots, with an unpenalized intercept and penalized effects."""
        design = np.column_stack([np.ones(depots), table - center])
        cost = np.diag([0.0, *[min(penalty, 1e12)] * len(labels)])
        chosen = design[rows]
        weights: np.ndarray = np.linalg.solve(chosen.T @ chosen + cost, chosen.T @ log[rows])
        return design @ weights

    center, errors = table[peers].mean(axis=0), {}
    for penalty in PENALTIES:
        missed = [log[p] - predicted([q for q in peers if q != p], center, penalty)[p] for p in peers]
        errors[penalty] = np.mean(np.square(missed))
    best = min(errors, key=lambda penalty: errors[penalty])
    levels = typical_levels(log, peers, words)
    assert levels.variance == pytest.approx(errors[best], rel=1e-6)
    np.testing.assert_allclose(levels.level, predicted(list(peers), center, best), rtol=1e-6)
