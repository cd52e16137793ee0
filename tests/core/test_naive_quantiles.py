"""No quantile of the seasonal naive exceeds twice what a depot's history supports, in the fallback
and in the baselines; ordinary depots are unchanged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from forecaster.core import naive_quantiles
from forecaster.core.forecast import Forecast
from forecaster.core.naive_quantiles import never_narrower, within_history
from forecaster.core.panel import Panel
from forecaster.evaluation import baselines
from forecaster.serving.fallback import seasonal_naive
from tests.panels import LEVELS, NAN, bare, panel

Naive = Callable[[Panel], Forecast]
NAIVES = {
    "fallback": lambda panel: seasonal_naive(panel, LEVELS),
    **{
        name: lambda panel, name=name: baselines.fit(name, panel, LEVELS)(panel)
        for name in ("seasonal_naive", "seasonal_window_average")
    },
}
by_each_naive = pytest.mark.parametrize("naive", NAIVES.values(), ids=NAIVES)


def port() -> np.ndarray:
    """Half a year in which days of zero and of thousands alternate irregularly."""
    random = np.random.default_rng(3)
    return np.where(random.random(182) < 0.5, 0, random.integers(1000, 15474, 182))


@by_each_naive
def test_no_quantile_exceeds_twice_the_maximum_if_zeros_and_thousands_alternate(
    naive: Naive, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = bare([port(), np.full(182, 0.0)], horizon=28)
    quantiles = naive(history).quantiles
    assert quantiles[0].max() == 2 * port().max()
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    assert not quantiles[1].any(), "a depot of zeros stays zero"
    monkeypatch.setattr(naive_quantiles, "MOST", 1e9)
    without = naive(history)
    assert without.quantiles[0].max() > 100 * port().max()
    np.testing.assert_array_equal(quantiles[..., 1], without.median)


@by_each_naive
def test_quantiles_of_ordinary_depots_are_bit_identical(naive: Naive, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    counts = np.where(random.random((6, 140)) < 0.1, NAN, random.poisson(30, (6, 140)))
    histories = [panel(4, 150, 28), bare(counts, horizon=14, closed=[(0, 139), (1, 140)])]
    bounded = [naive(history).quantiles for history in histories]
    monkeypatch.setattr(naive_quantiles, "MOST", 1e9)
    for history, quantiles in zip(histories, bounded, strict=True):
        assert quantiles.tobytes() == naive(history).quantiles.tobytes()


def test_a_count_on_a_closed_day_is_ignored() -> None:
    history = bare([[3.0] * 13 + [500.0]], closed=[(0, 13)])
    bounded = within_history(np.full((1, 7, 3), 1e6), history, np.full((1, 7), 3.0))
    assert (bounded == 6).all()


def test_a_depot_with_a_short_history_is_bounded_by_its_guessed_past() -> None:
    """Two peers had a day of 90; the third depot opened three days ago, and the fourth, alone in
    its city, opens tonight."""
    peers = np.full(60, 30.0)
    peers[20] = 90
    young, unknown = np.full(60, NAN), np.full(60, NAN)
    young[-3:] = 30
    history = bare([peers, peers, young, unknown])
    bounded = within_history(np.full((4, 7, 3), 1e6), history, np.full((4, 7), 30.0))
    np.testing.assert_allclose(bounded[:, 0, 0], [180, 180, 180, 180], rtol=0.05)
    alone = bare([young])  # no peers: twice the maximum of its three days, or of its forecast
    assert within_history(np.full((1, 7, 3), 1e6), alone, np.full((1, 7), 30.0)).max() == 60
    nothing = bare([unknown])
    assert within_history(np.full((1, 7, 3), 1e6), nothing, np.full((1, 7), 25.0)).max() == 50


def test_no_range_shrinks_from_one_week_ahead_to_the_next() -> None:
    by_week = np.array([[[-0.2, 0.0, 0.3], [-0.1, 0.0, 0.4], [-0.3, 0.0, 0.1]]])
    expected = [[[-0.2, 0.0, 0.3], [-0.2, 0.0, 0.4], [-0.3, 0.0, 0.4]]]
    np.testing.assert_array_equal(never_narrower(by_week, LEVELS), expected)
