"""The imputed past of new depots, calculated by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forecaster.core.imputation import cold_start
from forecaster.core.imputation.peer_levels import typical_levels

NAN = float("nan")
WEEK = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])  # mean 4


def counts(*rows: Any) -> tuple[np.ndarray, np.ndarray]:
    demand = np.array(rows, np.float32)
    return demand, np.ones_like(demand, bool)


def weeks(factor: float, number: int = 6) -> np.ndarray:
    return np.tile(factor * WEEK, number)


def test_fewer_than_28_known_open_days_are_a_cold_start() -> None:
    demand, open_ = counts(*(np.where(np.arange(40) < number, 1.0, NAN) for number in (27, 28, 29)))
    assert cold_start.cold_depots(demand, open_).tolist() == [True, False, False]
    open_[2, :2] = False
    assert cold_start.cold_depots(demand, open_).tolist() == [True, False, True]


def test_a_depot_without_any_count_gets_the_median_of_its_peers_at_their_mean_level() -> None:
    odd = weeks(4)
    odd[3] = 1600  # levels are those of the last 28 days: 4, 8 and 16
    demand, open_ = counts(weeks(1), weeks(2), odd, [NAN] * 42)
    mean = (5 * 9 * 17) ** (1 / 3) - 1  # of their logs, one added
    np.testing.assert_allclose(cold_start.guess(demand, open_).past, [weeks(mean / 4)], rtol=1e-6)


def test_attributes_determine_the_level_of_a_depot_without_any_count() -> None:
    rows = [weeks(factor) for factor in (1.0, 1.1, 0.9, 10.0, 11.0, 9.0)]
    demand, open_ = counts(*rows, [NAN] * 42, [NAN] * 42, [NAN] * 42)
    kinds = (*["shop"] * 3, *["hub"] * 3, "hub", "shop", "")
    plain, by_kind = cold_start.guess(demand, open_), cold_start.guess(demand, open_, {"kind": kinds})
    hub, shop, unknown = by_kind.past[:, 0]  # a day with a quarter of the level
    assert 8 < hub < 10.5
    assert 0.9 < shop < 1.2
    assert shop < unknown < hub
    assert (by_kind.doubt < 0.3 * plain.doubt).all()


def test_the_first_own_day_determines_the_level_if_peers_are_steady() -> None:
    demand, open_ = counts(weeks(1), weeks(1), [NAN] * 42, [NAN] * 42)
    for row, days in ((2, 3), (3, 1)):
        demand[row, 42 - days :] = 10 * WEEK[7 - days :]  # ten times its peers
    _, past, doubt = cold_start.guess(demand, open_)
    for row, days in ((0, 3), (1, 1)):
        np.testing.assert_allclose(past[row, : 42 - days], weeks(10)[: 42 - days], rtol=5e-3)
        assert np.isnan(past[row, 42 - days :]).all()
    assert (doubt < 1e-3).all()


def test_an_own_level_is_weighted_by_variances_of_days_and_of_peers() -> None:
    """Peers at e³ and e⁵ (minus one) whose days alternate between e⁰·⁵ above and below: σ² = 0.25,
    τ² = 4."""
    swing = np.tile([0.5, -0.5], 21)
    low, high = np.expm1(3 + swing), np.expm1(5 - swing)
    demand, open_ = counts(low, high, [NAN] * 42, [NAN] * 42)
    demand[3, 41] = np.expm1(6.0)
    is_known = np.isfinite(demand)
    level = cold_start._level(demand, is_known)
    shape = cold_start._profile(demand[:2] / level[:2, None], is_known[:2], open_[:2])
    of_day = np.mean((np.log1p(demand[:2, -28:]) - np.log1p(level[:2, None] * shape[-28:])) ** 2)
    of_level = np.diff(np.log1p(level[:2])).item() ** 2  # each as predicted by the other
    trust = 1 / (1 + of_day / of_level)
    assert 0.7 < trust < 0.95
    _, past, doubt = cold_start.guess(demand, open_)
    np.testing.assert_allclose(doubt, np.sqrt(of_level * np.array([1, 1 - trust])))
    own_level, typical = np.log1p(demand[3, 41] / shape[41]), np.log1p(level[:2]).mean()
    mixed = np.expm1(trust * own_level + (1 - trust) * typical)
    np.testing.assert_allclose(past[1, 35], mixed * shape[35], rtol=1e-5)  # a day without an own weekday effect


def test_an_own_level_counts_even_if_peers_are_alike() -> None:
    noisy = np.tile([2.0, 9.0], 21)
    demand, open_ = counts(noisy, noisy[::-1], [NAN] * 42)
    demand[2, 41] = 500
    past = cold_start.guess(demand, open_).past
    typical, shape = 5.5, 1.0
    np.testing.assert_allclose(past[0, 0], np.expm1((np.log1p(500) + np.log1p(typical)) / 2) * shape, rtol=1e-5)


def test_own_weekdays_count_if_weekdays_differ_among_peers() -> None:
    early, late = WEEK[::-1] + 3, WEEK + 3  # whose profile is flat
    demand, open_ = counts(np.tile(early, 6), np.tile(late, 6), [NAN] * 42)
    demand[2, 28:] = np.tile(5 * late, 2)
    past = cold_start.guess(demand, open_).past
    np.testing.assert_allclose(past[0, :28], np.tile(5 * late, 4), rtol=1e-3)


def test_quantiles_are_widened_by_the_doubt_of_a_level() -> None:
    quantiles = np.expm1(np.array([[[3.7, 4.0, 4.4]], [[3.7, 4.0, 4.4]], [[0, 0, 0]]], np.float32))
    wide = cold_start.widened_quantiles(quantiles, (0.1, 0.5, 0.9), np.array([0.0, 0.5, 0.5]))
    np.testing.assert_array_equal(wide[[0, 2]], quantiles[[0, 2]])
    reach = 1.2815516 * 0.5
    expected = [4 - np.hypot(0.3, reach), 4, 4 + np.hypot(0.4, reach)]
    np.testing.assert_allclose(np.log1p(wide[1, 0]), expected, rtol=1e-5)


def test_the_second_and_third_month_of_a_depot_still_have_a_guessed_past() -> None:
    young, old = weeks(3, 14), weeks(3, 14)
    young[:50] = old[:14] = NAN
    demand, open_ = counts(weeks(1, 14), weeks(1, 14), weeks(1, 14), old, young)
    guess = cold_start.guess(demand, open_)
    assert guess.rows.tolist() == [False, False, False, False, True]
    assert not cold_start.cold_depots(demand, open_).any()
    np.testing.assert_allclose(guess.past[0, :50], weeks(3, 14)[:50], rtol=1e-2)
    assert np.isnan(guess.past[0, 50:]).all()


def test_only_cold_depots_are_guessed_if_most_depots_are_young() -> None:
    young = [np.concatenate([[NAN] * 40, weeks(2, 9)[:58]]) for _ in range(3)]
    demand, open_ = counts(weeks(1, 14), *young, [NAN] * 80 + [1.0] * 18)
    assert cold_start.guess(demand, open_).rows.tolist() == [False, False, False, False, True]


def test_inactive_depots_do_not_make_the_others_young() -> None:
    """Three closed two months ago, two opened six weeks ago, and one opens tomorrow."""
    asleep = [np.concatenate([weeks(1, 14), [NAN] * 60]) for _ in range(3)]
    opened = np.concatenate([[NAN] * 116, weeks(2, 6)])
    demand, open_ = counts(*asleep, opened, opened, [NAN] * 158)
    guess = cold_start.guess(demand, open_)
    assert guess.rows.tolist() == [False] * 5 + [True]
    np.testing.assert_allclose(guess.past[0, 116:], weeks(2, 6), rtol=1e-6)


def test_gaps_after_the_first_known_day_stay_unknown() -> None:
    demand, open_ = counts(weeks(1), [NAN] * 20 + [5.0] + [NAN] * 21)
    past = cold_start.guess(demand, open_).past
    assert np.isfinite(past[0, :20]).all()
    assert np.isnan(past[0, 20:]).all()


def test_a_city_with_two_peers_has_its_own_profile_and_a_smaller_one_does_not() -> None:
    flat = np.full(42, 4.0)
    demand, open_ = counts(flat, flat, weeks(1), weeks(1), weeks(1), [NAN] * 42, [NAN] * 42, [NAN] * 42)
    cities = ("Ulm", "Ulm", "Bonn", "Rome", "", "Ulm", "Bonn", "")
    past = cold_start.guess(demand, open_, {"city": cities}).past
    np.testing.assert_allclose(past[0], flat)
    np.testing.assert_allclose(past[1], weeks(1))  # the median of two flat and three weekly ones
    np.testing.assert_allclose(past[2], weeks(1))


def test_a_day_with_more_closed_peers_than_counts_stays_unknown() -> None:
    demand, open_ = counts(weeks(1), weeks(1), weeks(1), [NAN] * 42)
    open_[:2, 6::7] = False
    open_[0, 5::7] = False
    past = cold_start.guess(demand, open_).past[0]
    assert np.isnan(past[6::7]).all()
    assert np.isfinite(np.delete(past, np.arange(6, 42, 7))).all()


def test_inactive_empty_and_young_depots_are_not_peers() -> None:
    asleep, young = [1000.0] * 28 + [NAN] * 28, [NAN] * 30 + [9000.0] * 26
    demand, open_ = counts(weeks(1, 8), asleep, np.zeros(56), young, [NAN] * 56)
    np.testing.assert_allclose(cold_start.guess(demand, open_).past[1], weeks(1, 8))


def test_without_peers_nothing_is_guessed() -> None:
    demand, open_ = counts([NAN] * 42, [1.0] * 20 + [NAN] * 22)
    nothing = cold_start.guess(demand, open_)
    assert np.isnan(nothing.past).all()
    assert nothing.doubt.tolist() == [0, 0]
    assert cold_start.guess(*counts(weeks(1))).past.shape == (0, 42)


@pytest.mark.parametrize("seed", range(4))
def test_guess_matches_a_slow_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    demand = np.where(random.random((12, 60)) < 0.3, NAN, random.poisson(20, (12, 60))).astype(np.float32)
    demand[8:, : random.integers(40, 60)] = NAN
    open_ = random.random((12, 67)) < 0.9
    cities = tuple(random.choice(["Ulm", "Bonn", ""], 12))
    guess = cold_start.guess(demand, open_, {"city": cities})
    past, doubt, is_known = iter(guess.past), iter(guess.doubt), np.isfinite(demand) & open_[:, :60]
    level = [np.mean(row[-28:][k[-28:]]) if k[-28:].sum() >= 7 else 0 for row, k in zip(demand, is_known, strict=True)]
    peers = [d for d in range(12) if is_known[d].sum() >= 28 and level[d] > 0]
    for depot in (d for d in range(12) if is_known[d].sum() < 28):
        city_peers = [p for p in peers if cities[p] == cities[depot] != ""]
        city_peers = city_peers if len(city_peers) >= 2 else peers
        shape = np.full(60, NAN)
        for day in range(60):
            ratios = [demand[p, day] / level[p] for p in city_peers if is_known[p, day]]
            if ratios and len(ratios) >= sum(not open_[p, day] for p in city_peers):
                shape[day] = np.median(ratios)
        own_days = [d for d in range(60) if is_known[depot, d] and shape[d] > 0]
        noise = [
            np.log1p(demand[p, d]) - np.log1p(level[p] * shape[d])
            for p in city_peers
            for d in range(32, 60)
            if is_known[p, d] and np.isfinite(shape[d])
        ]
        expected = typical_levels(np.log1p(level), np.array(peers), (cities,))  # tests/core/test_peer_levels.py
        spread = expected.variance
        trust = len(own_days) / (len(own_days) + min(np.mean(np.square(noise)) / spread, 1)) if own_days else 0
        assert next(doubt) == pytest.approx(np.sqrt(spread * (1 - trust)), rel=1e-4)
        scale = sum(demand[depot, d] for d in own_days) / sum(shape[d] for d in own_days) if own_days else 0
        expected_past = np.expm1(trust * np.log1p(scale) + (1 - trust) * expected.level[depot]) * shape
        needed = _weeks_needed_in_a_loop(
            [[_log_miss(demand, is_known, level[p] * shape, p, d) for d in range(32, 60)] for p in city_peers]
        )
        for weekday in range(7):
            missed = [np.log1p(demand[depot, d]) - np.log1p(expected_past[d]) for d in own_days if d % 7 == weekday]
            expected_past[weekday::7] = np.expm1(
                np.log1p(expected_past[weekday::7]) + sum(missed) / (len(missed) + needed)
            )
        first = int(np.argmax(is_known[depot])) if is_known[depot].any() else 60
        expected_past[(np.arange(60) >= first) | np.isfinite(demand[depot])] = NAN
        np.testing.assert_allclose(next(past), expected_past, rtol=1e-5)
    assert next(past, None) is None


def _log_miss(demand: np.ndarray, is_known: np.ndarray, expected: np.ndarray, depot: int, day: int) -> float:
    return float(np.log1p(demand[depot, day]) - np.log1p(expected[day])) if is_known[depot, day] else NAN


def _weeks_needed_in_a_loop(missed: list[list[float]]) -> float:
    of_week, freedom, of_weekday = 0.0, 0, []
    cells = [[row[d] for d in range(w, 28, 7) if np.isfinite(row[d])] for row in missed for w in range(7)]
    cells = [cell for cell in cells if cell]
    for cell in cells:
        of_week += sum((value - np.mean(cell)) ** 2 for value in cell)
        freedom += len(cell) - 1
    of_weekday = np.mean([np.mean(cell) ** 2 - of_week / freedom / len(cell) for cell in cells])
    return of_week / freedom / of_weekday if of_weekday > 0 else np.inf
