"""A ledger with one publication of realistic synthetic depots, for the tests of the page."""

from __future__ import annotations

import pickle
import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from forecaster.config import EmploymentContract, Shift
from forecaster.ledger import accuracy, tables
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.publication import Publication, PublishedDay, PublishedDepot, PublishedMark, RecentDay
from forecaster.ledger.store import Ledger
from forecaster.staffing.people.week_planner import Staff, WantedShift
from forecaster.staffing.people.week_plans import instants
from forecaster.staffing.people.worker import Worker
from tests.staffing.people.weeks import plan_week

CUTOFF = date(2025, 6, 16)  # a Monday
PUBLISHED = datetime(2025, 6, 17, 7, 24, tzinfo=UTC)  # 03:24 in New York
NOON = datetime(2025, 6, 17, 16, 0, tzinfo=UTC)  # tomorrow is Wednesday, 18 June
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
CITIES = ("Boston", "New York", "Philadelphia")
WEEK = (1.0, 0.95, 1.0, 1.08, 1.3, 1.45, 0.8)
ODD_ID = "Pier 9/<b>\"Süd\"</b> & 'Ø' 🚚?#%"


def depot(number: int, depot_id: str | None = None, staffed: bool = True, horizon: int = 7) -> PublishedDepot:
    """Return one depot; every third is closed on Sundays, and all have an announced closure on 19
    June."""
    rng = random.Random(number)
    city = CITIES[number % 3]
    base = rng.uniform(60, 420)

    def opens(day: date) -> bool:
        return not (day.weekday() == 6 and number % 3 == 0) and day != date(2025, 6, 19)

    recent = []
    for back in range(34, -1, -1):
        day = CUTOFF - timedelta(days=back)
        actual: float | None = round(base * WEEK[day.weekday()] * rng.uniform(0.85, 1.15))
        recent.append(RecentDay(day, None if back == 11 else actual if opens(day) else 0.0, opens(day)))
    days = []
    for step in range(1, horizon + 1):
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


def publication(depots: int = 6, horizon: int = 7, **changes: Any) -> Publication:
    plain = Publication(
        pipeline="harbor-fleet",
        run_id="night-1",
        published_at=PUBLISHED,
        as_of=PUBLISHED,
        cutoff=CUTOFF,
        horizon=horizon,
        tier="fresh",
        model="harbor-fleet v3",
        timezone="America/New_York",
        levels=LEVELS,
        depots=tuple(depot(i, horizon=horizon) for i in range(depots)),
        bundle_digest="5f0c",
        title="Harbor Fleet",
    )
    return replace(plain, **changes)


def with_plans(whole: Publication, *, named: bool = False) -> Publication:
    """Return the publication with a weekly plan for each depot: one person, optionally named after
    the depot and with a day off, and two early shifts a day."""
    shift, contract = (
        Shift(name="early", start="06:00", end="14:00", share=1),
        EmploymentContract(name="x", per_depot=1),
    )
    plans = []
    for member in whole.depots:
        days = [day.target_date for day in member.days]
        wanted = [
            WantedShift(day, "early", *instants(shift, day, ZoneInfo(whole.timezone)), (30.0, 20.0)) for day in days
        ]
        off = ((days[0], days[0]),)
        person = Worker(member.depot_id, f"Ana of {member.depot_id}", "x", off, ("late",))
        crew = [Staff(contract, 0, (person,)) if named else Staff(contract, 1)]
        plans.append(plan_week(member.depot_id, days, wanted, crew, at=whole.published_at))
    return replace(whole, plans=tuple(plans))


_FILLED: dict[bytes, bytes] = {}  # ledger files by the publications that they contain


def fill(url: str, *publications: Publication) -> None:
    """Publish in order, each in the run that it names. A new file is copied from a cached equal one
    if possible; the content is the same as if it were written again."""
    file, content = _new_file(url), pickle.dumps(publications)
    if file and content in _FILLED:
        file.write_bytes(_FILLED[content])
        return
    with Ledger.open(url) as ledger:
        begun = {run.run_id for run in ledger.runs()}
        for edition in publications:
            if edition.run_id not in begun:
                ledger.start_run(edition.run_id, pipeline=edition.pipeline, as_of=edition.as_of, spec_digest="5pec")
                begun.add(edition.run_id)
            _publish(ledger, edition)
    if file:
        with closing(sqlite3.connect(file)) as connection:
            _FILLED[content] = connection.serialize()


def _new_file(url: str) -> Path | None:
    """Return the file of a new SQLite ledger; None if it exists, or for another kind of database."""
    address = sa.make_url(url)
    file = Path(address.database or "")
    return file if address.get_backend_name() == "sqlite" and file.parent.is_dir() and not file.exists() else None


def _publish(ledger: Ledger, edition: Publication) -> None:
    """Publish in a run that has ended, which is not allowed otherwise, by temporarily reopening it."""
    row = tables.runs.c
    of_run = tables.runs.update().where(row.run_id == edition.run_id)
    with ledger.transaction() as connection:
        ended = connection.execute(sa.select(row.finished_at).where(row.run_id == edition.run_id)).scalar_one()
        connection.execute(of_run.values(finished_at=None))
    ledger.publish(edition)
    with ledger.transaction() as connection:
        connection.execute(of_run.values(finished_at=ended))


def earlier(factor: float = 0.8, days: int = 1) -> Publication:
    """Return the publication of some days earlier, with forecasts scaled by `factor`."""
    now = publication(run_id="night-0", published_at=PUBLISHED - timedelta(days=days))
    then = []
    for member in now.depots:
        days_before = [
            replace(day, target_date=day.target_date - timedelta(days=days), quantiles=tuple(factor * q for q in qs))
            for day, qs in zip(member.days, (day.quantiles for day in member.days), strict=True)
        ]
        recent = tuple(day for day in member.recent if day.date <= CUTOFF - timedelta(days=days))
        then.append(replace(member, days=tuple(days_before), recent=recent))
    return replace(now, as_of=now.published_at, cutoff=CUTOFF - timedelta(days=days), depots=tuple(then))


def remember(url: str) -> None:
    """Write the accuracy of three weeks' forecasts, and promotions with their verdict."""
    weeks = [date(2025, 5, 26), date(2025, 6, 2), date(2025, 6, 9)]
    parts = [(accuracy.ALL, "")]
    parts += [(accuracy.HORIZON, f"{ahead:02d}") for ahead in (1, 2, 7)]
    parts += [(accuracy.WEEKDAY, day) for day in ("Mon", "Tue", "Sun")] + [(accuracy.CITY, city) for city in CITIES]
    tallies = [
        Tally(week, model, part, label, 40, 4000.0, error, size, 32 if model == accuracy.FORECAST else None)
        for week in weeks
        for model, error, size in ((accuracy.FORECAST, -60.0, 400.0), (accuracy.NAIVE, 100.0, 640.0))
        for part, label in parts
    ]
    tallies += [
        Tally(weeks[-1], model, accuracy.DEPOT, "BOS-01", 28, 2000.0, 20.0, size, None)
        for model, size in ((accuracy.FORECAST, 500.0), (accuracy.NAIVE, 450.0))
    ]
    verdict = {"admitted": False, "objections": ["WAPE 12.0 % is not below the champion's 9.0 %"]}
    verdict |= {
        "compared": {name: {"wape": 0.091, "bias": -0.004, "coverage": 0.81} for name in ("candidate", "champion")}
    }
    with Ledger.open(url) as ledger:
        with ledger.transaction() as connection:
            accuracy.replace_weeks(connection, "harbor-fleet", weeks, tallies)
        ledger.note("night-1", verdict=verdict, timings={"ingest": 2.0, "train": 64.0, "night": 70.0})
        for digest, version in (("aa11", "1"), ("bb22", "2")):
            reason = "admitted: it misses less than the champion did"
            ledger.promote(
                "harbor-fleet", run_id="night-1", bundle_digest=digest, by="gate", reason=reason, model_version=version
            )
        ledger.finish_run("night-1", "published", 0, tier="fresh")
