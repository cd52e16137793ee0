"""Learned shares computed by hand, and their invariants for any data."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing
from forecaster.staffing.shifts import shift_crews, shift_shares
from forecaster.staffing.shifts.shift_shares import ShiftShares
from tests.panels import forecast

MONDAY = date(2024, 1, 1)
FIVE = (0.1, 0.3, 0.5, 0.7, 0.9)
EARLY = {"name": "early", "start": "06:00", "end": "14:00", "share": "learn"}
LATE = {"name": "late", "start": "14:00", "end": "20:00", "share": "learn"}
STAFF = Staffing.model_validate(
    {"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, "shifts": [EARLY, LATE], "crew": {"min": 0}}
)


def pooled(early: list[list[float]], late: list[list[float]], known: list[list[bool]] | None = None) -> ShiftShares:
    counts = np.array([early, late], float)
    there = np.ones(counts.shape[1:], bool) if known is None else np.array(known)
    return shift_shares.pooled(counts, there, MONDAY, STAFF)


def test_weekday_shrinks_towards_its_depot_and_depot_towards_the_network() -> None:
    """Four weeks of two depots; one has everything early on Mondays and half of it otherwise."""
    monday = (np.arange(28) % 7 == 0).astype(float)
    first = [(5 + 5 * monday).tolist(), [2.0] * 28]
    second = [(5 - 5 * monday).tolist(), [8.0] * 28]
    learned = pooled(first, second)
    network = (160 + 56) / (280 + 280)
    depot = 28 / 35 * (160 / 280) + 7 / 35 * network

    def expected(of_weekday: float) -> float:
        early, late = depot * of_weekday / network, (1 - depot) * (1 - of_weekday) / (1 - network)
        return early / (early + late)

    assert learned.shares[0, 0, 0] == pytest.approx(4 / 8 * 1.0 + 4 / 8 * expected(48 / 80))
    assert learned.shares[0, 0, 3] == pytest.approx(4 / 8 * 0.5 + 4 / 8 * expected(7 / 20))
    assert learned.days.tolist() == [[4] * 7, [4] * 7]
    told = learned.published(("early", "late"), 0, MONDAY + timedelta(days=70))
    assert (told.source, told.days, told.weekdays) == ("depot", 28, 4)
    assert sum(share for _, share in told.shares) == pytest.approx(1, abs=2e-4)


def test_depot_with_little_history_takes_the_networks_shares() -> None:
    """Six of its days are known, all of them late; the other depot's are all early, on 28 days."""
    known = [[True] * 28, [True] * 6 + [False] * 22]
    learned = pooled([[3.0] * 28, [0.0] * 28], [[0.0] * 28, [4.0] * 28], known)
    assert learned.shares[0, 1].tolist() == pytest.approx([12 / 16] * 6 + [1])
    assert learned.of_network.tolist() == [False, True]
    assert learned.published(("early", "late"), 1, MONDAY).source == "network"


def test_without_data_shares_are_proportional_to_hours() -> None:
    learned = pooled([[0.0] * 28], [[0.0] * 28])
    assert learned.shares[:, 0, 0].tolist() == pytest.approx([8 / 14, 6 / 14])
    assert not learned.known
    assert learned.published(("early", "late"), 0, MONDAY).source == "hours"
    assert shift_crews.roster(forecast([[[70] * 5]], levels=FIVE), STAFF).crews[:, 0, 0].tolist() == [4, 3]


def test_crews_follow_the_shares_of_depot_and_weekday() -> None:
    """100 certain orders; on Thursdays a tenth of the first depot's are early, otherwise nine
    tenths."""
    shares = np.full((2, 2, 7), 0.9)
    shares[0, 0, 3], shares[1] = 0.1, 0.1
    shares[1, 0, 3] = 0.9
    days = forecast([[[100] * 5] * 7] * 2, levels=FIVE)
    thursday = next(step for step, day in enumerate(days.target_dates) if day.weekday() == 3)
    crews = shift_crews.roster(days, STAFF, None, ShiftShares(shares, np.ones((2, 7), np.int32))).crews
    assert crews[:, 0, thursday].tolist() == [1, 9]
    assert crews[:, 1, thursday].tolist() == [9, 1]
    assert (crews[0, 0, np.arange(7) != thursday] == 9).all()


@given(st.data())
def test_shares_always_sum_to_one(data: st.DataObject) -> None:
    depots, days = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40))
    counts = np.array(
        data.draw(
            st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2 * depots * days, max_size=2 * depots * days)
        )
    ).reshape(2, depots, days)
    known = np.array(data.draw(st.lists(st.booleans(), min_size=depots * days, max_size=depots * days)))
    learned = shift_shares.pooled(counts, known.reshape(depots, days), MONDAY, STAFF)
    assert np.allclose(learned.shares.sum(axis=0), 1)
    assert (learned.shares >= 0).all()
