"""Starting folder from a user's own files (`forecaster init --from`): guess, write, check, and list
the next steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from forecaster.core.terminal import count
from forecaster.errors import ForecasterError, SpecError
from forecaster.onboarding import (
    column_names,
    columns,
    count_words,
    draft,
    facts,
    keys,
    order_numbers,
    parts,
    place,
    sheets,
    summary,
    tables,
)
from forecaster.onboarding.days import business_day, lifespans, record_times
from forecaster.onboarding.days.lifespans import Lifespans
from forecaster.onboarding.days.record_times import RecordedAt
from forecaster.onboarding.days.zone import on_days_of
from forecaster.onboarding.description.questions import OpenQuestions, Question, TableAnswers, options
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.draft import Draft
from forecaster.onboarding.facts import Facts
from forecaster.onboarding.tables import FileTable

PIPELINE = "pipeline.yaml"
Ask = Callable[[], str]
Choose = Callable[[Question], str]


@dataclass(frozen=True)
class Start:
    """Result: the lines to print, and the reason why no forecast can start from it, if any."""

    lines: tuple[str, ...]
    fault: str | None


@dataclass(frozen=True)
class Details:
    """Guesses about the readings beyond their columns, and remarks."""

    stamps: RecordedAt
    spans: Lifespans
    demand: tuple[tuple[str, Any, str], ...]  # additional keys of the section
    null_values: tuple[str, ...]
    order_id: str | None
    static: tuple[str, ...]
    known_future: tuple[str, ...]
    open_column: str | None
    limits: Mapping[str, str]  # key of `demand.columns` → column
    notes: tuple[str, ...]


def create(
    files: Sequence[Path],
    folder: Path | None,
    *,
    country: str | None,
    ask: Ask | None,
    now: datetime,
    answers: TableAnswers | None = None,
    choose: Choose | None = None,
) -> Start:
    """Write a pipeline file for these files into a folder, by default a new one named after the
    first file.

    `ask` asks for the country if neither `country` nor the data state it, `choose` for the answer
    to an open question of the table. Raises OpenQuestions if there is an open question and no
    `choose`, SpecError if a file cannot be read or holds no counts, or if the folder already has a
    pipeline file.
    """
    code = place.country(country) if country else None
    demand, readings, depots = _understood(
        read_once(files), answers or TableAnswers(), choose, _command(files, folder, country)
    )
    folder = folder or Path(_name(demand.path))
    file = folder / PIPELINE
    if file.exists():
        raise SpecError(f"{file}: already exists; wanted a folder without it: name another one, or move this file")
    reading_facts = facts.of(readings, now.date())
    if reading_facts is not None and code is None:
        code = _country_in(demand) or (place.country(answer) if ask and (answer := ask()) else None)
    understanding = understand(demand, readings, depots, folder, code=code, now=now)
    _write(file, draft.text(understanding.draft))
    fault, verdict = _checked(file, understanding.seen, now)
    lines = _summary(file, understanding, verdict, is_usable=fault is None)
    return Start(tuple(lines), fault)


@dataclass(frozen=True)
class Understanding:
    """Interpretation of files: the table of readings, its description with open questions, and the
    resulting pipeline file."""

    table: FileTable
    readings: Description
    seen: Facts
    details: Details
    country: str | None
    draft: Draft

    @property
    def not_used(self) -> list[str]:
        """Unused columns of a long table."""
        return _not_used(self.table, self.readings, self.details)

    def lines(self) -> list[str]:
        """Paragraph that summarizes the table, its first days as they would be counted, and the
        reason."""
        readings = self.readings
        why = readings.why_demand if readings.layout in ("long", "single") else ""
        counts = [f"counts    {readings.demand_column or 'rows'}: {why}"] if why else []
        return [*summary.lines(readings, self.seen, self.not_used), *counts]


def read_once(files: Sequence[Path]) -> list[FileTable]:
    """Tables of these files, each file once. Raises SpecError as `tables.read` does."""
    return [tables.read(file) for file in {file.resolve(): file for file in files}.values()]


def understand(
    demand: FileTable,
    readings: Description,
    depots: parts.DepotFile | None,
    folder: Path,
    *,
    code: str | None,
    now: datetime,
    time_zone: str | None = None,
) -> Understanding:
    """Interpret sorted tables for a pipeline file in this folder, with the likeliest choice for
    each open question; `code` is the country, `time_zone` replaces its main one.

    Raises SpecError if no row has a day up to today and a count.
    """
    reading_facts = facts.of(readings, now.date())
    if reading_facts is None:
        raise SpecError(f"{demand.path}: found no row with both a count and a day up to today; wanted daily counts")
    code = code or _country_in(demand)
    named_zone = (time_zone, "as answered") if time_zone else _time_zone(code)
    zone = ZoneInfo(named_zone[0])
    readings, date_zone = on_days_of(readings, zone)
    readings, day_starts = business_day.of(readings)
    reading_facts = facts.of(readings, now.date()) or reading_facts
    details = _details(demand, readings, depots, reading_facts, zone, date_zone, day_starts, now)
    content = _draft(demand, readings, depots, reading_facts, details, code, named_zone, folder)
    return Understanding(demand, readings, reading_facts, details, code, content)


def _understood(
    read: Sequence[FileTable], answers: TableAnswers, choose: Choose | None, command: str
) -> tuple[FileTable, Description, parts.DepotFile | None]:
    """Table of readings, its description and the depots. Raises OpenQuestions if nobody answers."""
    while True:
        demand, readings, depots = parts.sort(read, answers)
        if not readings.questions:
            return demand, readings, depots
        if choose is None:
            likeliest = TableAnswers(**{**vars(readings.answers), **{k: v for k, v in vars(answers).items() if v}})
            command_line = " ".join([command, *options(likeliest)])
            raise OpenQuestions(demand.path, readings.questions, command_line)
        first = readings.questions[0]
        answers = answers.answered(first.part, choose(first))


def _command(files: Sequence[Path], folder: Path | None, country: str | None) -> str:
    arguments = ["forecaster", "init", *([str(folder)] if folder else []), "--from", *map(str, files)]
    return shlex.join([*arguments, *(["--country", country] if country else [])])


def _details(
    demand: FileTable,
    readings: Description,
    depots: parts.DepotFile | None,
    reading_facts: Facts,
    zone: ZoneInfo,
    date_zone: str | None,
    day_starts: tuple[str, str] | None,
    now: datetime,
) -> Details:
    stamps = record_times.guess(demand, readings, zone, now)
    spans = lifespans.of(depots.table, readings.date_form) if depots else Lifespans()
    static = facts.statics(demand, readings)
    further: list[tuple[str, Any, str]] = []
    if readings.where:
        further.append(("where", dict(readings.where), "rows that count"))
    closed, unknown = count_words.of(demand, readings)
    if closed:
        further.append(("closed_values", closed, "words for closed days among the counts"))
    if readings.layout == "single":
        further.append(("depot", readings.rows["depot"].iloc[0] or _name(demand.path), "no column names a depot"))
    remarks = [
        *sheets.notes(demand, readings),
        *filter(None, [stamps.note]),
        *readings.notes,
        *_remarks(readings, reading_facts),
    ]
    remarks += spans.notes
    limits = facts.limit_columns(columns.of(demand)) if readings.layout == "long" else {}
    remarks += keys.limit_remarks(limits)
    if date_zone:
        why = f"all timestamps are at the same time of day in {date_zone}, and some fall on another day in {zone.key}"
        further.append(("date_zone", date_zone, why))
        remarks.append(f"{why}: read as days in {date_zone}")
    if day_starts:
        further.append(("day_starts", *day_starts))
        remarks.append(f"{day_starts[1]}: they count toward the day before")
    return Details(
        stamps,
        spans,
        tuple(further),
        tuple(unknown),
        order_numbers.of(demand, readings),
        static,
        facts.known_future(demand, readings, static),
        _open_column(demand, readings),
        limits,
        tuple(remarks),
    )


def _remarks(readings: Description, reading_facts: Facts) -> list[str]:
    """Sentences about interpretations that may be wrong."""
    remarks = []
    if readings.rival_form:
        remarks.append(
            f"dates are read as '{readings.date_form}', but '{readings.rival_form}' would fit all of them as well"
        )
    if reading_facts.closed:
        days = " or ".join(reading_facts.closed)
        remarks.append(f"no depot has a reading on a {days}: taken as closed; `demand.weekdays` overrides this")
    if reading_facts.spacing > 1:
        remarks.append(f"readings are {reading_facts.spacing} days apart; wanted daily counts")
    return remarks


def _open_column(table: FileTable, readings: Description) -> str | None:
    """Column with yes or no that states whether a site is open; None if there is none."""
    if readings.layout != "long" or readings.aggregate == "count":
        return None
    return next((name for name, column in columns.of(table).items() if facts.is_open_column(column)), None)


def _not_used(table: FileTable, readings: Description, details: Details) -> list[str]:
    """Unused columns of a long table."""
    if readings.layout not in ("long", "single"):
        return []
    used = {readings.depot_column, readings.demand_column, readings.part, *readings.day.names, details.order_id}
    used |= {*readings.where, *details.static, *details.known_future, details.stamps.column, details.open_column}
    used |= {*details.limits.values()}
    return [name for name in columns.of(table) if name not in used]


def _draft(
    demand: FileTable,
    readings: Description,
    depots: parts.DepotFile | None,
    reading_facts: Facts,
    details: Details,
    code: str | None,
    time_zone: tuple[str, str],
    folder: Path,
) -> Draft:
    spans, stamps = details.spans, details.stamps
    recording = (
        ("next_day", f"an archive: it ends on {reading_facts.last}, so each day counts as known from the next morning")
        if reading_facts.is_archive
        else ("arrival", f"an active feed: its last day is {reading_facts.last}")
    )
    recording = ("arrival", "not needed if columns.recorded_at is set") if stamps.column else recording
    return Draft(
        name=_name(demand.path),
        files=tuple(str(path) for path in parts.paths(demand)),
        source=(
            *keys.source(demand, readings, folder),
            *([("null_values", list(details.null_values), "words for unknown counts")] if details.null_values else []),
        ),
        columns=tuple(keys.columns(readings, details.order_id, details.open_column, stamps, details.limits)),
        time_zone=time_zone,
        country=(code, "public holidays" if code else "two-letter code, for public holidays; none was given"),
        aggregate=keys.aggregate(readings),
        recorded=recording,
        static=tuple(name for name in depots.static if name not in spans.names) if depots else details.static,
        depots=tuple(keys.depots_source(depots.table, spans, folder)) if depots else None,
        depots_id=depots.column if depots else readings.depot_column or "",
        depots_columns=spans.columns,
        notes=details.notes,
        demand=details.demand,
        known_future=details.known_future,
    )


def _time_zone(code: str | None) -> tuple[str, str]:
    if code and (zone := place.time_zone(code)):
        return zone[0], f"the main zone of {code}, which has several" if zone[1] else f"the zone of {code}"
    machine = place.time_zone_of_machine()
    if machine:
        return machine, "the zone of the machine that wrote this file"
    return "UTC", "unknown: set the time zone of the counted days, as in Europe/Berlin"


def _name(path: Path) -> str:
    """Pipeline name derived from a file name."""
    stem = column_names.normalized(path.name.split(".")[0])
    name = re.sub(r"[^a-z0-9_-]+", "", stem.encode("ascii", "ignore").decode())[:60].strip("_")
    return name if re.match(r"[a-z0-9]", name) else "my-fleet"


def _country_in(table: FileTable) -> str | None:
    """Country that a column of that name holds for all rows."""
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
        raise SpecError(f"{file}: cannot be written: {error.strerror}; wanted a writable folder") from error


def _checked(file: Path, reading_facts: Facts, now: datetime) -> tuple[str | None, list[str]]:
    """Result of `check`: the fault, if any, and lines with the verdict and suspicions."""
    from forecaster.check import dry_run, text_report
    from forecaster.config import load

    try:
        spec = load(file)
        outcome = dry_run.check(
            spec, now=now, as_of=_as_of(spec.zone, reading_facts) if reading_facts.is_archive else None
        )
    except ForecasterError as error:
        return str(error), [f"check     not usable: {error}"]
    verdict = text_report.verdict(outcome).removesuffix("; nothing else was changed")
    return outcome.fault, [f"check     {verdict}", *text_report.suspects(outcome)]


def _as_of(zone: ZoneInfo, reading_facts: Facts) -> datetime:
    """Morning after the last reading."""
    return datetime.combine(reading_facts.last + timedelta(days=1), time(3, 15), zone).astimezone(UTC)


def _summary(file: Path, understanding: Understanding, verdict: Sequence[str], *, is_usable: bool) -> list[str]:
    facts, code = understanding.seen, understanding.country
    as_of = f" --as-of {facts.last + timedelta(days=1)}" if facts.is_archive else ""
    quoted = shlex.quote(str(file))
    lines = [
        f"{file}: written; each key has its reason next to it",
        f"seen      {count(facts.depots, 'depot')}, {count(facts.days, 'day')}, {facts.first} to {facts.last}, "
        f"{count(facts.readings, 'reading')}",
        *understanding.lines(),
        f"country   {code or 'unknown, so no public holidays: set calendar.country and timezone, or give --country'}",
    ]
    further = [
        f"  forecaster run {quoted}{as_of}   runs the nightly pipeline",
        f"  forecaster serve {quoted}   shows the page",
    ]
    lines += [f"archive   ends on {facts.last}: run commands as of the next day"] * facts.is_archive
    return [
        *lines,
        *(f"note      {note}" for note in understanding.details.notes),
        *verdict,
        "Next:",
        f"  forecaster check {quoted}{as_of}   checks the sources against the contract",
        *(further if is_usable else []),
    ]
