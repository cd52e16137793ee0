"""Totals along joint paths: they agree with their parts, and reflect which depots are surprised
together."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.serving import totals
from tests.panels import LEVELS, bare

DAYS, DEPOTS = 420, 8


def shocked(common: float, seed: int = 0) -> Panel:
    """Counts about 1,000 with σ 0.2 in logs, a share of which all depots of a day have in common."""
    random = np.random.default_rng(seed)
    noise = np.sqrt(1 - common) * random.normal(size=(DEPOTS, DAYS)) + np.sqrt(common) * random.normal(size=DAYS)
    return bare(np.expm1(np.log(1001) + 0.2 * noise))


def right(panel: Panel) -> Forecast:
    """Return the forecast with the true distribution."""
    quantiles_of_orders = np.expm1(np.log(1001) + 0.2 * np.array([-1.2816, 0, 1.2816]))
    open_ = panel.open[:, panel.history :]
    quantiles = np.where(open_[..., None], quantiles_of_orders, 0).astype(np.float32)
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, LEVELS, quantiles, open_)


def folds(panel: Panel, weeks: int = 40) -> list[Fold]:
    result = []
    for week in range(weeks, 0, -1):
        cutoff: date = panel.days[panel.history - 1 - 7 * week].astype(object)
        before = panel.at(cutoff)
        result.append(Fold(right(before), panel.actuals(cutoff).astype(np.float32)))
    return result


@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
def test_intervals_of_the_total_have_nominal_coverage_for_any_shared_part(common: float) -> None:
    panel = shocked(common)
    scores = totals.score_totals(folds(panel), panel)
    assert scores["network"]["coverage"] == pytest.approx(0.8, abs=0.072)  # three standard errors of 280 days
    assert abs(scores["network"]["bias"]) < 0.02
    # Sums of quantiles cover far more than their level if little is shared.
    width_of_one = 2 * np.sinh(0.2 * 1.2816)
    assert scores["network"]["width"] == pytest.approx(width_of_one * np.sqrt(common + (1 - common) / DEPOTS), rel=0.12)


def test_common_drift_widens_the_total_of_far_weeks() -> None:
    """Each depot has its own noise, and the level moves for all: four weeks earlier, less of it is
    known."""
    random = np.random.default_rng(1)
    level = np.repeat(np.cumsum(0.15 * random.normal(size=DAYS // 7)), 7)
    panel = bare(np.expm1(np.log(1001) + level + 0.2 * random.normal(size=(DEPOTS, DAYS))), horizon=28)
    low, _, high = totals.joint_totals(right(panel), panel).of_groups[totals.NETWORK][:28].T
    width = (high - low).reshape(4, 7).mean(axis=1)
    assert width[3] > 1.2 * width[0]


def test_each_depots_paths_are_its_own_forecast() -> None:
    panel = shocked(0.3)
    predicted = right(panel)
    sampled = totals.sample_paths(predicted, panel)
    assert sampled.shape == (totals.PATHS, DEPOTS, 7)
    np.testing.assert_allclose(np.quantile(sampled, LEVELS, axis=0)[1], predicted.median, rtol=0.01)
    np.testing.assert_allclose(np.moveaxis(np.quantile(sampled, LEVELS, axis=0), 0, -1), predicted.quantiles, rtol=0.02)
    np.testing.assert_array_equal(np.sort(sampled[:, 0, 0]), np.sort(sampled[:, 5, 3]))


def test_depot_city_and_network_agree_path_by_path() -> None:
    panel = shocked(0.3)
    sampled = totals.sample_paths(right(panel), panel)
    north = np.arange(DEPOTS) < 3
    both = sampled[:, north].sum(axis=1) + sampled[:, ~north].sum(axis=1)
    np.testing.assert_allclose(both, sampled.sum(axis=1))
    everyone = np.quantile(sampled.sum(axis=1), LEVELS, axis=0).T
    assert everyone.shape == (7, 3)
    np.testing.assert_allclose(everyone[:, 1], np.median(both, axis=0))
    assert (np.diff(everyone, axis=1) > 0).all()


def test_depots_surprised_together_are_so_in_the_paths() -> None:
    panel = shocked(0.0)
    demand = np.array(panel.demand)
    demand[1] = demand[0]
    sampled = totals.sample_paths(right(panel), replace(panel, demand=demand))
    assert np.corrcoef(sampled[:, 0, 2], sampled[:, 1, 2])[0, 1] == pytest.approx(1)
    assert abs(np.corrcoef(sampled[:, 0, 2], sampled[:, 5, 2])[0, 1]) < 0.4


def test_closed_days_are_zero_on_every_path_and_unknown_days_are_allowed() -> None:
    panel = shocked(0.5)
    demand, open_ = np.array(panel.demand), np.array(panel.open)
    demand[2], open_[3, -2] = np.nan, False
    odd = replace(panel, demand=demand, open=open_)
    sampled = totals.sample_paths(right(odd), odd)
    assert np.isfinite(sampled).all()
    assert not sampled[:, 3, 5].any()


@pytest.mark.parametrize(("history", "count"), [(34, 0), (35, 1), (40, 6), (200, 90)])
def test_a_short_history_has_fewer_paths(history: int, count: int) -> None:
    panel = bare(np.full((2, history), 10.0))
    sampled = totals.sample_paths(right(panel), panel)
    assert len(sampled) == max(count, 1)
    if not count:
        np.testing.assert_allclose(sampled[0], right(panel).median)


def test_cities_are_measured_if_there_are_several_and_metrics_are_nan_without_folds() -> None:
    panel = replace(shocked(0.5), attributes={"city": ("Ulm",) * 3 + ("Bonn",) * 5})
    scores = totals.score_totals(folds(panel, 10), panel)
    assert set(scores) == {"network", "city", "network week", "city week", "depot week"}
    assert np.isnan(totals.score_totals([], panel)["network"]["coverage"])


def test_totals_match_the_paths_for_any_chunk_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    panel = replace(shocked(0.4), attributes={"city": ("Ulm", "Bonn") * (DEPOTS // 2)})
    predicted = right(panel)
    quantiles = totals.joint_totals(predicted, panel).of_groups
    assert list(quantiles) == [totals.NETWORK, ("city", "Bonn"), ("city", "Ulm")]
    sampled = totals.sample_paths(predicted, panel)
    for name, rows in (("", slice(None)), ("Bonn", slice(1, None, 2)), ("Ulm", slice(0, None, 2))):
        daily = sampled[:, rows].sum(axis=1)
        together = np.column_stack([daily, daily.sum(axis=1)])
        np.testing.assert_allclose(quantiles["city", name], np.quantile(together, LEVELS, axis=0).T)
    monkeypatch.setattr(totals, "CHUNK", 3)
    for group, again in totals.joint_totals(predicted, panel).of_groups.items():
        np.testing.assert_allclose(again, quantiles[group])


def test_every_level_and_the_week_add_up_to_the_network_on_every_path() -> None:
    words = {"region": ("north", "south") * (DEPOTS // 2), "channel": ("web",) * 3 + ("shop",) * 5}
    panel = replace(bare(shocked(0.4).demand, horizon=15), attributes=words)
    members = totals.groups(panel, ("city", "region", "channel"))
    assert set(members) == {
        totals.NETWORK, ("region", "north"), ("region", "south"), ("channel", "shop"), ("channel", "web"),
    }  # fmt: skip
    [chunk] = totals.chunk_totals(right(panel), panel, members)
    network = chunk.sums[totals.NETWORK]
    assert network.shape == (totals.PATHS, 15 + 2)
    for level in ("region", "channel"):
        np.testing.assert_allclose(sum(sums for group, sums in chunk.sums.items() if group[0] == level), network)
    for sums in chunk.sums.values():
        np.testing.assert_allclose(sums[:, 15], sums[:, :7].sum(axis=1))
        np.testing.assert_allclose(sums[:, 16], sums[:, 7:14].sum(axis=1))


def test_a_depots_week_is_the_sum_of_its_days_along_its_paths() -> None:
    panel = shocked(0.4)
    weeks = totals.joint_totals(right(panel), panel).depot_weeks
    assert weeks.shape == (DEPOTS, 1, 3)
    sums = totals.sample_paths(right(panel), panel).sum(axis=2)
    np.testing.assert_allclose(weeks[:, 0], np.quantile(sums, LEVELS, axis=0).T)
    low, _, high = weeks[0, 0]
    assert high - low < 7 * 2 * 1001 * np.sinh(0.2 * 1.2816)  # the sum of the days' ranges


@pytest.mark.parametrize("persistence", [0.0, 0.8])
def test_the_range_of_a_week_has_nominal_coverage_with_and_without_persistence(persistence: float) -> None:
    random = np.random.default_rng(2)
    noise = random.normal(size=(DEPOTS, DAYS))
    for day in range(1, DAYS):
        noise[:, day] = persistence * noise[:, day - 1] + np.sqrt(1 - persistence**2) * noise[:, day]
    panel = bare(np.expm1(np.log(1001) + 0.2 * noise))
    scores = totals.score_totals(folds(panel), panel)["depot week"]
    assert scores["coverage"] == pytest.approx(0.8, abs=0.067)  # three standard errors of 320 weeks
    days = 7 if persistence else np.sqrt(7)
    assert scores["width"] == pytest.approx(2 * np.sinh(0.2 * 1.2816) * days / 7, rel=0.3)


def test_a_horizon_below_a_week_has_no_weekly_totals() -> None:
    panel = bare(shocked(0.4).demand, horizon=6)
    joint = totals.joint_totals(right(panel), panel)
    assert joint.depot_weeks.shape == (DEPOTS, 0, 3)
    assert joint.of_groups[totals.NETWORK].shape == (6, 3)
