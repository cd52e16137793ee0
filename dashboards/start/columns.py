"""Columns of an uploaded file as interpreted, and the choices that override it: the options of
`init --from`, as fields of a form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from dashboards.start.folder import ProjectFolder
from forecaster.core import timezones
from forecaster.core.language import N_, _
from forecaster.errors import SpecError
from forecaster.onboarding import draft, parts, place, start, tables
from forecaster.onboarding.description.questions import Question, TableAnswers
from forecaster.onboarding.description.questions import written as as_condition
from forecaster.onboarding.draft import Draft
from forecaster.onboarding.start import Understanding
from forecaster.onboarding.tables import FileTable
from forecaster.plugins import is_installed

SHOWN = 40  # columns of a wide table
_SAMPLES = 3
_COSTS = ("orders_per_driver", "cost_short", "cost_idle")
_ROLES = {
    "depot_id": N_("depot"),
    "date": N_("day"),
    "demand": N_("count"),
    "open": N_("open or closed"),
    "order_id": N_("number of the order"),
    "recorded_at": N_("instant of recording"),
    "capped": N_("capped day"),
    "sold_out_at": N_("capped day"),
}


@dataclass(frozen=True)
class Choices:
    """The user's choices, named like the options of `init`; an empty choice leaves the decision to
    the table's content."""

    files: tuple[str, ...] = ()
    country: str = ""
    timezone: str = ""
    rows: str = ""
    site: str = ""
    day: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    orders_per_driver: str = ""
    cost_short: str = ""
    cost_idle: str = ""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Read the choices from a query or a form: fields of these names, roles as `column.NAME`,
        and answers to questions as `answer.PART`. Raises SpecError for an invalid answer."""
        lists: dict[str, list[str]] = {name: [] for name in ("files", "day", "count", "where", "unused")}
        arguments: dict[str, Any] = {}
        answers: list[tuple[str, str]] = []
        for name, value in pairs:
            kind, _dot, of = name.partition(".")
            if kind == "answer" and value:
                answers.append((of, value))
            elif kind == "column" and value == "depot":
                arguments["site"] = of
            elif kind == "column" and value in lists:
                lists[value].append(of)
            elif name in lists and value.strip():
                lists[name].append(value.strip())
            elif name in cls.__dataclass_fields__ and name not in lists and value.strip():
                arguments.setdefault(name, value.strip())
        arguments |= {name: tuple(dict.fromkeys(values)) for name, values in lists.items()}
        choices = cls(**arguments)
        for part, value in answers:
            choices = choices._answered(part, value)
        return choices

    def _answered(self, part: str, value: str) -> Self:
        if part not in ("rows", "site", "day", "count", "where"):
            raise SpecError(f"answer: found {part[:40]!r}, wanted one of rows, site, day, count, where")
        if part == "where":
            return replace(self, where=(*self.where, value))
        several = part in ("day", "count")
        changes: dict[str, Any] = {part: tuple(name.strip() for name in value.split(",")) if several else value}
        return replace(self, **changes)

    @property
    def table_answers(self) -> TableAnswers:
        """The choices as answers of the command line. Raises SpecError for an invalid one."""
        conditions = TableAnswers.of(self.rows or None, None, None, None, self.where)
        return replace(conditions, site=self.site or None, day=self.day or None, count=self.count or None)

    @property
    def query(self) -> str:
        """The choices as the query of an address."""
        return urlencode({name: value for name, value in vars(self).items() if value}, doseq=True)

    @property
    def staffing(self) -> dict[str, float]:
        """The section `staffing`; empty if nothing is chosen. Raises SpecError for an invalid
        number, or if one of the three is missing."""
        cost_texts = {name: getattr(self, name).replace(",", ".") for name in _COSTS if getattr(self, name)}
        try:
            numbers = {name: float(text) for name, text in cost_texts.items()}
        except ValueError:
            raise SpecError(f"staffing: found {', '.join(cost_texts.values())}, wanted numbers") from None
        if numbers and len(numbers) < len(_COSTS):
            raise SpecError(f"staffing: found {', '.join(numbers)}, wanted all of {', '.join(_COSTS)}, or none")
        return {name: int(value) if value.is_integer() else value for name, value in numbers.items()}


@dataclass(frozen=True)
class ColumnLine:
    """A column with its first values, its detected role and the reason, and the chosen role."""

    name: str
    values: str
    role: str
    reason: str
    chosen: str


@dataclass(frozen=True)
class ColumnsPage:
    """Content of the step: columns, the resulting pipeline file, open questions; `fault` states why
    there is none."""

    choices: Choices
    columns: tuple[ColumnLine, ...]
    more_columns: int
    reading: tuple[str, ...] = ()  # the table as interpreted, with its first days
    notes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    country: str = ""
    timezone: str = ""
    why_timezone: str = ""
    depots: str = ""
    pipeline: str = ""
    fault: str = ""


def page(folder: ProjectFolder, choices: Choices, now: datetime) -> ColumnsPage:
    """Return the page for these choices. Raises SpecError if a file cannot be read."""
    file_tables = _read(folder, choices)
    try:
        understanding, content = understand(folder, choices, now)
    except SpecError as error:
        lines = _lines(file_tables[0], {}, choices)
        return ColumnsPage(choices, lines[:SHOWN], max(len(lines) - SHOWN, 0), fault=str(error))
    lines = _lines(understanding.table, _roles(understanding), choices, file_tables)
    of = understanding.draft
    return ColumnsPage(
        choices,
        lines[:SHOWN],
        max(len(lines) - SHOWN, 0),
        tuple(understanding.lines()),
        understanding.details.notes,
        tuple(as_condition(name, filter_value) for name, filter_value in understanding.readings.where.items()),
        understanding.readings.questions,
        understanding.country or "",
        *of.time_zone,
        _depots(understanding),
        draft.text(content),
    )


def understand(folder: ProjectFolder, choices: Choices, now: datetime) -> tuple[Understanding, Draft]:
    """Return the interpretation and the draft of the pipeline file: that of `init --from`, which
    also starts from the prior. Raises SpecError if the files do not allow a forecast."""
    if choices.timezone and not timezones.exists(choices.timezone):
        raise SpecError(f"timezone: found {choices.timezone!r}, wanted a name such as Europe/Berlin")
    read = [table.without(choices.unused) for table in _read(folder, choices)]
    demand, readings, depots = parts.sort(read, choices.table_answers)
    if readings.layout in ("depots", "days"):
        left_out = (name for name in choices.unused if name not in readings.ignored)
        readings = replace(readings, ignored=(*readings.ignored, *left_out))
    understanding = start.understand(
        demand,
        readings,
        depots,
        folder.path,
        code=place.country(choices.country) if choices.country else None,
        now=now,
        time_zone=choices.timezone or None,
    )
    starts = is_installed("prior")
    return understanding, replace(understanding.draft, staffing=choices.staffing or None, starts_from_prior=starts)


def _read(folder: ProjectFolder, choices: Choices) -> list[FileTable]:
    if not choices.files:
        raise SpecError("found no file, wanted one of yours")
    return [_table(file, file.stat().st_mtime_ns) for file in map(folder.file, choices.files)]


@lru_cache(4)
def _table(file: Path, changed: int) -> FileTable:
    return tables.read(file)


def _roles(understanding: Understanding) -> dict[str, tuple[str, str]]:
    """Return the role of each column that has one, with the reason."""
    readings, of, roles = understanding.readings, understanding.draft, dict[str, tuple[str, str]]()
    for key, value, reason in of.columns:
        for name in value if isinstance(value, list) else [value]:
            roles[name] = (_(_ROLES[key]) if key in _ROLES else key, reason)
    if readings.layout == "depots":
        depot_columns = {*readings.rows["depot"]}
        roles |= {
            name: (_("counts of a depot"), readings.why_demand)
            for name in understanding.table.columns
            if name in depot_columns
        }
    elif readings.layout == "days":
        other_columns = {*readings.ignored, readings.depot_column}
        roles |= {
            name: (_("counts of a day"), readings.why_demand)
            for name in understanding.table.columns
            if name not in other_columns
        }
    for name, filter_value in readings.where.items():
        roles.setdefault(name, (_("which rows count"), as_condition(name, filter_value)))
    if readings.part:
        roles.setdefault(readings.part, (_("parts of a day"), understanding.draft.aggregate[1]))
    for name in of.static:
        roles.setdefault(name, (_("attribute of a depot"), _("one value a depot")))
    return roles


def _lines(
    table: FileTable, roles: dict[str, tuple[str, str]], choices: Choices, file_tables: Iterable[FileTable] = ()
) -> tuple[ColumnLine, ...]:
    """Return a line for each column, those with a role first."""
    role_choices = {
        choices.site: "depot",
        **{name: role for role in ("day", "count", "unused") for name in getattr(choices, role)},
    }
    frame = next((file_table.frame for file_table in file_tables if file_table.path == table.path), table.frame)
    names = sorted(frame.columns, key=lambda name: (name not in roles, list(frame.columns).index(name)))
    unused = (_("not used"), "")
    return tuple(
        ColumnLine(name, _samples(frame[name]), *roles.get(name, unused), role_choices.get(name, "")) for name in names
    )


def _samples(values: Any) -> str:
    texts = (str(value).strip().removesuffix(" 00:00:00") for value in values.head(200) if value == value)
    return " · ".join(list(dict.fromkeys(text[:40] for text in texts if text))[:_SAMPLES])


def _depots(understanding: Understanding) -> str:
    """Describe the meaning of a depot."""
    readings = understanding.readings
    if readings.layout == "depots":
        return _("each column of counts is a depot")
    if readings.layout == "single":
        return _("the whole file is one depot")
    return _("each value of “{column}” is a depot", column=readings.depot_column)
