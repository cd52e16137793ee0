"""A small publication, and a run for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from forecaster.ledger.publication import (
    LeftCrew,
    Publication,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedRoster,
    PublishedTotal,
    RecentDay,
    Shortage,
)
from forecaster.ledger.store import Ledger

NIGHT = datetime(2025, 6, 18, 7, 15, tzinfo=UTC)


CUTOFF = date(2025, 6, 17)


LEVELS = (0.1, 0.5, 0.9)


ROSTERS = {
    1: PublishedRoster(
        3,
        0.125,
        41.5,
        44.0,
        None,
        borrowed=(("D9", 2),),
        wanted=4,
        shortage=Shortage("Ulm", 0.875, network=True),
        left=LeftCrew(4, 12.5, 20, 14),
        changed_at=datetime(2026, 1, 1, 14, 30, tzinfo=UTC),
    ),
    3: PublishedRoster(None, 0.0, 0.1 + 0.2, None, 44.0),  # no loans, and a number with many digits
}


def start(ledger: Ledger, run_id: str, pipeline: str = "harbor-fleet", hours: int = 0) -> None:
    at = NIGHT + timedelta(hours=hours)
    ledger.start_run(run_id, pipeline=pipeline, as_of=at, spec_digest="5pec", lake_versions={"demand": 3}, at=at)


def publication(run_id: str = "night-1", orders: float = 100.0, depots: int = 2, **changes: object) -> Publication:
    """Publication of depots D0, D1, … with `orders` expected, ± 20; closed on the second day."""
    days = tuple(
        PublishedDay(
            CUTOFF + timedelta(days=step),
            step,
            step != 2,
            (orders - 20, orders, orders + 20) if step != 2 else (0.0, 0.0, 0.0),
            drivers=3,
            roster=ROSTERS.get(step),
        )
        for step in (1, 2, 3)
    )
    recent = (RecentDay(CUTOFF - timedelta(days=1), 97), RecentDay(CUTOFF, None), RecentDay(CUTOFF, 0.0, open=False))
    marks = (PublishedMark(date(2025, 6, 19), "holiday", "Juneteenth"),)
    whole = Publication(
        pipeline="harbor-fleet",
        run_id=run_id,
        published_at=NIGHT,
        as_of=NIGHT,
        cutoff=CUTOFF,
        horizon=3,
        tier="fresh",
        model="harbor-fleet v3",
        timezone="America/New_York",
        levels=LEVELS,
        depots=tuple(PublishedDepot(f"D{i}", days, recent, {"city": "Boston"}, marks) for i in range(depots)),
        bundle_digest="b0",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def broken(**changes: object) -> Publication:
    """Publication with a changed first day of its first depot."""
    whole = publication()
    first = whole.depots[0]
    day = replace(first.days[0], **changes)  # type: ignore[arg-type]
    return replace(whole, depots=(replace(first, days=(day, *first.days[1:])), *whole.depots[1:]))


def total(city: str = "", step: int = 1, quantiles: tuple[float, ...] = (180.0, 200.0, 220.0)) -> PublishedTotal:
    return PublishedTotal(city, CUTOFF + timedelta(days=step), quantiles)
