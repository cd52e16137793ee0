"""Pooling: the days of all networks in one panel, each with its own calendar, none lost and none
invented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecaster.model.network.features import LOOKBACK
from forecaster.training.pooling import pool
from tests.panels import CALENDAR, panel


def test_long_histories_become_pieces_and_short_ones_begin_with_unknown_days() -> None:
    long, short = panel(2, 1000, covariates=("rain", "promo")), panel(3, 200, covariates=(), seed=1)
    pooled = pool([long, short], days=600, covariates=("promo",))
    # Ends at day 1000, at 848 (152 days earlier), 696 and 544; each depot once per piece.
    assert pooled.depot_ids[:4] == ("0 D0 0", "0 D1 0", "0 D0 1", "0 D1 1")
    assert len(pooled.depot_ids) == 4 * 2 + 3
    assert (pooled.history, pooled.horizon, pooled.calendar_names) == (600, 3, CALENDAR)
    np.testing.assert_array_equal(pooled.demand[0], long.demand[0, 400:])
    np.testing.assert_array_equal(pooled.demand[2], long.demand[0, 248:848])
    np.testing.assert_array_equal(pooled.covariates[2, :, 0], long.covariates[0, 248:851, 1])
    for row, (source, first) in {0: (long, 400), 3: (long, 248), 9: (short, -400)}.items():
        days = slice(max(first, 0), first + 603)
        group = source.calendar_group[{0: 0, 3: 1, 9: 1}[row]]
        calendar = pooled.calendar[pooled.calendar_group[row]]
        np.testing.assert_array_equal(calendar[max(-first, 0) :], source.calendar[group, days])
    assert np.isnan(pooled.demand[8:, :400]).all()
    np.testing.assert_array_equal(pooled.demand[8:, 400:], short.demand)
    assert not pooled.covariates[8:].any()
    assert pooled.statics.shape == (11, 0)


def test_a_depot_with_few_known_days_in_a_piece_is_left_out_of_it() -> None:
    whole = panel(2, 600)
    demand = whole.demand.copy()
    demand[1, 100:] = np.nan
    pooled = pool([replace(whole, demand=demand)], days=600)
    assert pooled.depot_ids == ("0 D0 0",)
    with pytest.raises(ValueError, match="no depot has enough known days"):
        pool([replace(whole, demand=np.full_like(demand, np.nan))], days=600)


def test_incompatible_panels_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"found horizons \[3, 7\] and 1 calendars, wanted one of each"):
        pool([panel(), panel(horizon=7)], days=600)
    with pytest.raises(ValueError, match=f"found pieces of {LOOKBACK} days, wanted more than {LOOKBACK}"):
        pool([panel()], days=LOOKBACK)
