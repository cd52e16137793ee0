"""A folder to start from, of somebody's own files (`forecaster init --from`): guess, write, check,
say what next."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from forecaster.core.terminal import count
from forecaster.errors import ForecasterError, SpecError
from forecaster.onboarding import column_names, draft, facts, notes, order_numbers, parts, place, tables
from forecaster.onboarding.days import lifespans, record_times
from forecaster.onboarding.days.lifespans import Lifespans
from forecaster.onboarding.days.record_times import RecordedAt
from forecaster.onboarding.days.zone import on_days_of
from forecaster.onboarding.draft import Draft
from forecaster.onboarding.facts import DayParts, Facts
from forecaster.onboarding.layout import Readings
from forecaster.onboarding.tables import FileTable

PIPELINE = "pipeline.yaml"
_UPWARDS = 3  # folders that a relative path climbs at most
Ask = Callable[[], str]


@dataclass(frozen=True)
class Start:
    """Result: the lines to print, and why no forecast can start from it, if so."""

    lines: tuple[str, ...]
    fault: str | None


@dataclass(frozen=True)
class Details:
    """Guesses next to the readings themselves, and what is told of it."""

    stamps: RecordedAt
    spans: Lifespans
    date_zone: tuple[str, str] | None
    aggregate: tuple[str, str]
    order_id: str | None
    notes: tuple[str, ...]


def create(files: Sequence[Path], folder: Path | None, *, country: str | None, ask: Ask | None, now: datetime) -> Start:
    """Write a pipeline file for these files into a folder, by default a new one named after the
    first of them.

    `ask` asks for the country where neither `country` nor the data say it. Raises SpecError where a
    file cannot be read or nothing can be guessed, and where the folder has a pipeline file already.
    """
    code = place.country(country) if country else None
    each_once = {file.resolve(): file for file in files}.values()
    demand, readings, depots = parts.sort([tables.read(file) for file in each_once])
    name = _name(demand.path)
    folder = folder or Path(name)
    file = folder / PIPELINE
    if file.exists():
        raise SpecError(f"{file}: exists; wanted another folder, or the file out of the way")
    seen = facts.of(readings, now.date())
    if seen is None:
        raise SpecError(f"{demand.path}: found no row with a day up to today and a count; wanted daily counts")
    code = code or _country_in(demand) or (place.country(answer) if ask and (answer := ask()) else None)
    zone = ZoneInfo(_time_zone(code)[0])
    readings, date_zone = on_days_of(readings, zone)
    seen = facts.of(readings, now.date()) or seen
    details = _details(demand, readings, depots, seen, zone, date_zone, now)
    content = draft.text(_draft(demand, readings, depots, seen, details, code, name, folder))
    _write(file, content)
    fault, verdict = _checked(file, seen, now)
    return Start(tuple(_summary(file, readings, seen, details, code, verdict, is_usable=fault is None)), fault)


def _details(
    demand: FileTable,
    readings: Readings,
    depots: parts.DepotFile | None,
    seen: Facts,
    zone: ZoneInfo,
    date_zone: str | None,
    now: datetime,
) -> Details:
    stamps = record_times.guess(demand, readings, zone, now)
    spans = lifespans.of(depots.table, readings.date_form) if depots else Lifespans()
    day_parts = facts.day_parts(demand, readings)
    remarks, why = [*notes.of(demand, readings, seen, stamps, day_parts), *spans.notes], ""
    if date_zone:
        why = f"all instants are midnights in {date_zone}, and some fall on another day in {zone.key}"
        remarks.append(f"{why}: taken as days of {date_zone}")
    return Details(
        stamps,
        spans,
        (date_zone, why) if date_zone else None,
        _aggregate(readings, day_parts),
        order_numbers.of(demand, readings),
        tuple(remarks),
    )


def _draft(
    demand: FileTable,
    readings: Readings,
    depots: parts.DepotFile | None,
    seen: Facts,
    details: Details,
    code: str | None,
    name: str,
    folder: Path,
) -> Draft:
    spans, stamps = details.spans, details.stamps
    static = facts.statics(demand, readings)
    zone = _time_zone(code)
    recording = (
        ("next_day", f"an archive: it ends on {seen.last}, so each day counts as known from the next morning")
        if seen.is_archive
        else ("arrival", f"a feed that still comes: its last day is {seen.last}")
    )
    recording = ("arrival", "not asked where columns.recorded_at says it") if stamps.column else recording
    return Draft(
        name=name,
        files=tuple(str(path) for path in parts.paths(demand)),
        source=tuple(_source(demand, readings, folder)),
        columns=tuple(_columns(readings, details)),
        time_zone=zone,
        country=(code, "public holidays" if code else "two letters, for public holidays; none was named"),
        aggregate=details.aggregate,
        recorded=recording,
        static=tuple(name for name in depots.static if name not in spans.names) if depots else static,
        depots=tuple(_depots_source(depots.table, spans, folder)) if depots else None,
        depots_id=depots.column if depots else readings.depot_column or "",
        depots_columns=spans.columns,
        notes=details.notes,
        date_zone=details.date_zone,
        known_future=facts.known_future(demand, readings, static),
    )


def _time_zone(code: str | None) -> tuple[str, str]:
    if code and (zone := place.time_zone(code)):
        return zone[0], f"the main zone of {code}, which has others" if zone[1] else f"the zone of {code}"
    machine = place.time_zone_of_machine()
    if machine:
        return machine, "the zone of the machine on which this was written"
    return "UTC", "not known: set the zone whose calendar days are counted, as in Europe/Berlin"


def _plain_source(table: FileTable, folder: Path) -> list[tuple[str, Any, str]]:
    """Notation of a file, whatever its columns mean."""
    path, settings = parts.pattern(table), table.settings
    entries: list[tuple[str, Any, str]] = [("kind", settings["kind"], ""), ("path", _path(path, folder), "")]
    reasons = {
        "delimiter": "what parts most lines into as many fields",
        "encoding": "the one that reads every letter",
        "sheet": f"the fullest of {len(table.cells.sheets)} sheets",
        "date_format": "the numbers that count the days",
        "header_row": "the first line that is as wide as the table; above it are titles",
    }
    return entries + [(key, settings[key], reason) for key, reason in reasons.items() if key in settings]


def _depots_source(table: FileTable, spans: Lifespans, folder: Path) -> list[tuple[str, Any, str]]:
    form = [("date_format", spans.form, "the form that reads the days of opening and closing")] if spans.form else []
    return [*_plain_source(table, folder), *form]


def _source(table: FileTable, readings: Readings, folder: Path) -> list[tuple[str, Any, str]]:
    entries = _plain_source(table, folder)
    thousands, decimal = readings.marks
    if table.settings["kind"] != "parquet":
        if thousands:
            entries.append(("thousands", thousands, "what stands between thousands in the counts"))
        if decimal != ".":
            entries.append(("decimal", decimal, "what stands before decimals"))
        if readings.date_form:
            rival = f"; '{readings.rival_form}' would read them too" if readings.rival_form else ""
            entries.append(("date_format", readings.date_form, f"the form that reads the days{rival}"))
    if readings.layout != "long":
        laid_out = "days" if readings.layout == "days" else "depots"
        entries.append(("wide", laid_out, readings.why_demand))
        if readings.ignored:
            entries.append(("ignore", list(readings.ignored), "columns that hold no readings"))
    return entries


def _columns(readings: Readings, details: Details) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str | None, str, column_names.Role]] = [
        ("depot_id", readings.depot_column, "names the depot", "depot"),
        ("date", readings.date_column, "holds days", "date"),
        ("demand", readings.demand_column, readings.why_demand, "demand"),
    ]
    entries = []
    for key, name, reason, role in rows:
        if name is not None:
            by_name = column_names.says(name, role)
            how = reason if key == "demand" else f"{reason}, by its {'name' if by_name else 'values'}"
            entries.append((key, name, how))
    if details.order_id:
        entries.append(
            ("order_id", details.order_id, "has another value in each row: exports that overlap count it once")
        )
    stamps = details.stamps
    return [*entries, *([("recorded_at", stamps.column, stamps.reason)] if stamps.column else [])]


def _aggregate(readings: Readings, day_parts: DayParts | None) -> tuple[str, str]:
    of_parts = f"one for each '{day_parts.column}'" if day_parts else "such as hours or channels"
    reasons = {
        "none": "a row a depot and day",
        "sum": f"several rows a depot and day, {of_parts}, make its count together",
        "count": readings.why_demand,
    }
    return readings.aggregate, reasons[readings.aggregate]


def _path(path: Path, folder: Path) -> str:
    relative = os.path.relpath(path.resolve(), folder.resolve())
    climbs = Path(relative).parts.count("..")
    return relative if climbs <= _UPWARDS else str(path.resolve())


def _name(path: Path) -> str:
    """A pipeline's name from a file's."""
    stem = column_names.normalized(path.name.split(".")[0])
    name = re.sub(r"[^a-z0-9_-]+", "", stem.encode("ascii", "ignore").decode())[:60].strip("_")
    return name if re.match(r"[a-z0-9]", name) else "my-fleet"


def _country_in(table: FileTable) -> str | None:
    """The country that a column of that name holds for all rows."""
    for name in table.frame:
        if column_names.normalized(name) in ("country", "country_code", "land"):
            values = table.frame[name].dropna().astype("str").str.strip().unique()
            try:
                return place.country(values[0]) if len(values) == 1 else None
            except SpecError:
                return None
    return None


def _write(file: Path, content: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    except OSError as error:
        raise SpecError(f"{file}: cannot be written: {error.strerror}; wanted a folder of yours") from error


def _checked(file: Path, seen: Facts, now: datetime) -> tuple[str | None, list[str]]:
    """Result of `check`: why it is not usable, and its verdict with what it suspects, in lines."""
    from forecaster.check import dry_run, text_report
    from forecaster.config import load

    try:
        spec = load(file)
        outcome = dry_run.check(spec, now=now, as_of=_as_of(spec.zone, seen) if seen.is_archive else None)
    except ForecasterError as error:
        return str(error), [f"check     not usable: {error}"]
    verdict = f"not usable: {outcome.fault}" if outcome.fault else "usable"
    return outcome.fault, [f"check     {verdict}", *text_report.suspects(outcome)]


def _as_of(zone: ZoneInfo, seen: Facts) -> datetime:
    """The morning after the last reading."""
    return datetime.combine(seen.last + timedelta(days=1), time(3, 15), zone).astimezone(UTC)


def _summary(
    file: Path,
    readings: Readings,
    seen: Facts,
    details: Details,
    code: str | None,
    verdict: Sequence[str],
    *,
    is_usable: bool,
) -> list[str]:
    columns = [name for name in (readings.depot_column, readings.date_column, readings.demand_column) if name]
    as_of = f" --as-of {seen.last + timedelta(days=1)}" if seen.is_archive else ""
    quoted = shlex.quote(str(file))
    laid_out = {
        "long": "a row a reading",
        "depots": "a column a depot",
        "days": "a column a day",
        "single": "one series",
    }
    lines = [
        f"{file}: written; each key has its reason beside it",
        f"seen      {count(seen.depots, 'depot')}, {count(seen.days, 'day')}, {seen.first} to {seen.last}, "
        f"{count(seen.readings, 'reading')}",
        f"guessed   {laid_out[readings.layout]}; columns {', '.join(columns) or 'by their headers'}; "
        f"{details.aggregate[1]}",
        *([f"counts    {readings.demand_column}: {readings.why_demand}"] if readings.demand_column else []),
        f"country   {code or 'not known, so no public holidays: set calendar.country and timezone, or give --country'}",
    ]
    further = [
        f"  forecaster run {quoted}{as_of}   runs the night",
        f"  forecaster serve {quoted}   shows the page",
    ]
    lines += [f"archive   ends on {seen.last}: work as of the day after"] * seen.is_archive
    return [
        *lines,
        *(f"note      {note}" for note in details.notes),
        *verdict,
        "Next:",
        f"  forecaster check {quoted}{as_of}   tries the sources against the contract",
        *(further if is_usable else []),
    ]
