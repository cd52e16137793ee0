"""Simulated networks: reproducible from a seed, plausible, and with each effect where it was
configured."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from forecaster.core.panel import Panel
from forecaster.demand.panel import calendar
from forecaster.demand.synthetic.networks import COUNTRIES, PROMOTION, Traits, draw_traits, simulate

QUIET = Traits(
    country="DE", subdivision="NW", end=date(2024, 12, 30), level=7.0, level_spread=0.3, profile=np.full(5, 1.0),
    profile_spread=0.0, yearly=0.0, growth=0.0, growth_spread=0.0, drift=0.0, own_drift=0.0, weather=0.0, memory=0.0,
    holiday=0.0, promotions=0.0, promotion=0.0, moves=0.0, openings=0.0, dispersion=1e6, zeros=0.0, closed_sundays=0.0,
    closed_holidays=False, gaps=0.0, cities=1,
)  # fmt: skip


def quiet(seed: int = 5, days: int = 730, depots: int = 8, **changes: object) -> Panel:
    return simulate(seed, depots=depots, days=days, traits=replace(QUIET, **changes))


def logs(panel: Panel) -> np.ndarray:
    return np.log1p(panel.demand)


def weekly_changes(panel: Panel) -> np.ndarray:
    return logs(panel)[:, 7:] - logs(panel)[:, :-7]


def test_same_seed_gives_the_same_network() -> None:
    first, again, other = simulate(3, days=200), simulate(3, days=200), simulate(4, days=200)
    np.testing.assert_array_equal(first.demand, again.demand)
    np.testing.assert_array_equal(first.open, again.open)
    assert not np.array_equal(first.demand, other.demand, equal_nan=True)
    with pytest.raises(ValueError, match="found 0 depots and 200 days, wanted at least 1 depot and 60 days"):
        simulate(3, depots=0, days=200)


def test_every_kind_of_network_is_a_readable_panel() -> None:
    drawn = [draw_traits(np.random.default_rng(seed)) for seed in range(200)]
    assert len({traits.country for traits in drawn}) > 15
    assert {traits.promotions > 0 for traits in drawn} == {traits.zeros > 0 for traits in drawn} == {False, True}
    for seed, (country, subdivision) in enumerate(COUNTRIES):
        traits = replace(draw_traits(np.random.default_rng(seed)), country=country, subdivision=subdivision)
        panel = simulate(seed, depots=3, days=120, horizon=9, traits=traits)
        known = np.isfinite(panel.demand)
        assert not (known & ~panel.open[:, :120]).any()
        assert (panel.demand[known] >= 0).all()
        assert (panel.demand[known] == np.round(panel.demand[known])).all()
        assert (panel.calendar_names, panel.encoding.covariates, panel.horizon) == (calendar.NAMES, (PROMOTION,), 9)
        assert panel.calendar[0, :, calendar.NAMES.index("holiday")].any() == bool(
            calendar.holiday_names(panel.days, country, subdivision)
        )


def test_holidays_shift_the_same_days_and_their_neighbors_every_year() -> None:
    panel = quiet(holiday=-0.8, depots=30)
    calm = quiet(depots=30)
    days = panel.days[: panel.history]
    named = calendar.holiday_names(days, "DE", "NW")
    by_name: dict[str, list[float]] = {}
    for day, name in named.items():
        place = int((np.datetime64(day) - days[0]).astype(int))
        by_name.setdefault(name, []).append(float(np.nanmean((logs(panel) - logs(calm))[:, place])))
    both = [effects for effects in by_name.values() if len(effects) == 2]
    assert len(both) >= 8
    assert np.corrcoef(np.array(both).T)[0, 1] > 0.8
    assert np.mean(both) < -0.4


def test_promotions_raise_their_days_and_are_announced_ahead() -> None:
    panel = quiet(promotions=0.2, promotion=0.5, depots=30)
    promoted = panel.covariates[..., 0] > 0
    assert 0.1 < promoted.mean() < 0.3
    level = logs(panel) - np.nanmedian(logs(panel), axis=1, keepdims=True)
    lift = np.nanmean(level[promoted[:, :730]]) - np.nanmean(level[~promoted[:, :730]])
    assert 0.3 < lift < 0.7
    assert promoted.shape[1] == panel.history + panel.horizon


def test_changes_of_depots_appear_as_configured() -> None:
    calm = quiet()
    opened = quiet(openings=1.0)
    first = np.argmax(opened.open, axis=1)
    assert ((first > 0) & (first < 730 - 28 + 21)).all()
    weekday = (calm.days.astype(np.int64) + 3) % 7
    assert not quiet(closed_sundays=1.0).open[:, weekday == 6].any()
    off = calm.calendar[0, :, calendar.NAMES.index("holiday")] > 0
    assert not quiet(closed_holidays=True).open[:, off].any()
    assert np.isnan(quiet(gaps=0.2).demand).mean() - np.isnan(calm.demand).mean() == pytest.approx(0.2, abs=0.03)
    assert (quiet(zeros=0.3).demand == 0).mean() == pytest.approx(0.3, abs=0.05)
    assert np.nanstd(weekly_changes(quiet(moves=4.0))) > 1.3 * np.nanstd(weekly_changes(calm))
    grown = np.nanmean(logs(quiet(growth=0.5)) - logs(calm), axis=0)
    assert grown[-1] - grown[0] == pytest.approx(1.0, abs=0.1)  # of two years


def test_depots_of_a_city_share_weather_and_counts_are_overdispersed() -> None:
    def correlation(panel: Panel) -> float:
        changes = np.nan_to_num(weekly_changes(panel))
        return float(np.corrcoef(changes)[np.triu_indices(len(changes), 1)].mean())

    assert correlation(quiet(weather=0.3)) > 0.5 > correlation(quiet(dispersion=20.0))
    wild, calm = quiet(dispersion=5.0), quiet()
    assert np.nanstd(weekly_changes(wild)) > 3 * np.nanstd(weekly_changes(calm))
