"""Spikes and unit changes, compared with earlier days; and real events that are neither."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.core.arrays import Bools, Floats
from forecaster.demand.validation.outliers import suspects, without_returns

WEEK = [40, 42, 41, 43, 60, 80, 20]  # Monday … Sunday


def weeks(number: int, depots: int = 1) -> Floats:
    return np.tile(np.array(WEEK, np.float32), (depots, number))


def last_only(counts: Floats, days: int = 1) -> Bools:
    fresh = np.zeros(counts.shape, bool)
    fresh[:, -days:] = True
    return fresh


def days_of(rule: str, counts: Floats, fresh: Bools | None = None, closed: Bools | None = None) -> list[int]:
    """Days of the first depot that break a rule; all cells are new by default."""
    cells = suspects(counts, np.isfinite(counts) if fresh is None else fresh, closed)[rule]
    return [int(day) for depot, day in zip(cells.depot, cells.day, strict=True) if depot == 0]


# --- spikes -----------------------------------------------------------------------------------------------------------


def test_count_with_an_extra_zero_is_a_spike_and_reported_with_the_usual_count() -> None:
    counts = weeks(9)
    counts[0, -2] = 800  # a Saturday
    by_rule = suspects(counts, last_only(counts, 2))
    spike = by_rule["spike"]
    assert (spike.depot.tolist(), spike.day.tolist(), spike.usual.tolist()) == ([0], [61], [80])
    assert len(by_rule["unit_change"]) == 0


def test_only_new_counts_are_suspects() -> None:
    counts = weeks(9)
    counts[0, -2] = 800
    assert days_of("spike", counts, last_only(counts)) == []


def test_four_times_the_usual_and_low_counts_are_not_spikes() -> None:
    counts = weeks(9)
    counts[0, -3:] = 4 * 60, 0, 1
    assert days_of("spike", counts) == []


def test_spike_factor_sets_the_threshold() -> None:
    counts = weeks(9)
    counts[0, -1] = 130  # 6.5 times a Sunday, but less than twice a Saturday
    counts[0, -2] = 500  # 6.25 times a Saturday
    fresh = last_only(counts, 2)
    assert suspects(counts, fresh)["spike"].day.tolist() == [61]
    assert len(suspects(counts, fresh, spike_factor=7)["spike"]) == 0


def test_fewer_than_four_same_weekdays_are_not_enough() -> None:
    counts = weeks(5)
    counts[0, [27, 28]] = 4000  # the fourth Sunday has three before it, and the fifth Monday has four
    assert days_of("spike", counts) == [28]
    counts[0, 0] = np.nan
    assert days_of("spike", counts) == []


def test_spike_does_not_make_the_next_one_usual() -> None:
    counts = weeks(12)
    counts[0, [61, 68]] = 900
    assert days_of("spike", counts) == [61, 68]


def test_days_after_a_spike_do_not_excuse_it() -> None:
    counts = weeks(20)
    counts[0, 61] = 900
    counts[0, 62:] = np.nan
    assert days_of("spike", counts) == [61]
    counts[0, 62:] = 900
    assert days_of("spike", counts)[0] == 61


def test_accepts_a_count_after_a_long_gap() -> None:
    counts = weeks(20)
    counts[0, 60:-1] = np.nan
    counts[0, -1] = 900
    assert days_of("spike", counts) == []


def test_first_open_sunday_after_sundays_with_zeros_is_not_a_spike() -> None:
    counts = weeks(10)
    counts[0, 6::7] = 0
    counts[0, 69] = 95
    assert days_of("spike", counts) == []
    counts[0, 69] = 950
    assert days_of("spike", counts) == [69]


def test_series_of_low_counts_and_many_zeros_have_almost_no_spikes() -> None:
    random = np.random.default_rng(5)
    counts = (random.negative_binomial(2, 0.25, (200, 400)) * (random.random((200, 400)) < 0.6)).astype(np.float32)
    assert sum(len(cells) for cells in suspects(counts, np.isfinite(counts)).values()) <= 8  # of 80,000


def test_depot_that_opens_and_grows_tenfold_in_three_months_has_no_spikes() -> None:
    random = np.random.default_rng(6)
    counts = random.poisson(20 * 10 ** (np.arange(180).clip(0, 90) / 90), (50, 180)).astype(np.float32)
    assert all(len(cells) == 0 for cells in suspects(counts, np.isfinite(counts)).values())


def test_day_with_high_counts_at_all_depots_is_not_a_spike() -> None:
    counts = weeks(9, 6)
    counts[:, -1] *= [6, 7, 6.5, 8, 7, 30]
    assert suspects(counts, last_only(counts))["spike"].depot.tolist() == []
    counts[5, -1] *= 2
    assert suspects(counts, last_only(counts))["spike"].depot.tolist() == [5]


def test_closed_days_are_neither_judged_nor_used() -> None:
    counts = weeks(10)
    closed = np.zeros(counts.shape, bool)
    closed[0, 6::7] = True
    counts[0, 6::7] = 0
    counts[0, 62] = 5000
    assert days_of("spike", counts, closed=closed) == []


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [10, 1000, 0.1, 0.001])
def test_three_days_in_another_unit_are_a_change_and_not_spikes(times: float) -> None:
    counts = weeks(10)
    counts[0, 60:63] *= times
    assert days_of("unit_change", counts) == [60, 61, 62]
    assert days_of("spike", counts) == []
    counts[0, 62] = 20
    assert days_of("unit_change", counts) == []


def test_unit_change_can_start_on_known_days_and_continue_over_missing_days() -> None:
    counts = weeks(10)
    counts[0, 60:66] *= 0.1
    counts[0, [61, 63]] = np.nan
    counts = counts[:, :66]
    assert days_of("unit_change", counts, last_only(counts)) == [65]
    assert days_of("unit_change", counts, last_only(counts, 3)) == [64, 65]


@pytest.mark.parametrize("left", [0.3, 0.15, 0.05, 0.02])
def test_lockdown_is_not_a_unit_change(left: float) -> None:
    random = np.random.default_rng(7)
    counts = random.poisson(weeks(12, 20) * 10).astype(np.float32)
    counts[:, 60:] = random.poisson(weeks(12, 20)[:, 60:] * 10 * left)
    assert len(suspects(counts, np.isfinite(counts))["unit_change"]) == 0


def test_unit_change_is_detected_during_a_lockdown() -> None:
    counts = weeks(12, 6) * 10
    counts[:, 60:] *= 0.3
    counts[0, 70:75] *= 0.1
    assert days_of("unit_change", counts) == [70, 71, 72, 73, 74]


def test_one_day_of_most_depots_in_another_unit_is_enough() -> None:
    counts = weeks(10, 6)
    counts[:5, -1] *= 1000
    by_rule = suspects(counts, last_only(counts))
    assert (by_rule["unit_change"].depot.tolist(), len(by_rule["spike"])) == ([0, 1, 2, 3, 4], 0)
    assert len(suspects(counts[:4], last_only(counts[:4]))["unit_change"]) == 0


def test_christmas_at_about_a_tenth_for_all_depots_is_not_a_unit_change() -> None:
    counts = weeks(10, 10)
    counts[:, -1] *= [0.1, 0.09, 0.12, 0.11, 0.08, 0.1, 0.13, 0.2, 0.25, 0.05]
    assert len(suspects(counts, last_only(counts))["unit_change"]) == 0
    counts[:, -1] = 2
    assert len(suspects(counts, last_only(counts))["unit_change"]) == 10


def test_depots_with_usually_low_counts_do_not_show_a_unit_change() -> None:
    counts = np.full((1, 70), 19, np.float32)
    counts[0, 60:64] = 2
    assert days_of("unit_change", counts) == []
    assert days_of("unit_change", counts + 1) == []  # 3 of 20
    counts[counts == 19] = 20
    assert days_of("unit_change", counts) == [60, 61, 62, 63]


# --- beside an obvious loop -------------------------------------------------------------------------------------------


def slowly(counts: Floats, fresh: Bools, closed: Bools, factor: float) -> dict[str, list[tuple[int, int]]]:
    """Result of `suspects`, computed cell by cell."""
    counts = np.where(closed, np.float32(np.nan), counts)
    first = max(min(np.nonzero(fresh)[1]) - 28, 0)
    usual, ratio = slow_usual(counts, first)
    level, unit = slow_feed(fresh, usual, ratio, first)
    changed = slow_changes(usual, ratio, level, unit, first)
    by_rule: dict[str, list[tuple[int, int]]] = {"unit_change": [], "spike": []}
    for d, t in np.argwhere(fresh).tolist():
        before = counts[d, max(t - 56, 0) : t]
        second = np.sort(before[np.isfinite(before)])[-2:][0] if np.isfinite(before).sum() > 1 else 0
        high = max(0.6 * factor * second, second + 6 * np.sqrt(second), factor * usual[d, t] * max(level[t], 1))
        if (d, t) in changed:
            by_rule["unit_change"].append((d, t))
        elif second > 0 and usual[d, t] >= 0 and counts[d, t] > high:
            by_rule["spike"].append((d, t))
    return by_rule


def slow_usual(counts: Floats, first: int) -> tuple[Floats, Floats]:
    """Median of eight same weekdays and the ratio of each count to it.

    Both are NaN before `first` and if too few values are known.
    """
    usual, ratio = (np.full(counts.shape, np.nan, np.float32) for _ in range(2))
    for d in range(len(counts)):
        for t in range(first, counts.shape[1]):
            before = counts[d, [t - 7 * k for k in range(1, 9) if t >= 7 * k]]
            if np.isfinite(before).sum() >= 4:
                usual[d, t] = np.nanmedian(before)
            if usual[d, t] > 0:
                ratio[d, t] = counts[d, t] / usual[d, t]
    return usual, ratio


def slow_feed(fresh: Bools, usual: Floats, ratio: Floats, first: int) -> tuple[Floats, list[int]]:
    """Median ratio and majority unit of each day, over all depots with new counts."""
    depots, days = ratio.shape
    level, unit = np.ones(days, np.float32), [0] * days
    middles = {}
    for t in range(first, days):
        judged = [d for d in range(depots) if fresh[d].any() and ratio[d, t] > 0]
        if len(judged) >= 5:
            level[t] = np.median(ratio[judged, t])
        sure = [d for d in judged if usual[d, t] >= 20]
        if len(sure) >= 5:
            middles[t] = np.median(ratio[sure, t])
            unit[t] = unit_of_most([ratio[d, t] for d in sure])
    for run in runs([(t, nearest(m), near(m)) for t, m in middles.items()]):
        for t in run:
            unit[t] = nearest(middles[t])
    return level, unit


def unit_of_most(ratios: list[float]) -> int:
    unit = 0
    for power in (-3, -2, -1, 1, 2, 3):
        share = np.mean([near(ratio) and nearest(ratio) == power for ratio in ratios])
        if share >= (0.5 if power > 0 else 0.8):
            unit = power
    return unit


def slow_changes(usual: Floats, ratio: Floats, level: Floats, unit: list[int], first: int) -> set[tuple[int, int]]:
    """Depot and day of counts in another unit, of a single depot or of the whole feed."""
    changed = set()
    for d in range(len(ratio)):
        days = range(first, ratio.shape[1])
        judged = [t for t in days if usual[d, t] >= 20 and ratio[d, t] >= 0]
        relative = [(t, ratio[d, t] / level[t]) for t in judged]
        for run in runs([(t, min(nearest(r), 2), near(r) or nearest(r) >= 2) for t, r in relative]):
            changed |= {(d, t) for t in run}
        changed |= {(d, t) for t in days if unit[t] and ratio[d, t] > 0 and np.log10(ratio[d, t]) / unit[t] > 0.5}
    return changed


def nearest(ratio: float) -> int:
    return int(np.clip(np.rint(np.log10(ratio)), -3, 3)) if ratio > 0 else 0


def near(ratio: float) -> bool:
    return nearest(ratio) != 0 and bool(abs(np.log10(ratio) - nearest(ratio)) <= 0.15)


def runs(days: list[tuple[int, int, bool]]) -> list[list[int]]:
    """Days of runs in one unit with at least three days, and half of the days, near that unit."""
    stretches: list[list[tuple[int, int, bool]]] = []
    for day in days:
        if stretches and stretches[-1][-1][1] == day[1]:
            stretches[-1].append(day)
        else:
            stretches.append([day])
    return [
        [t for t, _, _ in run] for run in stretches if run[0][1] and sum(n for *_, n in run) >= max(3, len(run) / 2)
    ]


@given(
    seed=st.integers(0, 2**32 - 1),
    depots=st.integers(1, 8),
    days=st.integers(30, 90),
    new=st.sampled_from([1, 4, 90]),
    gaps=st.sampled_from([0.0, 0.3]),
)
def test_batch_search_finds_the_same_cells_as_a_search_by_cell(
    seed: int, depots: int, days: int, new: int, gaps: float
) -> None:
    random = np.random.default_rng(seed)
    level = random.choice([0.5, 15, 40, 300], (depots, 1)) * random.lognormal(0, 0.1, (depots, days))
    counts = random.poisson(level).astype(np.float32)
    counts *= random.choice([1, 1, 1, 0.1, 10, 1000], (depots, 1)) ** (np.arange(days) >= days - 12)
    counts *= random.choice([1, 1, 1, 0.1, 10, 7], days) ** (random.random(days) < 0.1)
    counts = np.where(random.random(counts.shape) < 0.03, counts * 10, counts).astype(np.float32)
    counts[random.random(counts.shape) < gaps] = np.nan
    closed = random.random(counts.shape) < gaps / 3
    fresh = np.isfinite(counts) & ~closed & (np.arange(days) >= days - new)
    if not fresh.any():
        return
    expected = slowly(counts, fresh, closed, 5.0)
    for rule, cells in suspects(counts, fresh, closed).items():
        assert list(zip(cells.depot.tolist(), cells.day.tolist(), strict=True)) == expected[rule]


def test_no_new_counts_give_no_suspects() -> None:
    counts = weeks(9)
    assert all(len(cells) == 0 for cells in suspects(counts, np.zeros(counts.shape, bool)).values())


# --- demand that comes back -------------------------------------------------------------------------------------------


def left_of(rule: str, counts: Floats) -> list[int]:
    return without_returns(suspects(counts, np.isfinite(counts))[rule], counts).day.tolist()


def test_demand_that_returns_to_its_earlier_level_is_not_an_outlier() -> None:
    counts = weeks(40)
    counts[0, 84:182] = np.round(counts[0, 84:182] / 12)
    assert days_of("unit_change", counts) != []
    assert [day for day in days_of("spike", counts) + days_of("unit_change", counts) if day >= 182] != []
    assert [day for rule in ("spike", "unit_change") for day in left_of(rule, counts) if day >= 182] == []


def test_depot_that_opens_after_weeks_of_zeros_has_no_spikes() -> None:
    counts = np.zeros((1, 130), np.float32)
    counts[0, 100:] = [12, 34, 43, 60, 54, 90, 40, 38, 37, 52, *[60] * 20]
    assert days_of("spike", counts) != []
    assert left_of("spike", counts) == []


def test_single_spike_among_ordinary_days_remains_a_spike() -> None:
    counts = weeks(20)
    counts[0, 100] = 900
    assert left_of("spike", counts) == [100]
    rare = np.zeros((1, 130), np.float32)
    rare[0, 5::11] = 2
    rare[0, 120] = 90
    assert left_of("spike", rare) == days_of("spike", rare)


def test_tenfold_growth_above_any_earlier_count_remains_a_unit_change() -> None:
    counts = weeks(20)
    counts[0, 120:] *= 10
    assert left_of("unit_change", counts) == days_of("unit_change", counts) != []
