"""Range of a sum over weeks by hand: resampled blocks of consecutive weeks."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.staffing import bootstrap


@pytest.mark.parametrize(("weeks", "block"), [(1, 1), (8, 2), (9, 3), (26, 3), (27, 3), (52, 4)])
def test_block_length_is_the_rounded_up_cube_root_of_the_weeks(weeks: int, block: int) -> None:
    assert bootstrap.block_length(weeks) == block


def test_identical_weeks_give_a_range_of_zero_width() -> None:
    assert bootstrap.ranges(np.array([[5.0, -1.0]] * 8)).tolist() == [[40.0, -8.0], [40.0, -8.0]]  # type: ignore[union-attr]


def test_too_few_weeks_have_no_range() -> None:
    assert bootstrap.ranges(np.ones((3, 1))) is None
    assert bootstrap.ranges(np.ones((4, 1))) is not None


def test_range_of_four_weeks_covers_all_pairs_of_blocks() -> None:
    """Weeks 0, 0, 4, 4: blocks of two are worth 0, 4, 8 and 4. Two of them sum to 0, 4, 8, 12 or 16
    in 1, 4, 6, 4 and 1 of 16 draws: 1/16 = 6.25 % of the sums are 0, and as many are 16."""
    ends = bootstrap.ranges(np.array([[0.0], [0.0], [4.0], [4.0]]))
    assert ends is not None
    assert ends[:, 0].tolist() == [0.0, 16.0]


def test_each_draw_has_the_full_number_of_weeks_and_is_deterministic() -> None:
    counts = bootstrap._times_drawn(26)
    assert (counts.sum(axis=1) == 26).all()
    assert np.array_equal(bootstrap._times_drawn.__wrapped__(26), counts)
