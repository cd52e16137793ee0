"""Crews by hand: the newsvendor's quantile over what one driver carries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from forecaster.spec import Staffing
from forecaster.staffing import drivers
from tests.panels import forecast

NINE = tuple(tenth / 10 for tenth in range(1, 10))


def costs(short: float, idle: float, orders: float = 10) -> Staffing:
    return Staffing(orders_per_driver=orders, cost_short=short, cost_idle=idle)


def test_the_crew_suffices_with_the_probability_that_the_costs_ask_for() -> None:
    """38 against 22: level 0.6333, a third of the way from the 60 to the 90 of levels 0.6 and 0.7: 70 orders."""
    said = forecast([[[10, 20, 30, 40, 50, 60, 90, 100, 110]]], levels=NINE)
    assert drivers(said, costs(38, 22)).tolist() == [[7]]
    assert drivers(said, costs(38, 22, orders=9.9)).tolist() == [[8]]
    assert drivers(said, costs(1, 1)).tolist() == [[5]]


def test_the_crew_is_the_cheapest_of_all_crews() -> None:
    """Against trying every crew on demand that is as likely in each of many even steps."""
    demand = np.linspace(0, 200, 2001)
    levels = tuple(np.linspace(0.01, 0.99, 99).round(2))
    said = forecast([[np.quantile(demand, levels)]], levels=levels)
    for short, idle in ((38, 22), (10, 30), (5, 5)):
        needed = np.ceil(demand / 10)
        bill = [(short * np.clip(needed - n, 0, None) + idle * np.clip(n - needed, 0, None)).mean() for n in range(21)]
        assert drivers(said, costs(short, idle)).item() == int(np.argmin(bill))


@pytest.mark.parametrize(("short", "idle", "wanted"), [(1, 99, 1), (99, 1, 3)])
def test_a_ratio_beyond_the_outermost_level_takes_that_level(short: float, idle: float, wanted: int) -> None:
    assert drivers(forecast([[[10, 20, 30]]]), costs(short, idle)).tolist() == [[wanted]]


def test_nobody_drives_on_a_closed_day_and_somebody_on_every_open_one() -> None:
    said = forecast([[[0, 0, 0], [0, 0, 0], [0, 0, 0.1]]], closed=[(0, 1)])
    found = drivers(said, costs(1, 1))
    assert found.tolist() == [[1, 0, 1]]
    assert found.dtype == np.int32


def test_rounding_hires_nobody() -> None:
    """Thirty orders are three drivers' worth, also when float32 says 30.000002."""
    assert drivers(forecast([[[10, np.float32(30.000002), 50]]]), costs(1, 1)).tolist() == [[3]]
    assert drivers(forecast([[[10, 30.1, 50]]]), costs(1, 1)).tolist() == [[4]]


def test_a_dearer_shortage_never_means_fewer_drivers() -> None:
    random = np.random.default_rng(0)
    said = forecast(np.sort(random.gamma(2, 40, (5, 7, 9)), axis=-1), levels=NINE)
    crews = [drivers(said, costs(short, 20)) for short in (1, 5, 15, 20, 40, 100, 1000)]
    for fewer, more in pairwise(crews):
        assert (more >= fewer).all()
    assert (crews[-1] > crews[0]).any()
