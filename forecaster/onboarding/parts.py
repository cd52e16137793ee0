"""Roles of several files: readings, in one file or in parts of the same form, or depots with one
row each."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, takewhile
from pathlib import Path

import pandas as pd

from forecaster.demand import parsing
from forecaster.errors import SpecError
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.days import day_counts, day_faults
from forecaster.onboarding.description import days
from forecaster.onboarding.description.questions import TableAnswers
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.description.table import describe
from forecaster.onboarding.tables import FileTable

# names of the product's own columns, which attributes cannot have
_OWN_NAMES = ("opened", "closed", "timezone", "retracted", "recorded_at")
# minimum share of the depots in a file of depots, or of the days that another depot's file shares
_SAME = 0.5


@dataclass(frozen=True)
class DepotFile:
    """File with one row per depot."""

    table: FileTable
    column: str  # names the depot
    static: tuple[str, ...]


def sort(tables: Sequence[FileTable], answers: TableAnswers) -> tuple[FileTable, Description, DepotFile | None]:
    """Combine the readings into one table and find the file of depots. Raises SpecError for a file
    that is neither."""
    failures: list[SpecError] = []
    recognized: list[tuple[FileTable, Description]] = []
    rest: list[FileTable] = []
    for table in tables:
        try:
            recognized.append(_recognized(table, answers))
        except SpecError as error:
            failures.append(error)
            rest.append(table)
    if not recognized:
        raise failures[0]
    table, readings = _largest(recognized)
    other_tables = [other for other, _ in recognized if other is not table]
    alike = [other for other in other_tables if other.columns == table.columns and other.settings == table.settings]
    of_alike = [description for other, description in recognized if any(other is same for same in alike)]
    if alike:
        union = replace(table, frame=pd.concat([table.frame, *(other.frame for other in alike)], ignore_index=True),
                        more=tuple(other.path for other in alike))  # fmt: skip
        _refuse_file_a_depot([readings, *of_alike], table)
        table, readings = union, describe(union, answers)
        pattern(table)
    depots = None
    for other in [*rest, *(other for other in other_tables if other not in alike)]:
        depots = _depots(other, readings)
        if depots is None:
            raise SpecError(
                f"{other.path}: found neither the columns of {table.path} nor one row per depot; wanted "
                "files with the same columns, and optionally one file with one row per depot"
            )
    return table, readings, depots


def _refuse_file_a_depot(series: Sequence[Description], table: FileTable) -> None:
    """Raise SpecError if files without a column of depots share many days, as separate files per
    depot do; overlapping exports of one depot share fewer."""
    if any(readings.layout != "single" for readings in series):
        return
    days = [{*readings.rows["day"].dropna()} for readings in series]
    if any(len(first & second) >= _SAME * min(len(first), len(second)) for first, second in combinations(days, 2)):
        raise SpecError(
            f"{table.path} and {len(series) - 1} more: found counts of the same days, as in one file per depot, but no "
            "column that names the depot; wanted a depot column in each file, as in depot,date,orders"
        )


def _recognized(table: FileTable, answers: TableAnswers) -> tuple[FileTable, Description]:
    """Readings of a file, whose days may also be serial numbers. If no days can be read, the error
    states the problem."""
    try:
        return table, describe(table, answers)
    except SpecError as error:
        if days.candidates(columns.of(table), answers):
            raise
        if dated_table := day_counts.written_out(table):
            return dated_table, describe(dated_table, answers)
        raise SpecError(f"{error}{day_faults.hint(table)}") from None


def paths(table: FileTable) -> list[Path]:
    return [table.path, *table.more]


def pattern(table: FileTable) -> Path:
    """Path of a file, or a glob that matches all its parts and no other file. Raises SpecError
    otherwise."""
    files = [path.resolve() for path in paths(table)]
    if len(files) == 1:
        return files[0]
    folder, names = files[0].parent, [path.name for path in files]
    start = _common_start(names)
    end = _common_start([name[len(start) :][::-1] for name in names])[::-1]
    candidate = Path(glob.escape(str(folder))) / f"{glob.escape(start)}*{glob.escape(end)}"
    if {path.parent for path in files} != {folder} or {*map(Path, glob.glob(str(candidate)))} != {*files}:
        raise SpecError(
            f"{folder}: found no pattern such as {candidate.name} that matches only these {len(files)} files; wanted a "
            "folder with only these files"
        )
    return candidate


def _common_start(names: Sequence[str]) -> str:
    return "".join(letters[0] for letters in takewhile(lambda letters: len({*letters}) == 1, zip(*names, strict=False)))


def _largest(recognized: Sequence[tuple[FileTable, Description]]) -> tuple[FileTable, Description]:
    return max(recognized, key=lambda pair: len(pair[1].rows))


def _depots(table: FileTable, readings: Description) -> DepotFile | None:
    """The file as one with a row per depot; None if it is not."""
    ids = {*readings.rows["depot"]}
    for name, column in columns.of(table).items():
        texts = parsing.words(column.values)
        if texts.is_unique and len(ids & {*texts}) >= _SAME * len(ids):
            attributes = [
                other for other in columns.of(table).values() if other.name != name and _tells_apart(other, len(texts))
            ]
            return DepotFile(table, name, tuple(other.name for other in attributes))
    return None


def _tells_apart(column: columns.Column, depots: int) -> bool:
    if column.name in _OWN_NAMES:
        return False
    is_place = re.fullmatch("city|country|subdivision", column_names.normalized(column.name)) is not None
    return is_place or (
        column.dates is None and not column.are_numbers and 2 <= len(column.distinct) <= max(depots // 2, 2)
    )
