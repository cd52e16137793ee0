"""Learned shares of shifts against equal ones, on simulated orders with times of day: `python -m
tests.benchmarks.shift_shares`.

No public set of ours has times of day, so orders are drawn: 40 depots, 20 weeks, three shifts. The logits of a depot's
shares on a day are those of the network (45, 35 and 20 %), plus normal effects of the depot (standard deviation 0.3),
of the weekday (0.15), of both (0.1) and of the day (0.15); its 30 to 300 orders then fall on shifts at random. Every
eighth depot opened within the last 12 weeks. The last 8 weeks are judged a week at a time, from the 12 weeks before
each. What draws shares together was chosen on seeds 100 to 104, and is judged on seeds 0 to 9.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import numpy as np

from forecaster.config import Staffing
from forecaster.staffing.shifts import shift_shares

DEPOTS, WEEKS, LEARNED, JUDGED = 40, 20, 12, 8
MONDAY = date(2024, 1, 1)
HOURS = (("early", "06:00", "12:00"), ("midday", "12:00", "18:00"), ("late", "18:00", "22:00"))
SHIFTS = [{"name": name, "start": start, "end": end, "share": "learn"} for name, start, end in HOURS]
STAFF = Staffing.model_validate({"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, "shifts": SHIFTS})


def simulate(seed: int) -> tuple[Any, Any]:
    """Orders (shifts, depots, days), and which days each depot was open."""
    random, days = np.random.default_rng(seed), 7 * WEEKS
    weekday = np.arange(days) % 7
    logits = np.log([0.45, 0.35, 0.2])[:, None, None] + random.normal(0, 0.3, (3, DEPOTS, 1))
    logits = (
        logits + random.normal(0, 0.15, (3, 1, 7))[:, :, weekday] + random.normal(0, 0.1, (3, DEPOTS, 7))[:, :, weekday]
    )
    logits = logits + random.normal(0, 0.15, (3, DEPOTS, days))
    shares = np.exp(logits) / np.exp(logits).sum(axis=0)
    level = np.exp(random.uniform(np.log(30), np.log(300), DEPOTS))
    totals = random.poisson(level[:, None] * random.lognormal(0, 0.2, (DEPOTS, days)))
    orders = np.moveaxis(random.multinomial(totals, np.moveaxis(shares, 0, -1)), -1, 0).astype(float)
    opened = np.where(np.arange(DEPOTS) % 8 == 0, random.integers(7 * 8, 7 * WEEKS - 7, DEPOTS), 0)
    return orders, np.arange(days) >= opened[:, None]


def ways(orders: Any, known: Any, first: date) -> dict[str, Any]:
    """Shares (shifts, depots, 7) as each way has them."""
    learned = shift_shares.pooled(orders, known, first, STAFF).shares
    here = np.where(known, orders, 0.0)
    network = here.sum(axis=(1, 2)) / here.sum()
    own = here.sum(axis=2) / np.maximum(here.sum(axis=(0, 2)), 1)
    own = np.where(known.any(axis=1), own, network[:, None])
    weekday = (first.weekday() + np.arange(known.shape[1])) % 7
    raw = np.stack([here[:, :, weekday == each].sum(axis=2) for each in range(7)], axis=-1)
    total = raw.sum(axis=0)
    raw = np.where(total > 0, raw / np.maximum(total, 1), own[:, :, None])
    return {
        "equal": np.full_like(learned, 1 / 3),
        "as hours": shift_shares.of_hours(STAFF, DEPOTS).shares,
        "network's": np.broadcast_to(network[:, None, None], learned.shape),
        "depot's own": np.broadcast_to(own[:, :, None], learned.shape),
        "depot's own weekday": raw,
        "learned": learned,
    }


def main(seeds: range = range(10)) -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    young: dict[str, list[float]] = defaultdict(list)
    off: dict[str, list[float]] = defaultdict(list)
    for seed in seeds:
        orders, known = simulate(seed)
        for week in range(JUDGED):
            now = 7 * (WEEKS - JUDGED + week)
            past = slice(now - 7 * LEARNED, now)
            first, coming = MONDAY + timedelta(days=now - 7 * LEARNED), slice(now, now + 7)
            actual = orders[:, :, coming]
            total = actual.sum(axis=0)
            judged = known[:, coming] & (total > 0)
            few = judged & (known[:, past].sum(axis=1) < 28)[:, None]
            for way, shares in ways(orders[:, :, past], known[:, past], first).items():
                error = np.abs(actual / np.maximum(total, 1) - shares)
                errors[way] += error[:, judged].ravel().tolist()
                young[way] += error[:, few].ravel().tolist()
                off[way] += np.abs(actual - shares * total)[:, judged].ravel().tolist()
    print(f"{'':22}{'share, points':>15}{'young depots':>15}{'orders a shift':>16}")
    for way, values in errors.items():
        print(f"{way:22}{100 * np.mean(values):>15.2f}{100 * np.mean(young[way]):>15.2f}{np.mean(off[way]):>16.2f}")


if __name__ == "__main__":
    main()
