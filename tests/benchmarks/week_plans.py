"""Measure plans of the week: 5,000 depots with ten to twenty people each in a night, and what quick plans cost more.

python -m tests.benchmarks.week_plans [--depots 5000] [--patient]

Depots, orders and people are drawn: two shifts, full-time with overtime and part-time. The second
night looks back at the first one. With --patient no depot is left out for the time, as a night does after two minutes:
on a machine that is busy the seconds of processors are what counts.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from unittest import mock

import numpy as np

from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.week_plan import WeekPlan
from forecaster.staffing.people import flow, week_plans
from forecaster.staffing.people.week_plans import PlannedWeeks
from forecaster.staffing.shifts import shift_crews
from tests.benchmarks.report import Figure, below, tell
from tests.panels import panel as small_panel

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
FIRST = date(2026, 11, 25)
STAFFING = Staffing.model_validate(
    {
        "orders_per_driver": 40,
        "cost_short": 38,
        "cost_idle": 22,
        "shifts": [
            {"name": "early", "start": "06:00", "end": "14:00", "share": 0.6},
            {"name": "late", "start": "14:00", "end": "22:00", "share": 0.4},
        ],
        "people": [
            {"name": "full-time", "per_depot": "full", "hours_week": 40, "cost_overtime": 6},
            {"name": "part-time", "per_depot": "part", "max_shifts_week": 3},
        ],
    }
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depots", type=int, default=5_000)
    parser.add_argument("--patient", action="store_true")
    arguments = parser.parse_args()
    depots = arguments.depots
    if arguments.patient:
        week_plans.PLAN_SECONDS = week_plans.QUICK_SECONDS = 3600.0
    figures, before = [], dict[str, WeekPlan]()
    for night in range(2):
        wall, busy = time.monotonic(), _processor_seconds()
        result = planned(depots, night, before)
        wall, busy = time.monotonic() - wall, _processor_seconds() - busy
        before = {plan.depot_id: plan for plan in result.plans}
        name = f"{len(result.plans):,} depots, night {night + 1}"
        figures += [below(f"{name}", wall, "s", 120), Figure(f"{name}, of processors", busy, "s")]
        figures += [
            Figure(f"{name}: with the costs of rules", sum(bool(plan.rules) for plan in result.plans), "depots")
        ]
        print(f"{result.troubles}; load {os.getloadavg()[0]:.1f}", flush=True)
    tell("week_plans", figures + quick_plans(before))


def quick_plans(before: Mapping[str, WeekPlan], depots: int = 200) -> list[Figure]:
    """Of 200 depots: how many plans are proven to be the cheapest, and what plans that are made at once cost more."""
    exact = planned(depots, 2, before).plans
    with (
        mock.patch.object(week_plans, "QUICK_SECONDS", -1.0),
        mock.patch.object(flow, "_is_whole", return_value=False),
    ):
        quick = planned(depots, 2, before).plans
    same = sum(there.cost - here.cost < week_plans.CENT for here, there in zip(exact, quick, strict=True))
    return [
        Figure("plans of 200 that are proven the cheapest", sum(plan.gap == 0 for plan in exact), "depots"),
        Figure("cost of the cheapest plans", sum(plan.cost for plan in exact) / depots, "a depot and week"),
        Figure("cost of plans made at once", sum(plan.cost for plan in quick) / depots, "a depot and week"),
        Figure("plans made at once that are as cheap, of 200", same, "depots"),
    ]


def planned(depots: int, night: int, before: Mapping[str, WeekPlan]) -> PlannedWeeks:
    """The plans of drawn depots on one of some nights in a row."""
    random = np.random.default_rng(night)
    size = np.random.default_rng(99).uniform(6.5, 13, (depots, 1))
    mean = 40 * size * random.uniform(0.7, 1.3, (depots, 7))
    quantiles = (mean[..., None] * np.array([0.8, 0.92, 1, 1.08, 1.2])).astype(np.float32)
    names, first = tuple(f"D{number:05}" for number in range(depots)), FIRST + timedelta(days=night)
    days = tuple(first + timedelta(days=step) for step in range(7))
    forecast = Forecast(names, first - timedelta(days=1), days, LEVELS, quantiles, np.ones((depots, 7), bool))
    published = [
        PublishedDepot(name, tuple(PublishedDay(day, step + 1, True, ()) for step, day in enumerate(days)))
        for name in names
    ]
    roster = shift_crews.roster(forecast, STAFFING)
    at = datetime(2026, 11, 25, 3, tzinfo=UTC) + timedelta(days=night)
    return week_plans.plan_weeks(published, roster, _panel(names, size), STAFFING, timezone="UTC", at=at, before=before)


def _panel(names: tuple[str, ...], size: np.ndarray) -> Panel:
    """A panel with these depots and their people, ten to twenty each; the plans read no more of it."""
    people = np.clip(np.round(1.55 * size[:, 0]), 10, 20).astype(int)
    part = people // 3
    attributes = {"full": tuple(map(str, people - part)), "part": tuple(map(str, part))}
    return replace(small_panel(len(names)), depot_ids=names, attributes=attributes)


def _processor_seconds() -> float:
    usages = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
