"""The past that a depot does not have, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forecaster import coldstart

NAN = float("nan")
WEEK = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])  # mean 4


def counts(*rows: Any) -> tuple[np.ndarray, np.ndarray]:
    demand = np.array(rows, np.float32)
    return demand, np.ones_like(demand, bool)


def weeks(factor: float, number: int = 6) -> np.ndarray:
    return np.tile(factor * WEEK, number)


def test_fewer_than_28_known_open_days_are_a_cold_start() -> None:
    demand, open_ = counts(*(np.where(np.arange(40) < known, 1.0, NAN) for known in (27, 28, 29)))
    assert coldstart.cold(demand, open_).tolist() == [True, False, False]
    open_[2, :2] = False
    assert coldstart.cold(demand, open_).tolist() == [True, False, True]


def test_a_depot_without_any_count_gets_the_median_of_its_peers_at_their_median_level() -> None:
    odd = weeks(4)
    odd[3] = 1600  # levels are those of the last 28 days: 4, 8 and 16
    demand, open_ = counts(weeks(1), weeks(2), odd, [NAN] * 42)
    np.testing.assert_allclose(coldstart.guess(demand, open_), [weeks(2)], rtol=1e-6)


def test_the_own_level_holds_from_seven_known_days_and_in_part_before() -> None:
    demand, open_ = counts(weeks(1), weeks(1), *([NAN] * 42 for _ in range(3)))
    for row, days in ((2, 7), (3, 3), (4, 1)):
        demand[row, 42 - days :] = 10 * WEEK[7 - days :]  # ten times its peers
    found = coldstart.guess(demand, open_)
    for row, days in ((0, 7), (1, 3), (2, 1)):
        factor = (days * 10 + (7 - days) * 1) / 7
        np.testing.assert_allclose(found[row, : 42 - days], factor * weeks(1)[: 42 - days], rtol=1e-6)
        assert np.isnan(found[row, 42 - days :]).all()


def test_gaps_after_the_first_known_day_stay_unknown() -> None:
    demand, open_ = counts(weeks(1), [NAN] * 20 + [5.0] + [NAN] * 21)
    found = coldstart.guess(demand, open_)
    assert np.isfinite(found[0, :20]).all()
    assert np.isnan(found[0, 20:]).all()


def test_a_city_of_two_makes_its_own_profile_and_a_smaller_one_takes_that_of_all() -> None:
    flat = np.full(42, 4.0)
    demand, open_ = counts(flat, flat, weeks(1), weeks(1), weeks(1), [NAN] * 42, [NAN] * 42, [NAN] * 42)
    cities = ("Ulm", "Ulm", "Bonn", "Rome", "", "Ulm", "Bonn", "")
    found = coldstart.guess(demand, open_, cities)
    np.testing.assert_allclose(found[0], flat)
    np.testing.assert_allclose(found[1], weeks(1))  # the median of two flat and three weekly ones
    np.testing.assert_allclose(found[2], weeks(1))


def test_a_day_on_which_more_peers_were_closed_than_counted_is_left_open_to_question() -> None:
    demand, open_ = counts(weeks(1), weeks(1), weeks(1), [NAN] * 42)
    open_[:2, 6::7] = False
    open_[0, 5::7] = False
    found = coldstart.guess(demand, open_)[0]
    assert np.isnan(found[6::7]).all()
    assert np.isfinite(np.delete(found, np.arange(6, 42, 7))).all()


def test_the_sleeping_the_empty_and_the_young_are_nobodys_peers() -> None:
    asleep, young = [1000.0] * 28 + [NAN] * 28, [NAN] * 30 + [9000.0] * 26
    demand, open_ = counts(weeks(1, 8), asleep, np.zeros(56), young, [NAN] * 56)
    np.testing.assert_allclose(coldstart.guess(demand, open_)[1], weeks(1, 8))


def test_without_peers_nothing_is_guessed() -> None:
    demand, open_ = counts([NAN] * 42, [1.0] * 20 + [NAN] * 22)
    assert np.isnan(coldstart.guess(demand, open_)).all()
    assert coldstart.guess(*counts(weeks(1))).shape == (0, 42)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_a_slow_loop_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    demand = np.where(random.random((12, 60)) < 0.3, NAN, random.poisson(20, (12, 60))).astype(np.float32)
    demand[8:, : random.integers(40, 60)] = NAN
    open_ = random.random((12, 67)) < 0.9
    cities = tuple(random.choice(["Ulm", "Bonn", ""], 12))
    found, known = iter(coldstart.guess(demand, open_, cities)), np.isfinite(demand) & open_[:, :60]
    level = [np.mean(row[-28:][k[-28:]]) if k[-28:].sum() >= 7 else 0 for row, k in zip(demand, known, strict=True)]
    peers = [d for d in range(12) if known[d].sum() >= 28 and level[d] > 0]
    for depot in (d for d in range(12) if known[d].sum() < 28):
        asked = [p for p in peers if cities[p] == cities[depot] != ""]
        asked = asked if len(asked) >= 2 else peers
        shape = np.full(60, NAN)
        for day in range(60):
            said = [demand[p, day] / level[p] for p in asked if known[p, day]]
            if said and len(said) >= sum(not open_[p, day] for p in asked):
                shape[day] = np.median(said)
        own = [d for d in range(60) if known[depot, d] and shape[d] > 0]
        scale = sum(demand[depot, d] for d in own) / sum(shape[d] for d in own) if own else 0
        weight = min(len(own), 7) / 7
        wanted = (weight * scale + (1 - weight) * np.median([level[p] for p in asked])) * shape
        first = int(np.argmax(known[depot])) if known[depot].any() else 60
        wanted[(np.arange(60) >= first) | np.isfinite(demand[depot])] = NAN
        np.testing.assert_allclose(next(found), wanted, rtol=1e-5)
    assert next(found, None) is None
