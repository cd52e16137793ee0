"""Fleet of four depots with an example of everything that a pipeline stores, made only by commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx

ROOT = Path(__file__).resolve().parents[1]
NAME = "small-fleet"
FIRST, DAYS = date(2026, 1, 1), 129
LAST = FIRST + timedelta(days=DAYS - 1)  # as of the first night; each later one knows one more day
NIGHT, NEXT, THIRD = (LAST + timedelta(days=number) for number in (1, 2, 3))
PLANNED = NEXT + timedelta(days=2)  # day that a planner has changed
WEEK = (1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7)
RESTATED = date(2026, 4, 2)
ZONES = {"D0": "", "D1": "", "D2": "America/Chicago", "D3": ""}
CITIES = {"D0": ("Boston", "MA"), "D1": ("Boston", "MA"), "D2": ("Chicago", "IL"), "D3": ("Boston", "MA")}
PIPELINE = f"""
name: {NAME}
timezone: America/New_York
demand:
  source: {{kind: csv, path: demand.csv}}
  columns: {{depot_id: site, date: day, demand: orders, recorded_at: recorded}}
depots:
  source: {{kind: csv, path: depots.csv}}
  columns: {{opened: opened, closed: closed, timezone: timezone}}
  static: [city, country, subdivision]
  aliases: {{source: {{kind: csv, path: aliases.csv}}}}
calendar: {{events: {{source: {{kind: csv, path: events.csv}}}}, known_future: [promo, rain]}}
model: {{layers: 1, hidden: 4, quantiles: [0.1, 0.5, 0.9], boosted: false}}
training: {{epochs: 3, members: 1, batch_depots: 8, learning_rate: 0.01}}
backtest: {{days: 7}}
gate: {{beat: [], coverage: [0.0, 1.0], max_bias: 9.0, worst_depot: 9.0}}
legacy: {{source: {{kind: csv, path: legacy.csv}}, columns: {{made_on: made_on}}}}
staffing: {{orders_per_driver: 20, cost_short: 38, cost_idle: 22, vans: {{total: 15, home: vans}}}}
overrides: {{reasons: [weather, other], min_days: 1}}
state: var
"""


@dataclass(frozen=True)
class Outcome:
    """A finished command."""

    code: int
    out: str
    err: str


def forecaster(*arguments: str | Path, **environment: str) -> Outcome:
    """Run `forecaster …` as a process."""
    process = subprocess.run(
        [sys.executable, "-m", "forecaster", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=700,
    )
    return Outcome(process.returncode, process.stdout, process.stderr)


def well(*arguments: str | Path, code: int = 0) -> Outcome:
    """Run a command that must end with this exit code."""
    process = forecaster(*arguments)
    assert process.code == code, (
        f"forecaster {' '.join(map(str, arguments))}: {process.code}\n{process.out}\n{process.err}"
    )
    return process


@contextmanager
def page(file: Path) -> Iterator[httpx.Client]:
    """Serve the page of a pipeline with the command, and yield a local client."""
    command = [sys.executable, "-m", "forecaster", "serve", str(file), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://\S+?(?=/?\s)", process.stdout.readline())
            assert address is not None, "the page did not come up"
            with httpx.Client(base_url=address[0], timeout=30, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


# --- the sources ------------------------------------------------------------------------------------------------------


def write(folder: Path) -> Path:
    """Write the pipeline file and, next to it, the sources as of the first night."""
    folder.mkdir(parents=True, exist_ok=True)
    sites = [
        f"{depot},{city},US,{subdivision},{vans},,,{ZONES[depot]}"
        for vans, (depot, (city, subdivision)) in enumerate(CITIES.items(), 2)
    ]
    _csv(folder / "depots.csv", "depot_id,city,country,subdivision,vans,opened,closed,timezone", sites)
    _csv(folder / "aliases.csv", "alias,depot_id", ["Pier 3,D3"])
    events = [
        "2026-02-14,promo,Free delivery,,",
        f"{PLANNED},promo,Spring sale,,Boston",
        "2026-03-03,closure,Power works,D1,",
    ]
    _csv(folder / "events.csv", "date,kind,name,depot_id,city", events)
    rows = [f"{depot},{LAST + timedelta(day)},{40 + 30 * int(depot[1])},{LAST}" for depot in CITIES for day in range(9)]
    _csv(folder / "legacy.csv", "depot_id,date,forecast,made_on", rows)
    demand(folder, DAYS)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, "utf-8")
    return file


def demand(folder: Path, days: int, restated: str = "") -> None:
    """Write the counts of a number of days, the rain of the days ahead, and two rows that no
    history accepts."""
    rows = []
    for number in range(days + 7):
        day = FIRST + timedelta(number)
        for place, depot in enumerate(CITIES):
            site = "Pier 3" if depot == "D3" and number < 40 else depot
            count = round(30 * (1 + place) * WEEK[number % 7]) + (number * 7 + place) % 5
            orders, recorded = (str(count), day + timedelta(1)) if number < days else ("", FIRST + timedelta(days))
            rows.append(f"{site},{day},{orders},{number % 3},{_at(recorded)}")
    rows += [f"D0,2026-03-05,-4,0,{_at(date(2026, 3, 7))}", f"D9,2026-03-05,12,0,{_at(date(2026, 3, 7))}"]
    if restated:
        rows.append(f"D0,{RESTATED},{restated},1,{_at(FIRST + timedelta(days))}")
    _csv(folder / "demand.csv", "site,day,orders,rain,recorded", rows)


def _at(day: date) -> str:
    return datetime(day.year, day.month, day.day, 1, 30, tzinfo=ZoneInfo("America/New_York")).isoformat()


def _csv(file: Path, head: str, rows: list[str]) -> None:
    file.write_text("\n".join([head, *rows]) + "\n", "utf-8")


# --- what people and nights do ----------------------------------------------------------------------------------------


def first_night(file: Path) -> None:
    """Run a night whose model becomes champion, enter a planner's number that the next night
    judges, and back up both."""
    well("run", file, "--plain", "--as-of", str(NIGHT))
    well("override", file, "--depot", "D2", "--date", str(NIGHT), "--orders", "110", "--reason", "other", "--by", "Ana")
    well("backup", file, "--to", file.parent / "backup")


def second_night(file: Path) -> None:
    """Run a night with a restated count while the registry is down: its record waits."""
    demand(file.parent, DAYS + 1, restated="55")
    registry = file.parent / "var" / "mlflow.db"
    aside = registry.with_name("aside.db")
    if registry.exists():
        registry.rename(aside)
    registry.write_text("out of order\n" * 100, "utf-8")
    well("run", file, "--plain", "--as-of", str(NEXT), code=3)
    registry.unlink()
    if aside.exists():
        aside.rename(registry)


def planners(file: Path) -> None:
    """Enter overrides, one of them withdrawn, one by the page, and their audit; a decision, a link,
    and a preview."""
    say = ("override", file, "--reason", "weather", "--by", "Ana")
    well(*say, "--depot", "D1", "--date", str(PLANNED), "--orders", "150", "--note", "storm", "--until", str(PLANNED))
    well(*say, "--depot", "D0", "--date", str(NEXT), "--orders", "70")
    well("withdraw", file, "3", "--by", "Ana", "--note", "no storm")
    unknown = well("quarantine", "list", file, "--rule", "unknown_depot").out.split()[0]
    well("quarantine", "discard", file, unknown, "--by", "Ana", "--reason", "not ours")
    with page(file) as client:
        token = {"X-CSRF-Token": client.get("/api/v1/me").json()["csrf"]}
        wish = {"depot_id": "D3", "target_date": str(PLANNED), "orders": 160, "reason": "other", "by": "Bo"}
        answer = client.post("/api/v1/overrides", json=wish, headers=token)
        assert answer.status_code == 201, answer.text
        answer = client.post("/api/v1/links", json={"view": "network", "city": "Boston", "days": 400}, headers=token)
        assert answer.status_code == 201, answer.text
    well("plan", file)
    well("predict", file, "--as-of", str(NEXT))


def fresh(before: Path, folder: Path) -> Path:
    """Run the second night from only its sources, key and caches, so that the current code makes
    everything else.

    The registry receives it, and the previous night that still waits, with its bundle.
    """
    folders = ("bundles", "checkpoints", "graphs", "keys", "registry_waiting")
    for name in folders:
        shutil.copytree(before / "var" / name, folder / "var" / name)
    for source in before.iterdir():
        if source.is_file():
            shutil.copy(source, folder)
    file = folder / "pipeline.yaml"
    # The previous night had no trees either.
    file.write_text(file.read_text("utf-8").replace("model: {", "model: {boosted: false, "), "utf-8")
    well("run", file, "--plain", "--as-of", str(NEXT))
    return file
