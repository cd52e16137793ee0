"""Gaps of a feed: flat lines, silent depots, thin days with few depots, low days."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.core.arrays import Bools, Days, Floats
from forecaster.demand.validation.feed_gaps import ThinDay, early_ends, flat_lines, low_days, silent_depots, thin_day

NAN = float("nan")


def lively(days: int, depots: int = 1, mean: float = 100) -> Floats:
    return np.random.default_rng(3).poisson(mean, (depots, days)).astype(np.float32)


def last_only(counts: Floats, days: int = 1) -> Bools:
    fresh = np.zeros(counts.shape, bool)
    fresh[:, -days:] = np.isfinite(counts[:, -days:])
    return fresh


def lines(counts: Floats, fresh: Bools | None = None, closed: Bools | None = None) -> list[tuple[int, int, int, int]]:
    runs = flat_lines(counts, np.isfinite(counts) if fresh is None else fresh, closed, flat_days=14)
    return list(zip(*(getattr(runs, name).tolist() for name in ("depot", "first", "last", "known_days")), strict=True))


def dates(*words: str) -> Days:
    return np.array(words, "datetime64[D]")


# --- flat lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stuck", [97, 0])
def test_fourteen_days_of_one_count_are_a_flat_line(stuck: float) -> None:
    counts = lively(120, depots=2)
    counts[1, 80:94] = stuck
    assert lines(counts) == [(1, 80, 93, 14)]
    counts[1, 80] = 5
    assert lines(counts) == []


@pytest.mark.parametrize("others", [0, 5])
def test_constant_count_from_the_first_day_is_a_flat_line(others: int) -> None:
    counts = np.full((1, 115), 120, np.float32)
    counts[0, :others] = lively(others)[0] if others else 0
    assert lines(counts) == [(0, others, 114, 115 - others)]
    assert lines(counts, last_only(counts)) == [(0, others, 114, 115 - others)]
    assert lines(counts[:, : others + 13]) == []


def test_days_off_do_not_end_the_only_count_of_a_depot() -> None:
    counts = np.full((1, 70), 40, np.float32)
    counts[0, 6::7] = 0
    assert lines(counts) == [(0, 0, 68, 60)]


@pytest.mark.parametrize("natural", [0, 1, 3])
def test_small_count_can_be_the_only_count_of_a_depot(natural: float) -> None:
    assert lines(np.full((1, 115), natural, np.float32)) == []


def test_days_without_a_count_neither_break_a_flat_line_nor_belong_to_it() -> None:
    counts = lively(120)
    counts[0, 80:96] = 97
    counts[0, [84, 90]] = NAN
    assert lines(counts) == [(0, 80, 95, 14)]
    closed = np.zeros(counts.shape, bool)
    closed[0, 85] = True
    assert lines(counts, closed=closed) == []


def test_flat_line_is_reported_while_it_continues() -> None:
    counts = lively(120)
    counts[0, 80:100] = 97
    assert lines(counts[:, :100], last_only(counts[:, :100])) == [(0, 80, 99, 20)]
    assert lines(counts[:, :101], last_only(counts[:, :101])) == []


def test_closed_depot_can_have_zeros() -> None:
    counts = lively(120)
    counts[0, 80:110] = 0
    closed = counts == 0
    assert lines(counts, closed=closed) == []


def test_low_counts_can_repeat() -> None:
    ones = lively(400, depots=300, mean=0.15)  # mostly zeros
    assert lines(ones) == []
    mostly_one = np.tile(np.array([1, 1, 1, 1, 2], np.float32), (1, 60))
    mostly_one[0, [104, 109]] = 1  # fourteen in a row
    assert lines(mostly_one) == []
    moving = lively(300, mean=1)
    moving[0, 99:131] = 2, *[1] * 30, 2
    assert lines(moving) == [(0, 100, 129, 30)]


def test_depot_that_closes_every_winter_has_no_flat_line_the_next_winter() -> None:
    counts = lively(400)
    counts[0, 30:110] = 0
    counts[0, 360:] = 0
    assert lines(counts, last_only(counts)) == []


def test_depot_with_only_a_flat_line_is_not_judged() -> None:
    assert lines(np.full((1, 60), 7, np.float32)) == []
    assert lines(np.concatenate([lively(28), np.full((1, 60), 7, np.float32)], axis=1)) == [(0, 28, 87, 60)]


@given(seed=st.integers(0, 2**32 - 1), depots=st.integers(1, 5), days=st.integers(1, 70), new=st.sampled_from([1, 70]))
def test_batch_search_finds_the_same_lines_as_a_search_by_depot(seed: int, depots: int, days: int, new: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.poisson(random.choice([0.2, 1, 30], (depots, 1)), (depots, days)).astype(np.float32)
    for depot in range(depots):
        start = random.integers(0, days)
        counts[depot, start : start + 20] = random.choice([0, 1, 30])
    counts[random.random(counts.shape) < 0.1] = NAN
    closed = random.random(counts.shape) < 0.05
    fresh = np.isfinite(counts) & (np.arange(days) >= days - new)
    assert lines(counts, fresh, closed) == slowly(counts, fresh, closed)


def slowly(counts: Floats, fresh: Bools, closed: Bools) -> list[tuple[int, int, int, int]]:
    runs = []
    for depot, row in enumerate(counts):
        days = [t for t in range(len(row)) if np.isfinite(row[t]) and not closed[depot, t]]
        if len(positive := {row[t] for t in days if row[t] > 0}) == 1 and min(positive) >= 10:
            days = [t for t in days if row[t] > 0]
        start = 0
        for end in range(1, len(days) + 1):
            if end < len(days) and row[days[end]] == row[days[start]]:
                continue
            run, rest = days[start:end], len(days) - (end - start)
            if len(run) >= 14 and (rest >= 28 or row[run[0]] >= 10) and fresh[depot, run].any():
                zero = row[run[0]] == 0
                inside = set(range(start, end - 1))
                pairs = [k for k in range(len(days) - 1) if k not in inside and (row[days[k]] == 0) == zero]
                equal = sum(row[days[k]] == row[days[k + 1]] for k in pairs)
                zeros = sum(row[t] == 0 for t in days if t not in run)
                chance = max(equal / (len(pairs) + 1), (zeros + 1) / (rest + 2))
                chance = chance if zero else (equal + 1) / (len(pairs) + 2)
                if rest * chance ** (len(run) - 1) < 1e-3:
                    runs.append((depot, run[0], run[-1], len(run)))
            start = end
    return runs


# --- silent depots ----------------------------------------------------------------------------------------------------


def test_silent_depots_are_reported_with_the_longest_silence_first() -> None:
    last = dates("2024-02-29", "2024-02-16", "2024-02-15", "2024-02-01", "NaT", "NaT", "2024-02-01")
    opened = dates("NaT", "NaT", "NaT", "NaT", "2024-01-01", "NaT", "NaT")
    closed = dates("NaT", "NaT", "NaT", "2024-03-05", "NaT", "NaT", "2024-03-01")
    silences = silent_depots(last, opened, closed, np.datetime64("2024-03-01"), max_gap_days=14)
    assert (silences.depot.tolist(), silences.days.tolist()) == ([4, 3, 2], [60, 29, 15])


def test_many_depots_that_end_together_are_reported_before_any_is_silent() -> None:
    newest, none = np.datetime64("2024-03-01"), dates("NaT", "NaT", "NaT", "NaT", "NaT")
    two_of_four = dates("2024-02-16", "2024-03-01", "2024-02-20", "2024-02-29", "2020-01-01")
    ends = early_ends(two_of_four, none, newest, longest=90)
    assert ends is not None
    assert (ends.depot.tolist(), ends.days.tolist()) == ([0, 2], [14, 10])
    assert len(silent_depots(two_of_four[:4], none[:4], none[:4], newest, max_gap_days=14)) == 0
    assert early_ends(dates("2024-02-16", *["2024-03-01"] * 4), none, newest, longest=90) is None, "one alone"
    assert early_ends(dates(*["2024-02-23"] * 4, "2024-03-01"), none, newest, longest=90) is None, "open once a week"
    closed = dates("2024-02-17", "NaT", "2024-02-21", "NaT", "NaT")
    assert early_ends(two_of_four, closed, newest, longest=90) is None


def test_depot_that_opens_later_is_not_silent() -> None:
    none = dates("NaT")
    assert len(silent_depots(none, dates("2024-04-01"), none, np.datetime64("2024-03-01"), max_gap_days=1)) == 0


# --- thin days --------------------------------------------------------------------------------------------------------


def test_day_with_less_than_half_of_the_depots_is_thin() -> None:
    counts = lively(29, depots=10)
    counts[:6, -1] = NAN
    assert thin_day(counts, last_only(counts), thin_share=0.5) == ThinDay(28, 4, 10.0)
    assert thin_day(counts, last_only(counts), thin_share=0.4) is None
    counts[5, -1] = 3
    assert thin_day(counts, last_only(counts), thin_share=0.5) is None


def test_the_newest_day_of_a_first_load_is_judged_as_well() -> None:
    counts = lively(60, depots=10)
    counts[:6, -1] = NAN
    assert thin_day(counts, np.isfinite(counts), thin_share=0.5) == ThinDay(59, 4, 10.0)


def test_mondays_without_rows_of_most_depots_are_not_thin() -> None:
    counts = lively(36, depots=10)
    counts[:8, 0::7] = NAN
    assert thin_day(counts, last_only(counts), thin_share=0.5) is None
    counts[8, -1] = NAN
    assert thin_day(counts, last_only(counts), thin_share=0.51) == ThinDay(35, 1, 2.0)


def test_day_after_a_sparse_one_is_compared_with_the_depots_of_that_day() -> None:
    counts = lively(36, depots=10)
    counts[:6, -2:] = NAN
    assert thin_day(counts, last_only(counts), thin_share=0.5) is None


def test_closed_depots_count_as_present() -> None:
    counts, closed = lively(29, depots=10), np.zeros((10, 29), bool)
    counts[:6, -1] = NAN
    closed[:2, -1] = True
    assert thin_day(counts, last_only(counts), closed, thin_share=0.5) is None


def test_day_already_in_the_history_is_not_thin() -> None:
    counts = lively(29, depots=10)
    fresh = last_only(counts)
    fresh[3:, -1] = False
    assert thin_day(counts, fresh, thin_share=0.5) is None


def test_short_feed_and_batch_without_new_counts_have_no_thin_day() -> None:
    counts = lively(28, depots=10)
    counts[:9, -1] = NAN
    assert thin_day(counts, last_only(counts), thin_share=0.5) is None
    counts = lively(40, depots=3)
    assert thin_day(counts, np.zeros(counts.shape, bool), thin_share=0.5) is None


# --- low days ---------------------------------------------------------------------------------------------------------


def test_day_with_less_than_half_the_usual_at_nearly_all_depots_is_low() -> None:
    counts = 100 + lively(36, depots=10) % 5
    counts[:, -1] = 0
    counts[9, -1] = 100
    (low,) = low_days(counts, last_only(counts), thin_share=0.5)
    assert (low.day, low.total, low.depots) == (35, 100, 10)
    assert low.usual == pytest.approx(1000, rel=0.05)
    counts[7:, -1] = 100
    assert low_days(counts, last_only(counts), thin_share=0.5) == []


def test_every_low_day_of_a_first_load_is_named() -> None:
    counts = 100 + lively(60, depots=4) % 5
    counts[:, [40, 41, 59]] = 30
    assert [low.day for low in low_days(counts, np.isfinite(counts), thin_share=0.5)] == [40, 41, 59]


def test_low_weekdays_closed_depots_small_networks_and_missing_counts_are_not_low_days() -> None:
    counts = 100 + lively(36, depots=10) % 5
    weekly, closed = counts.copy(), np.zeros(counts.shape, bool)
    weekly[:, 0::7] = 1
    assert low_days(weekly, last_only(weekly), thin_share=0.5) == []
    counts[:, -1], closed[:9, -1] = 0, True
    assert low_days(counts, last_only(counts), closed, thin_share=0.5) == []
    assert low_days(counts[:1], last_only(counts[:1]), thin_share=0.5) == []
    few = counts / 100
    assert low_days(few, last_only(few), thin_share=0.5) == []
    counts[:, -1] = NAN
    assert low_days(counts, last_only(counts), thin_share=0.5) == []
