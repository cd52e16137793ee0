"""A ledger with one publication of made-up depots that look like real ones, for the tests of the page."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from forecaster.ledger import Ledger, Publication, PublishedDay, PublishedDepot, PublishedMark, RecentDay

CUTOFF = date(2025, 6, 16)  # a Monday
PUBLISHED = datetime(2025, 6, 17, 7, 24, tzinfo=UTC)  # 03:24 in New York
NOON = datetime(2025, 6, 17, 16, 0, tzinfo=UTC)  # tomorrow is Wednesday 18 June
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
CITIES = ("Boston", "New York", "Philadelphia")
WEEK = (1.0, 0.95, 1.0, 1.08, 1.3, 1.45, 0.8)
ODD_ID = "Pier 9/<b>\"Süd\"</b> & 'Ø' 🚚?#%"


def depot(number: int, depot_id: str | None = None, staffed: bool = True) -> PublishedDepot:
    """One depot; every third is closed on Sundays, and all stay shut on 19 June but have it announced."""
    rng = random.Random(number)
    city = CITIES[number % 3]
    base = rng.uniform(60, 420)

    def opens(day: date) -> bool:
        return not (day.weekday() == 6 and number % 3 == 0) and day != date(2025, 6, 19)

    recent = []
    for back in range(34, -1, -1):
        day = CUTOFF - timedelta(days=back)
        came: float | None = round(base * WEEK[day.weekday()] * rng.uniform(0.85, 1.15))
        recent.append(RecentDay(day, None if back == 11 else came if opens(day) else 0.0, opens(day)))
    days = []
    for step in range(1, 8):
        day = CUTOFF + timedelta(days=step)
        median = base * WEEK[day.weekday()]
        values = tuple(median * (1 + (0.16 + 0.01 * step) * z) for z in (-1.28, -0.52, 0.0, 0.52, 1.28))
        drivers = (round(median / 45) + 1 if opens(day) else 0) if staffed else None
        days.append(PublishedDay(day, step, opens(day), values if opens(day) else (0.0,) * 5, drivers))
    marks = (
        PublishedMark(date(2025, 5, 26), "holiday", "Memorial Day"),
        PublishedMark(date(2025, 6, 13), "promo", "Free delivery weekend"),
        PublishedMark(date(2025, 6, 19), "holiday", "Juneteenth National Independence Day"),
    )
    attributes = {"city": city, "country": "US", "subdivision": ("MA", "NY", "PA")[number % 3]}
    name = depot_id or f"{('BOS', 'NYC', 'PHL')[number % 3]}-{number // 3 + 1:02d}"
    return PublishedDepot(name, tuple(days), tuple(recent), attributes, marks)


def publication(depots: int = 6, **changes: Any) -> Publication:
    made = Publication(
        pipeline="harbor-fleet",
        run_id="night-1",
        published_at=PUBLISHED,
        as_of=PUBLISHED,
        cutoff=CUTOFF,
        horizon=7,
        tier="fresh",
        model="harbor-fleet v3",
        timezone="America/New_York",
        levels=LEVELS,
        depots=tuple(depot(i) for i in range(depots)),
        bundle_digest="5f0c",
        title="Harbor Fleet",
    )
    return replace(made, **changes)


def fill(url: str, *publications: Publication) -> None:
    """Publish one after the other, each in the run that it names."""
    with Ledger.open(url) as ledger:
        begun = {run.run_id for run in ledger.runs()}
        for each in publications:
            if each.run_id not in begun:
                ledger.start_run(each.run_id, pipeline=each.pipeline, as_of=each.as_of, spec_digest="5pec")
                begun.add(each.run_id)
            ledger.publish(each)
