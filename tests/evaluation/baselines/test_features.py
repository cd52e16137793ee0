"""The features of the gradient-boosted baseline use nothing that was unknown at the cutoff."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from forecaster.evaluation.baselines.features import LOOKBACK, Rows, Table
from tests.panels import NAN, bare, panel


def rows(depots: int, cutoff: int, horizon: int) -> Rows:
    depot, step = np.divmod(np.arange(depots * horizon), horizon)
    return Rows(depot, np.full(depot.shape, cutoff), step + 1)


def column(table: Table, name: str, at: Rows) -> np.ndarray:
    return table.matrix(at)[:, table.names.index(name)]


def test_a_row_is_the_same_in_training_and_when_forecasting() -> None:
    tonight = panel(3, 560, 7)
    closed = tonight.open.copy()
    closed[1, 3::7] = False
    tonight = replace(tonight, open=closed)
    cutoff = tonight.cutoff - timedelta(days=20)
    then = tonight.at(cutoff)
    training = Table(tonight).matrix(rows(3, then.history - 1, 7))
    recent = then.last(LOOKBACK)
    assert recent.history == LOOKBACK < then.history
    np.testing.assert_allclose(Table(recent).matrix(rows(3, LOOKBACK - 1, 7)), training, rtol=1e-4, atol=1e-5)


def test_lags_and_same_weekdays_precede_the_cutoff() -> None:
    counts = np.exp(np.arange(35.0) / 10)[None] - 1  # its logarithms are 0, 0.1, 0.2 …
    table, at = Table(bare(counts)), rows(1, 34, 7)
    level = np.arange(7, 35).mean() / 10
    np.testing.assert_allclose(column(table, "lag 0", at), 3.4 - level, rtol=1e-4)
    np.testing.assert_allclose(column(table, "lag 3", at), 3.1 - level, rtol=1e-4)
    np.testing.assert_allclose(column(table, "same weekday 1", at), np.arange(28, 35) / 10 - level, atol=1e-4)
    np.testing.assert_allclose(column(table, "same weekday of 4", at), np.arange(17.5, 24) / 10 - level, atol=1e-4)
    assert np.isnan(column(table, "last year", at)).all()
    assert table.level_at(at) == pytest.approx(level, rel=1e-4)


def test_a_covariate_beyond_the_horizon_is_nan() -> None:
    tonight = panel(1, 60, 3)
    feature = column(Table(tonight), "covariate promo +2", rows(1, 40, 3))
    np.testing.assert_array_equal(feature, [tonight.covariates[0, 43, 0], NAN, NAN])
