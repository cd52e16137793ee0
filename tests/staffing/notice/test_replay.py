"""Replay of eight weeks of nights with a published schedule: every change within the notice has its
price."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.forecast import Fold
from forecaster.staffing.notice.replay import replay_notice
from tests.panels import bare, fold, spec
from tests.staffing.notice.test_premiums import NEW_YORK

FIRST = date(2025, 6, 1)
WEEKS = 8


def staffed(**more: Any) -> Spec:
    costs = {"orders_per_driver": 10, "cost_short": 60, "cost_idle": 40, "notice_days": 14, "change_premium": NEW_YORK}
    content = {**spec().model_dump(exclude_unset=True), "horizon": 15, "staffing": {**costs, **more}}
    return Spec.model_validate(content)


def nights(depots: int = 6, seed: int = 7) -> list[Fold]:
    """Forecasts that converge to the actuals night by night."""
    random = np.random.default_rng(seed)
    days = 7 * WEEKS + 15
    actual = random.poisson(60, (depots, days)).astype(float)
    errors = random.normal(0, 25, (depots, days, 15)) / np.sqrt(np.arange(15, 0, -1))
    folds = []
    for night in range(7 * WEEKS):
        ahead = np.arange(15)
        median = np.maximum(actual[:, night + ahead] + errors[:, night + ahead, 14 - ahead], 10)
        spread = 4 + 1.2 * ahead
        quantiles = np.stack([median - spread, median, median + spread], axis=-1)
        known = np.where(night + ahead < 7 * WEEKS, actual[:, night + ahead], np.nan)
        folds.append(fold(np.maximum(quantiles, 0), known, cutoff=FIRST + timedelta(days=night)))
    return folds


@pytest.mark.parametrize(
    "shifts",
    [
        (),
        (
            {"name": "early", "start": "06:00", "end": "14:00", "share": 0.6},
            {"name": "late", "start": "14:00", "end": "22:00", "share": 0.4},
        ),
    ],
)
def test_no_change_within_the_notice_is_unpriced_and_the_total_costs_no_more(shifts: Any) -> None:
    folds, how = nights(), staffed(shifts=shifts)
    every, noticed = replay_notice(folds, bare(np.ones((6, 10))), how)
    assert (every.unpriced, noticed.unpriced) == (0, 0)
    assert 0 < noticed.changes < every.changes
    assert noticed.premiums < every.premiums
    assert noticed.cost + noticed.premiums <= every.cost + every.premiums


def test_changes_and_premiums_by_hand() -> None:
    """Five drivers are expected for a day until its last night, then seven, with less than 24 hours
    of notice."""
    folds = [
        fold(
            [[[50, 50, 50] if step else [70, 70, 70] for step in range(15)]], [[70.0] * 15], cutoff=FIRST + timedelta(n)
        )
        for n in range(3)
    ]
    every, noticed = replay_notice(folds, bare(np.ones((1, 10))), staffed())
    # the first night publishes seven for its own day, and five for the two others, which get two
    # more for 15 each
    assert (every.cost, every.premiums, every.changes) == (0, 60, 4)
    assert noticed == type(noticed)(noticed.roster, 0, 60, 4, 0)
    dear = [{"added": 61, "removed": 61}]
    every, noticed = replay_notice(folds, bare(np.ones((1, 10))), staffed(change_premium=dear))
    assert (every.premiums, noticed.premiums, noticed.cost) == (4 * 61, 0, 4 * 60)


def test_changes_without_a_premium_are_counted_as_unpriced() -> None:
    folds = nights(2)
    every, _ = replay_notice(folds, bare(np.ones((2, 10))), staffed(change_premium=[{"added": 10}]))
    assert every.unpriced > 0
