"""A fleet of three depots with promotions known in advance, and a forecaster that learns from it in
seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecaster import Forecaster

TINY = {
    "model": {"layers": 1, "hidden": 4, "boosted": False},
    "training": {"members": 1, "epochs": 2},
    "backtest": {"days": 14},
}
DAYS = pd.date_range("2025-07-01", "2026-01-31")


def readings(depots: int = 3) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frames = []
    for depot in range(depots):
        promo = random.integers(0, 2, len(DAYS))
        level = (40 + 20 * depot) * (1 + 0.4 * (DAYS.day_of_week < 5)) * (1 + 0.5 * promo)
        columns = {"unique_id": depot + 1, "ds": DAYS, "y": random.poisson(level), "promo": promo}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames)


def ahead(depots: int = 3) -> pd.DataFrame:
    days = pd.date_range("2026-02-01", periods=7)
    frames = [pd.DataFrame({"unique_id": depot + 1, "ds": days, "promo": [0, 1] * 3 + [0]}) for depot in range(depots)]
    return pd.concat(frames)


def make(**arguments: Any) -> Forecaster:
    given = {"country": "DE", "preset": "quick", "quantiles": (0.1, 0.5, 0.9), "known_future": ["promo"]}
    return Forecaster(**{**given, "progress": False, "options": TINY, **arguments})
