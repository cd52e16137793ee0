"""Many pipelines on one PostgreSQL and one object store, their nights overlapping: what is mixed, lost or late.

Each pipeline has counts of its own, three depots that are called as in all others, and one that is called as itself;
names begin alike (`fleet-1`, `fleet-10`), as do the places of their lakes. Some train a small model in their first
night, the others forecast without one. A sample of them runs alone, too, on files: what is shown has to be the same to
the bit.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import sqlalchemy as sa

from forecaster.config import load
from forecaster.lake import Lake
from forecaster.ledger import connect, tables
from tests.benchmarks.report import ROOT, Figure, below, tell, working_folder
from tests.databases import Postgres, postgres_server
from tests.flows.tiny import PIPELINE, WEEK
from tests.stores import s3_server

FIRST, DAYS = date(2026, 1, 1), 120  # of the counts before the first night
SHARED = ("D0", "D1", "D2")  # depots that every pipeline has
DEPOTS = len(SHARED) + 1
BUCKET = "fleets"
KEYS = {"AWS_ACCESS_KEY_ID": "testing-key", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_REGION": "us-east-1"}
PUBLISHED, DEGRADED = 0, 3
LIMIT = 900.0  # seconds for one night


@dataclass(frozen=True)
class Place:
    """One ledger and one object store; without them a pipeline has files of its own."""

    folder: Path
    ledger: str | None = None
    store: str | None = None

    def file(self, number: int) -> Path:
        return self.folder / f"fleet-{number}" / "pipeline.yaml"

    def environment(self) -> dict[str, str]:
        if self.store is None:
            return dict(os.environ)
        return {**os.environ, **KEYS, "AWS_ENDPOINT_URL": self.store, "AWS_ALLOW_HTTP": "true"}


@dataclass(frozen=True)
class Ending:
    """How a night ended: exit code, seconds on the clock, seconds of a processor, and its last words."""

    code: int
    begun: float
    seconds: float
    computed: float
    said: str

    @property
    def is_out(self) -> bool:
        return self.code in (PUBLISHED, DEGRADED)


def counts(number: int, days: int) -> list[str]:
    """Rows of a pipeline's source: Poisson counts around a level of its own."""
    chance = random.Random(number)
    level = 20 + 7 * (number % 40)
    names = (*SHARED, f"fleet-{number}-own")
    return [
        f"{name},{FIRST + timedelta(day)},{max(0, round(chance.gauss(1, 0.15) * level * (1 + place) * WEEK[day % 7]))}"
        for day in range(days)
        for place, name in enumerate(names)
    ]


def write(place: Place, number: int, days: int = DAYS) -> None:
    """The pipeline file and its source with the counts of so many days."""
    file = place.file(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.parent / "demand.csv").write_text("\n".join(["depot_id,date,demand", *counts(number, days)]) + "\n", "utf-8")
    lines = [PIPELINE.replace("name: tiny", f"name: fleet-{number}").strip()]
    if place.ledger is not None:
        lines += [f"ledger: {place.ledger!r}", f"lake: s3://{BUCKET}/fleet-{number}"]
    file.write_text("\n".join(lines) + "\n", "utf-8")


def as_of(night: int) -> datetime:
    """When a night is run: the morning after the last of its days."""
    return datetime(FIRST.year, FIRST.month, FIRST.day, 3, 15, tzinfo=UTC) + timedelta(days=DAYS + night)


def run(place: Place, number: int, night: int, *, trains: bool) -> Ending:
    """A night by itself: one that trains where that is asked for, else one that forecasts with what there is."""
    words = ["run" if trains else "predict-only", str(place.file(number)), "--plain"]
    said = place.file(number).with_name(f"said-{night}")
    begun = time.monotonic()
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecaster", *words, "--as-of", as_of(night).isoformat()],
            cwd=ROOT,
            stdout=out,
            stderr=out,
            env=place.environment(),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    last = (said.read_text("utf-8", errors="replace").strip() or "nothing").splitlines()[-1]
    computed = usage.ru_utime + usage.ru_stime
    return Ending(process.returncode, begun, time.monotonic() - begun, computed, last)


def run_all(place: Place, numbers: Sequence[int], night: int, *, trained: int, at_once: int) -> list[Ending]:
    """A night of each pipeline, so many at once."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda number: run(place, number, night, trains=night == 0 and number < trained), numbers))


def shown(url: str, name: str) -> list[tuple[Any, ...]]:
    """What a pipeline's page shows of its depots: each number as it stands in the ledger."""
    days = tables.published
    query = (
        sa.select(days.c.depot_id, days.c.target_date, days.c.quantiles, days.c.drivers, days.c.roster)
        .join(tables.slot, tables.slot.c.publication_id == days.c.publication_id)
        .where(tables.slot.c.pipeline == name)
        .order_by(days.c.depot_id, days.c.target_date)
    )
    engine = connect.reader(url)
    with engine.begin() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    engine.dispose()
    return rows


def mixed(place: Place, numbers: Sequence[int]) -> list[str]:
    """Whatever of one pipeline stands with another, a sentence each."""
    faults = list(_mixed_in_ledger(str(place.ledger)))
    for number in numbers:
        faults += _mixed_in_lake(place, number)
    store = fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=place.store)
    there = {path.split("/")[1] for path in store.find(BUCKET)}
    if strange := there - {f"fleet-{number}" for number in numbers}:
        faults.append(f"bucket: found {sorted(strange)}")
    return faults


def _mixed_in_ledger(url: str) -> Iterator[str]:
    """Rows that name a pipeline and belong to a run, a publication or a depot of another."""
    engine = connect.reader(url)
    runs, publications = tables.runs.c, tables.publications.c
    with engine.begin() as connection:
        of_run: dict[str, str] = dict(connection.execute(sa.select(runs.run_id, runs.pipeline)).tuples().all())
        query = sa.select(publications.publication_id, publications.pipeline, publications.run_id)
        rows = connection.execute(query).tuples().all()
        of_publication = {number: name for number, name, _ in rows}
        yield from (f"publication {i} of {name}: run of {of_run[run]}" for i, name, run in rows if of_run[run] != name)
        for table in (tables.slot, tables.promotions):
            by, key = (of_publication, "publication_id") if table is tables.slot else (of_run, "run_id")
            for name, other in connection.execute(sa.select(table.c.pipeline, table.c[key])).tuples():
                if by[other] != name:
                    yield f"{table.name} of {name}: found what is {by[other]}'s"
        for table in (tables.published_depots, tables.published):
            pairs = connection.execute(sa.select(table.c.publication_id, table.c.depot_id).distinct()).tuples()
            for publication, depot in pairs:
                if depot not in (*SHARED, f"{of_publication[publication]}-own"):
                    yield f"{table.name} of {of_publication[publication]}: found depot {depot}"
    engine.dispose()


def _mixed_in_lake(place: Place, number: int) -> Iterator[str]:
    """Rows in a pipeline's lake of depots or fleets that are not its own."""
    name = f"fleet-{number}"
    lake = Lake(load(place.file(number)).lake_url)
    if (owners := lake.read("owners").column("fleet").to_pylist()) != [name]:
        yield f"lake of {name}: owners are {owners}"
    for table in ("demand", "forecasts"):
        depots = set(lake.read(table, columns=["depot_id"]).column("depot_id").to_pylist())
        if depots != {*SHARED, f"{name}-own"}:
            yield f"lake of {name}, {table}: found depots {sorted(depots)}"


def lost(place: Place, numbers: Sequence[int], nights: int) -> list[str]:
    """Readings and publications that are not there, or twice."""
    faults = []
    engine = connect.reader(str(place.ledger))
    with engine.begin() as connection:
        published = Counter(connection.execute(sa.select(tables.publications.c.pipeline)).scalars())
        leases = connection.execute(sa.select(tables.lease.c.pipeline)).scalars().all()
    engine.dispose()
    faults += [f"lease of {name}: still held" for name in leases]
    for number in numbers:
        spec = load(place.file(number))
        readings = Lake(spec.lake_url).read("demand").num_rows
        if readings != (wanted := DEPOTS * (DAYS + nights - 1)):
            faults.append(f"lake of {spec.name}: found {readings} readings, wanted {wanted}")
        if published[spec.name] != nights:
            faults.append(f"{spec.name}: found {published[spec.name]} publications, wanted {nights}")
    return faults


def differing(place: Place, alone: Place, numbers: Sequence[int], nights: int, trained: int) -> list[str]:
    """The pipelines that show anything else than they do alone."""
    faults = []
    for number in numbers:
        for night in range(nights):
            write(alone, number, DAYS + night)
            run(alone, number, night, trains=night == 0 and number < trained)
        name, ledger = f"fleet-{number}", load(alone.file(number)).ledger_url
        if not (rows := shown(ledger, name)) or rows != shown(str(place.ledger), name):
            faults.append(f"{name}: shows other numbers than alone")
    return faults


@contextmanager
def place_of_all(folder: Path, *settings: str) -> Iterator[tuple[Place, Postgres]]:
    """One PostgreSQL and one object store."""
    with postgres_server(*settings) as server, s3_server() as address:
        fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=address).mkdir(BUCKET)
        place = Place(folder / "together", server.url().render_as_string(hide_password=False), address)
        os.environ |= {name: value for name, value in place.environment().items() if name.startswith("AWS_")}
        yield place, server


def measure(folder: Path, count: int, at_once: int, nights: int, trained: int, sample: int) -> list[Figure]:
    """All figures; what is mixed, lost or different is printed by name."""
    numbers = range(count)
    with place_of_all(folder) as (place, server):
        before = [_alone(place, count + number) for number in range(3)]  # on the same servers, before the others
        took, endings = [], []
        for night in range(nights):
            for number in numbers:
                write(place, number, DAYS + night)
            begun = time.monotonic()
            endings += run_all(place, numbers, night, trained=trained, at_once=at_once)
            took.append(time.monotonic() - begun)
        after = [_alone(place, count + 3 + number) for number in range(3)]
        everyone = range(count + 6)
        faults = mixed(place, everyone) + lost(place, numbers, nights)
        other = differing(place, Place(folder / "alone"), _spread(count, sample), nights, trained)
        failed = [ending for ending in endings if not ending.is_out]
        for sentence in [*faults, *other, *Counter(ending.said for ending in failed)]:
            print("FAULT", sentence, flush=True)
        quiet = [e for e in endings[trained:] if e.is_out]
        return [
            below("nights that published nothing", len(failed), "", 1),
            below("mixed, lost or twice", len(faults), "", 1),
            below("other numbers than alone, on files", len(other), "", 1),
            Figure("a night alone, before the others", _median([e.seconds for e in before]), "s", n=3),
            Figure("the same, after them", _median([e.seconds for e in after]), "s", n=3),
            Figure(f"a night among {at_once} at once", _median([e.seconds for e in quiet]), "s", n=len(quiet)),
            *_ratios(quiet, [*before, *after], at_once),
            Figure("all nights of one date", _median(took), "s", n=len(took)),
            Figure("connections of PostgreSQL in use at the end", connections(server), ""),
        ]


def _ratios(among: Sequence[Ending], alone: Sequence[Ending], at_once: int) -> list[Figure]:
    """What a night takes among others to what it takes alone: on the clock by its share of the processors, and of a
    processor, which other work of the machine disturbs least."""
    share = max(1.0, at_once / (os.cpu_count() or 1))
    clock = np.array([e.seconds for e in among]) / (_median([e.seconds for e in alone]) * share)
    computed = np.array([e.computed for e in among]) / _median([e.computed for e in alone])
    figures = []
    for name, ratios in (("on the clock, by its share", clock), ("of a processor", computed)):
        figures += [
            Figure(f"among others to alone, {name}: median", float(np.median(ratios)), "", n=len(ratios)),
            Figure(f"among others to alone, {name}: p95", float(np.percentile(ratios, 95)), "", n=len(ratios)),
        ]
    return figures


def _alone(place: Place, number: int) -> Ending:
    write(place, number)
    return run(place, number, 0, trains=False)


def _spread(count: int, sample: int) -> list[int]:
    """So many of the numbers, the first among them, evenly."""
    return sorted({round(number) for number in np.linspace(0, count - 1, min(sample, count))})


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def connections(server: Postgres) -> float:
    """How many there are, that of who counts included."""
    engine = sa.create_engine(server.url(), poolclass=sa.NullPool)
    with engine.begin() as connection:
        count = connection.exec_driver_sql("select count(*) from pg_stat_activity where usename = 'owner'").scalar()
    return float(count or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=4, help="nights that run together")
    parser.add_argument("--nights", type=int, default=2, help="of each pipeline, a day apart")
    parser.add_argument("--trained", type=int, default=2, help="pipelines whose first night trains")
    parser.add_argument("--sample", type=int, default=4, help="pipelines that run alone, too")
    parser.add_argument("--keep", type=Path, help="a folder that stays")
    chosen = parser.parse_args()
    with working_folder(chosen.keep, "pipelines-") as folder:
        figures = measure(folder, chosen.pipelines, chosen.at_once, chosen.nights, chosen.trained, chosen.sample)
        tell("pipelines", figures)


if __name__ == "__main__":
    main()
