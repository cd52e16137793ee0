"""Ingest night after night in processes that are killed, and check the lake each time.

Tests run it as a separate program, so that children are forked before any thread starts.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import deltalake.fs  # noqa: F401 (what an ingest imports is there before the first fork)
import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa

from forecaster.config import Spec, load
from forecaster.demand import sources  # noqa: F401
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.lake import Lake
from tests.forked import child, die

FIRST, DEPOTS, NOW = date(2024, 1, 1), 5, datetime(2024, 1, 2, 3, tzinfo=UTC)
PIPELINE = """
name: t
demand: {source: {kind: csv, path: demand.csv}, rules: {unreadable_share: 0.2}}
depots: {source: {kind: csv, path: depots.csv}, static: [city]}
calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}, known_future: [promo]}
"""


def night(folder: Path, number: int) -> Spec:
    """Files of one night: another day, a restated day, and an invalid row."""
    days = range(number + 1)
    rows = [f"D{depot},{FIRST + timedelta(day)},{10 + depot + day % 7}" for day in days for depot in range(DEPOTS)]
    rows += [f"D0,{FIRST + timedelta(day)},none" for day in days]
    if number > 1:
        rows[DEPOTS * (number - 1)] = f"D0,{FIRST + timedelta(number - 1)},{20 + number % 5}"
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    depots = [f"D{depot},{'Ulm' if depot > number % 3 else 'Bonn'}" for depot in range(DEPOTS)]
    (folder / "depots.csv").write_text("\n".join(["depot_id,city", *depots]) + "\n", "utf-8")
    events = [f"{FIRST + timedelta(day)},promo,sale" for day in range(0, number + 8, 3)]
    (folder / "events.csv").write_text("\n".join(["date,kind,name", *events]) + "\n", "utf-8")
    (folder / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    return load(folder / "pipeline.yaml")


def dies_at(append: int, *, written: bool) -> Callable[[], object]:
    """Make an ingestion die at its n-th append, before or after the commit."""
    count, real = [0], Lake.append

    def dying(self: Lake, table: str, rows: pa.Table) -> int:
        count[0] += 1
        if count[0] == append and not written:
            die()
        version = real(self, table, rows)
        if count[0] == append:
            die()
        return version

    return lambda: setattr(Lake, "append", dying)


def look(spec: Spec, number: int, now: datetime) -> None:
    """Repeat the run, and compare the lake with the files."""
    result = ingest(spec, now=now)
    assert result.read == result.accepted + result.unchanged + result.quarantined == (DEPOTS + 1) * (number + 1)
    knowledge = read_as_of(spec, as_of=now)
    demand = knowledge.demand
    assert len(demand) == DEPOTS * (number + 1)
    assert not demand.duplicated(["depot_id", "date"]).any()
    restated = demand[(demand["depot_id"] == "D0") & (demand["date"] == str(FIRST + timedelta(number - 1)))]
    assert number < 2 or restated["demand"].tolist() == [20 + number % 5]
    assert len(knowledge.depots) == DEPOTS
    assert knowledge.depots["city"].tolist().count("Bonn") == number % 3 + 1
    lake = Lake(spec.lake_url)
    rows = lake.read("demand").to_pylist()
    versions = [(row["depot_id"], row["date"], row["recorded_at"]) for row in rows]
    assert len({*versions}) == len(versions)
    assert len(lake.read("quarantine")) == number + 1  # the same row again each night, and a new one
    before = lake.versions()
    assert ingest(spec, now=now).accepted == 0
    assert lake.versions() == before


def main() -> None:
    """Usage: killed_ingests.py FOLDER random N | boundaries."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    pandera.DataFrameSchema({}).validate(pd.DataFrame())  # triggers the lazy imports
    spec, begun = night(folder, 1), time.monotonic()
    assert child(lambda: look(spec, 1, NOW + timedelta(days=1))) == 0
    usual, chance, killed = time.monotonic() - begun, random.Random(7), 0
    nights = range(2, 2 + int(sys.argv[3])) if kind == "random" else range(2, 14)
    for number in nights:
        spec, now = night(folder, number), NOW + timedelta(days=number)

        def take(spec: Spec = spec, now: datetime = now, number: int = number) -> None:
            if kind == "boundaries":
                dies_at(number // 2, written=bool(number % 2))()
            ingest(spec, now=now)

        killed += child(take, chance.uniform(0, 0.4 * usual) if kind == "random" else None) == -signal.SIGKILL
        assert child(lambda spec=spec, number=number, now=now: look(spec, number, now)) == 0, number
    print(f"{killed} of {len(nights)} ingests were killed")


if __name__ == "__main__":
    main()
