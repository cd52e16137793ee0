"""An installation to be hurt: made once, put in place anew for each trial, and what it holds as values to compare."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from forecaster.config import load
from forecaster.lake import Lake
from forecaster.ledger import connect, records, tables
from forecaster.ledger.publication import objections
from tests.benchmarks.report import ROOT
from tests.flows.tiny import DAYS, FIRST, LAST, NIGHT, PIPELINE

FLEET = PIPELINE.replace("hidden: 4", "hidden: 16")  # wide enough for the compiled recurrence
TONIGHT = NIGHT.isoformat()
LAST_NIGHT, NIGHT_BEFORE = ((NIGHT - timedelta(days)).isoformat() for days in (1, 2))
BAD_DAY = FIRST + timedelta(20)
BAD_ROWS = (f"D1,{BAD_DAY},-7", f"D2,{BAD_DAY},91")  # no count, and a second one of a day
OVERRIDE = [
    "--depot",
    "D2",
    "--date",
    f"{LAST + timedelta(2)}",
    "--orders",
    "77",
    "--reason",
    "weather",
    "--by",
    "planner",
]
LIMIT = 600.0  # seconds for one command


@dataclass(frozen=True)
class Ending:
    """How a command ended; `code` is negative where a signal ended it."""

    code: int
    seconds: float
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The last line that it said."""
        return (self.err.strip() or self.out.strip() or "nothing").splitlines()[-1]


@dataclass(frozen=True)
class Contents:
    """What an installation holds that no fault may lose, double or change."""

    rows: Mapping[str, Counter[tuple[Any, ...]]]  # kind of row → row → how often
    forecast: tuple[tuple[Any, ...], ...]  # what is shown: depot, day, quantiles, drivers
    champion: str | None
    faults: tuple[str, ...]  # what may never be: a half publication, two of one run, a lease


def write_demand(folder: Path, *, last_days_missing: int) -> None:
    """The source up to some days before the last, with a row that is quarantined."""
    week = (1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7)
    rows = [
        f"D{depot},{FIRST + timedelta(day)},{round(30 * (1 + depot) * week[day % 7]) + (day * 7 + depot) % 5}"
        for day in range(DAYS - last_days_missing)
        for depot in range(4)
        if (depot, day) != (1, 20)
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows, *BAD_ROWS]) + "\n", "utf-8")


def start(folder: Path, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Begin `forecaster …` as the leader of a process group of its own; what it says goes into two files."""
    said = folder / "said"
    said.mkdir(exist_ok=True)
    with (said / "out").open("wb") as out, (said / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecaster", *arguments],
            cwd=ROOT,
            stdout=out,
            stderr=err,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    return process, said


def forecaster(folder: Path, *arguments: str, **environment: str) -> Ending:
    """Run `forecaster …` to its end."""
    begun = time.monotonic()
    process, said = start(folder, *arguments, **environment)
    code = process.wait(LIMIT)
    return ending(said, code, time.monotonic() - begun)


def ending(said: Path, code: int, seconds: float) -> Ending:
    out, err = ((said / name).read_text("utf-8", errors="replace") for name in ("out", "err"))
    return Ending(code, seconds, out, err)


def expect(end: Ending, *codes: int) -> Ending:
    """Raises RuntimeError where a command that nobody disturbed ended otherwise."""
    if end.code not in (codes or (0,)):
        raise RuntimeError(f"an undisturbed command ended with {end.code}: {end.err[-2000:]}")
    return end


def make(folder: Path, more: str = "") -> Path:
    """Two nights and an override, ready for tonight's; returns the pipeline file."""
    folder.mkdir(parents=True)
    file = folder / "pipeline.yaml"
    file.write_text(FLEET + more, "utf-8")
    for missing, as_of in ((2, NIGHT_BEFORE), (1, LAST_NIGHT)):
        write_demand(folder, last_days_missing=missing)
        expect(forecaster(folder, "run", str(file), "--plain", "--as-of", as_of))
    expect(forecaster(folder, "override", str(file), *OVERRIDE[:5], "66", *OVERRIDE[6:]))
    write_demand(folder, last_days_missing=0)
    return file


def put_in_place(template: Path, folder: Path) -> Path:
    """A fresh copy, always at the same place, since the registry writes addresses down; returns its pipeline file."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)
    return folder / "pipeline.yaml"


def read_contents(file: Path) -> Contents:
    """What an installation holds, without the instants at which it came to hold it. Raises LakeError, LedgerError."""
    spec = load(file)
    lake = Lake(spec.lake_url)
    columns = {
        "demand": ("depot_id", "date", "demand", "open"),
        "quarantine": ("depot_id", "date", "rule", "content"),
        "decisions": ("id", "action", "by", "reason"),
    }
    rows = {
        table: Counter(tuple(row[name] for name in names) for row in lake.read(table).to_pylist())
        for table, names in columns.items()
    }
    rows["deployments"] = _deployments(spec.paths.prefect / "prefect.db")
    engine = connect.reader(spec.ledger_url)
    try:
        with connect.translated_errors(spec.ledger_url), engine.begin() as connection:
            for table in (tables.overrides, tables.withdrawals, tables.audit):
                names = [column for column in table.columns if column.name not in ("id", "at")]
                rows[table.name] = Counter(tuple(row) for row in connection.execute(sa.select(*names)))
            forecast, champion, faults = _ledger_values(connection, spec.name)
    finally:
        engine.dispose()
    faults += tuple(f"flow run {name} is {state}" for name, state in _flow_runs(spec.paths.prefect / "prefect.db"))
    return Contents(rows, forecast, champion, faults)


def _flow_runs(database: Path) -> list[tuple[Any, ...]]:
    """Those that are at work, as Prefect's own database has it: name, state."""
    query = "select name, state_name from flow_run where state_type in ('PENDING', 'RUNNING')"
    return _prefect_rows(database, query)


def _deployments(database: Path) -> Counter[tuple[Any, ...]]:
    """What Prefect's own database has of deployments: flow, name, schedules."""
    query = """
        select flow.name, deployment.name, (
            select group_concat(schedule, ' ') from deployment_schedule where deployment_id = deployment.id
        )
        from deployment join flow on flow.id = deployment.flow_id
    """
    return Counter(_prefect_rows(database, query))


def _prefect_rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:  # tables that are not made yet
            return []


def _ledger_values(
    connection: sa.Connection, pipeline: str
) -> tuple[tuple[tuple[Any, ...], ...], str | None, tuple[str, ...]]:
    faults = []
    heads = records.list_heads(connection, pipeline)
    for head in heads:
        faults += [
            f"publication {head.publication_id}: {sentence}" for sentence in objections(records.whole(connection, head))
        ]
    runs = Counter(head.run_id for head in heads)
    faults += [f"run {run} published {count} times" for run, count in runs.items() if count > 1]
    faults += [f"lease of {row.run_id}" for row in connection.execute(sa.select(tables.lease))]
    reigning = records.champion(connection, pipeline)
    head_now = records.head(connection, pipeline)
    shown = records.whole(connection, head_now).depots if head_now else ()
    forecast = tuple(
        (depot.depot_id, day.target_date, day.open, day.quantiles, day.drivers) for depot in shown for day in depot.days
    )
    return forecast, reigning.bundle_digest if reigning else None, tuple(faults)


def sizes(state: Path) -> dict[str, int]:
    """Bytes of every file below the state folder, by its path there."""
    return {str(path.relative_to(state)): path.stat().st_size for path in state.rglob("*") if path.is_file()}
