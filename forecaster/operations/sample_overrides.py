"""Planners' numbers for the sample, so that its pages show some; they are labeled as made up."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from forecaster.config import Spec
from forecaster.ledger.store import Ledger
from forecaster.planning import service
from forecaster.planning.overrides import ProposedOverride

BY = "the sample"
NOTE = "Made up, so that the sample has a planner's number to show."
EVERY = 2  # days between two overrides
DAYS_AHEAD = 2
AFTER = timedelta(hours=5)  # time from the morning's forecast to a planner's number


def is_sample(spec: Spec) -> bool:
    """True if the demand is simulated as well."""
    return spec.demand.source.kind == "sample"


def override_one_day(spec: Spec, as_of: datetime, publication_id: int | None) -> None:
    """Save a number for one depot-day of a publication, every other morning.

    Deterministic by morning; up to a tenth above or below the model's. Raises as `service.save`.
    """
    morning = as_of.astimezone(spec.zone).date()
    if morning.toordinal() % EVERY:
        return
    random = np.random.default_rng(morning.toordinal())
    with Ledger.open(spec.ledger_url) as ledger:
        head = next((head for head in ledger.publications(spec.name) if head.publication_id == publication_id), None)
        depots = ledger.depots(head.publication_id) if head else ()
    target = morning + timedelta(days=DAYS_AHEAD)
    days = [(depot.depot_id, day) for depot in depots for day in depot.days if day.target_date == target]
    days = [(depot_id, day) for depot_id, day in days if day.open and day.override is None]
    if not days or head is None:
        return
    depot_id, day = days[int(random.integers(len(days)))]
    median = day.quantiles[head.levels.index(0.5)]
    orders = round(median * (1 + random.choice([-1, 1]) * random.uniform(0.04, 0.1)))
    reason = spec.overrides.reasons[int(random.integers(len(spec.overrides.reasons)))]
    service.save(
        spec,
        ProposedOverride(depot_id, day.target_date, orders, reason, by=BY, note=NOTE),
        now=as_of + AFTER,
        head=head,
    )
