"""Small installations whose last nightly run was this morning: made once, and copied for each
scenario to the same path.

The time zone is chosen so that it is about noon there, so that no scenario crosses midnight.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests import prefect_home
from tests.benchmarks.game_day.commands import Ending, expect, forecaster
from tests.benchmarks.game_day.commands import put_in_place as copied
from tests.flows.tiny import DAYS, DEPOTS, PIPELINE, WEEK

HOUR = 9  # of the nightly runs, local time
GOOD_FOR = 6 * 3600.0  # seconds for which an installation counts as of this morning
NIGHTS = 3
DEADLINE, AMPLE = 60, 420  # least seconds until the deadline: of a run that must miss it, and of one that must not
FAKED = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
PUBLISHED, DEGRADED = 0, 3


class Templates:
    """Installations that scenarios start from, each made on first use and kept with the folder."""

    def __init__(self, work: Path) -> None:
        self.work, self.fleet = work, work / "fleet"

    def put_in_place(self, name: str) -> Path:
        """Make a fresh copy of a template and return its pipeline file."""
        template = self.work / name
        if not template.exists() or time.time() - template.stat().st_mtime > GOOD_FOR:
            shutil.rmtree(template, ignore_errors=True)
            getattr(self, f"_make_{name}")()
            self.fleet.rename(template)
            os.utime(template)
        return copied(template, self.fleet)

    def _make_done(self) -> None:
        """Make three runs, the last of this morning."""
        file = self._make_fleet()
        for back in reversed(range(NIGHTS)):
            write_demand(self.fleet, until=today(file) - timedelta(days=back + 1))
            night(file, as_of=today(file) - timedelta(days=back))

    def _make_due(self) -> None:
        """Make two runs, the last of yesterday, and the input of the run that is now due."""
        file = self._make_fleet(warm=self.work / "done")
        for back in reversed(range(1, NIGHTS)):
            write_demand(self.fleet, until=today(file) - timedelta(days=back + 1))
            night(file, as_of=today(file) - timedelta(days=back))
        write_demand(self.fleet, until=today(file) - timedelta(days=1))

    def _make_old(self) -> None:
        """Make two runs of the days before yesterday, with a clock two days behind; nothing has run
        since."""
        file = self._make_fleet(warm=self.work / "done")
        for back in (3, 2):
            write_demand(self.fleet, until=today(file) - timedelta(days=back + 1))
            night(file, as_of=today(file) - timedelta(days=back), clock="-2d")
        write_demand(self.fleet, until=today(file) - timedelta(days=1))

    def _make_fleet(self, warm: Path | None = None) -> Path:
        if warm is not None and not warm.exists():
            self.put_in_place(warm.name)
        shutil.rmtree(self.fleet, ignore_errors=True)
        self.fleet.mkdir(parents=True)
        file = self.fleet / "pipeline.yaml"
        file.write_text(
            f"{PIPELINE}timezone: {zone()}\nschedule: {{cron: '0 {HOUR} * * *', deadline: '10:00'}}\n", "utf-8"
        )
        prefect_home.put_into(self.fleet / "var")
        if warm is not None:
            shutil.copytree(warm / "var" / "jax_cache", self.fleet / "var" / "jax_cache")
        return file


def zone() -> str:
    """Return a time zone in which it is about noon now."""
    hours = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-hours:+d}"  # the signs of these zone names are inverted


def local_now(file: Path) -> datetime:
    from forecaster.config import load

    return datetime.now(load(file).zone)


def today(file: Path) -> date:
    return local_now(file).date()


def night(file: Path, *, as_of: date | None = None, clock: str = "", codes: tuple[int, ...] = (PUBLISHED,)) -> Ending:
    """Run one nightly run without Prefect. Raises RuntimeError if it ends with another code."""
    words = ["--as-of", as_of.isoformat()] if as_of else []
    faked = {**FAKED, "LD_PRELOAD": faketime_library(), "FAKETIME": clock} if clock else {}
    return expect(forecaster(file.parent, "run", str(file), "--plain", *words, **faked), *codes)


def faketime_library() -> str:
    """Return the library that `faketime` preloads. Raises RuntimeError if it is not installed."""
    for place in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"):
        return str(place)
    raise RuntimeError("libfaketimeMT.so.1 not found; run: apt-get install faketime")


def due_now(file: Path, more: str = "", *, least: int = DEADLINE) -> None:
    """Set the schedule so that a run is due now, with its deadline `least` seconds ahead and up to
    a minute more.

    The page must be started afterwards.
    """
    now = local_now(file)
    deadline = (now + timedelta(seconds=least + 59)).replace(second=0, microsecond=0)
    schedule = f"schedule: {{cron: '{now.minute} {now.hour} * * *', deadline: '{deadline:%H:%M}'{more}}}"
    lines = [schedule if line.startswith("schedule:") else line for line in file.read_text("utf-8").splitlines()]
    file.write_text("\n".join(lines) + "\n", "utf-8")


def write_demand(folder: Path, *, until: date, more: tuple[str, ...] = ()) -> None:
    """Write the counts of 130 days up to a day; the counts of a day are always the same."""
    rows = [
        f"D{depot},{day},{round(30 * (1 + depot) * WEEK[day.weekday()]) + (day.toordinal() * 7 + depot) % 5}"
        for day in (until - timedelta(days=back) for back in reversed(range(DAYS)))
        for depot in range(DEPOTS)
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows, *more]) + "\n", "utf-8")
