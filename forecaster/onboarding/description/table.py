"""Decisions that describe a table: day, site, count and rows that count, each by evidence or by an
answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.errors import SpecError
from forecaster.onboarding import column_names, columns, notation
from forecaster.onboarding.columns import Column
from forecaster.onboarding.description import counts, days, filters, sites, wide
from forecaster.onboarding.description.days import DayColumns
from forecaster.onboarding.description.questions import NO_COLUMN, ONE_A_COLUMN, ROW_COUNT, TableAnswers
from forecaster.onboarding.description.readings import Description, rows_of
from forecaster.onboarding.tables import FileTable

_FEW_DAYS = 4  # minimum number of headers that are days in a wide table
_REPEATED = 0.1  # maximum share of repeated rows of a version
_BLANK = 0.05  # minimum share of blank cells of a column of sites
_LISTED = 12  # columns named in a message


def describe(table: FileTable, answers: TableAnswers | None = None) -> Description:
    """Describe a table, with `answers` in place of its own evidence.

    Raises SpecError if there are no days, or nothing to count, stating the existing columns and the
    requirement.
    """
    answers = answers or TableAnswers()
    answers.refuse_unknown_columns(table.columns, table.path)
    headers = [name for name in table.columns if notation.date_form(pd.Series([name])) is not None]
    if len(headers) >= _FEW_DAYS and len(headers) >= len(table.columns) / 2:
        return _days_as_columns(table, columns.of(table), headers)
    of_kinds = filters.kinds(columns.of(table), tuple(answers.where))
    row_filter = filters.merged(filters.RowFilter(answers.where), of_kinds)
    if row_filter.where:
        is_match = filters.mask(table.frame, row_filter.where)
        if not is_match.any():
            raise SpecError(
                f"{table.path}: found no row that matches {dict(row_filter.where)}; wanted values in the file"
            )
        table = replace(table, frame=table.frame[is_match].reset_index(drop=True))
    by_name = columns.of(table)
    wide.refuse_times(_numeric(by_name, set()), table.path)
    day_columns = days.candidates(by_name, answers)
    if not day_columns:
        raise SpecError(f"{table.path}: found no date column; {_looked_at(table)}; wanted one with dates such as "
                        "2024-03-05 or 05.03.2024")  # fmt: skip
    _refuse_text_days(table, by_name, day_columns[0])
    description = _described(table, by_name, day_columns, answers)
    questions = [*filter(None, [row_filter.question]), *description.questions]
    notes = (*row_filter.evidence, *description.notes)
    return replace(
        description, where={**row_filter.where, **description.where}, notes=notes, questions=tuple(questions)
    )


def _described(
    table: FileTable, by_name: dict[str, Column], day_columns: list[DayColumns], answers: TableAnswers
) -> Description:
    day = day_columns[0]
    day_names = [name for candidate in day_columns for name in candidate.names]
    site = _site(by_name, day, day_names, answers)
    filled = _filled_down(site.column, by_name, day) if site.column else None
    if site.column is None:
        description = _without_site(table, by_name, day, day_names, answers)
    else:
        description = _long(table, by_name, day, day_names, filled or site.column, answers)
        description = replace(description, fill_down=filled is not None)
    questions = [site.question, *description.questions]
    if _is_day_open(day_columns, description.aggregate == "count"):
        questions.insert(0, days.question(day_columns))
    elif len(day_columns) > 1:
        rivals = [name for candidate in day_columns[1:] for name in candidate.names]
        remark = (
            f"'{day.answer}' is the date column; {columns.listed(rivals)} also contain{'s' * (len(rivals) == 1)} dates"
        )
        description = replace(description, notes=(*description.notes, remark))
    return replace(description, questions=tuple(filter(None, questions)))


def _site(
    by_name: dict[str, Column], day: DayColumns, day_names: Sequence[str], answers: TableAnswers
) -> sites.SiteColumn:
    if answers.site is None:
        return sites.choose(by_name, day.values, day_names)
    return sites.SiteColumn(by_name.get(answers.site), "as answered")


def _filled_down(site: Column, by_name: Mapping[str, Column], day: DayColumns) -> Column | None:
    """Column of sites, often blank, with each blank cell filled from the one above; None unless
    this gives one row per site and day, or another column shows that both rows belong to one order."""
    texts = parsing.words(site.values)
    blank = texts == ""
    if blank.mean() < _BLANK:
        return None
    filled = Column(site.name, texts.where(~blank).ffill())
    is_whole = columns.repeats(filled, day.values) < _BLANK
    other_texts = (parsing.words(column.values) for column in by_name.values() if column.name != site.name)
    return filled if is_whole or any(_numbers_blocks(other, blank) for other in other_texts) else None


def _numbers_blocks(texts: Any, blank: Any) -> bool:
    """True if a column has one value in each row with a site and the blank rows below it, as an
    order number does."""
    is_same = texts == texts.shift()
    return bool(is_same[blank].mean() > 1 - _BLANK and is_same[~blank].mean() < _BLANK)


def _is_day_open(day_columns: list[DayColumns], is_event: bool) -> bool:
    """True if several columns of days differ, and neither a name nor one row per day decides."""
    if len(day_columns) < 2:
        return False
    exact = [
        candidate for candidate in day_columns if column_names.rank(candidate.names[0], "date") < column_names.INEXACT
    ]
    return is_event or len(exact) != 1 or exact[0] is not day_columns[0]


def _long(
    table: FileTable,
    by_name: dict[str, Column],
    day: DayColumns,
    day_names: Sequence[str],
    depot: Column,
    answers: TableAnswers,
) -> Description:
    names = [name for name in _numeric(by_name, {*day_names, depot.name}) if by_name[name].dates is None]
    daily = [name for name in names if not columns.constant_a_depot(by_name[name], depot.values)] or names
    rows = counts.SiteRows(depot.values, day.values, day.moments)
    snapshot = _snapshot(by_name, rows, day, depot)
    rows = _with_parts(table, by_name, rows, (*day_names, depot.name))
    if snapshot is not None:
        rows = replace(rows, part=snapshot)
    count = _count(by_name, daily, rows, answers)
    if count.column is None and not count.evidence and not count.question:
        raise SpecError(f"{table.path}: found no count column; {_looked_at(table)}; wanted one with daily counts")
    description = _of_count(by_name, count, day, depot.values)
    description = replace(description, depot_column=depot.name, part=rows.part, recorded_at=snapshot)
    return _without_totals(description, by_name, depot, answers) if snapshot is None else description


def _without_totals(
    description: Description, by_name: dict[str, Column], depot: Column | None, answers: TableAnswers
) -> Description:
    """Remove rows that are the sum of others (of parts of a site, or of sites) from the
    description. Columns named in `where` of an answer are settled."""
    rows = description.rows.rename(columns={"depot": "site"})
    result = filters.RowFilter()
    if description.part is not None and description.aggregate == "sum":
        part = by_name[description.part]
        result = filters.RowFilter() if part.name in answers.where else filters.of_parts(part, rows)
        remark = f"the rows of a depot and day are summed over '{part.name}': {columns.listed([*part.distinct], 5)}"
        description = replace(description, notes=(*description.notes, remark))
    is_open = depot is not None and depot.name not in answers.where and not result.where and not result.question
    if depot is not None and is_open and description.aggregate != "count":
        result = filters.totals(depot, rows.drop(columns="site").assign(part=depot.values))
        if result.question is not None:
            result = filters.RowFilter()  # among many sites some sums are equal by chance
    questions = (*description.questions, *filter(None, [result.question]))
    if not result.where:
        return replace(description, questions=questions)
    frame = pd.DataFrame({name: by_name[name].values for name in result.where})
    is_match = filters.mask(frame, result.where).to_numpy()
    return replace(
        description,
        rows=description.rows[is_match].reset_index(drop=True),
        where=result.where,
        notes=(*description.notes, *result.evidence),
        questions=questions,
    )


def _snapshot(by_name: dict[str, Column], rows: counts.SiteRows, day: DayColumns, depot: Column) -> str | None:
    """Column with the time or version of a repeated report of a fact; None if there is none."""
    if not rows.are_several:
        return None
    for name, column in by_name.items():
        if name in day.names or name == depot.name or column.dates is None:
            continue
        if not any(column_names.says(name, role) for role in ("recorded", "snapshot")):
            continue
        keys = rows.keys().assign(version=pd.factorize(column.values)[0])
        reported = notation.days(column.values, column.dates.form)
        is_known = reported.notna() & day.values.notna()
        is_later = (reported[is_known] >= day.values[is_known]).mean() > 0.98 if is_known.any() else False
        if is_later and not keys.duplicated(["site", "day", "version"]).mean() > _REPEATED:
            return name
    return None


def _with_parts(
    table: FileTable, by_name: dict[str, Column], rows: counts.SiteRows, used_names: Sequence[str]
) -> counts.SiteRows:
    if not rows.are_several:
        return rows
    orders = tuple(columns.order_numbers(table))
    part = None if orders else filters.part_column(by_name, rows.keys(), tuple(used_names))
    return replace(rows, orders=orders, part=part)


def _count(
    by_name: dict[str, Column], names: Sequence[str], rows: counts.SiteRows, answers: TableAnswers
) -> counts.Count:
    if answers.count is not None or answers.rows == "events":
        name = answers.count[0] if answers.count else ROW_COUNT
        column = None if name == ROW_COUNT else by_name[name]
        return counts.Count(column, "each row is one event, as answered" if column is None else "as answered")
    return counts.choose(by_name, names, rows)


def _of_count(by_name: dict[str, Column], count: counts.Count, day: DayColumns, sites_of_rows: Any) -> Description:
    marks = columns.marks(count.column, by_name) if count.column else (None, ".")
    values = count.column.numbers(marks) if count.column else np.ones(len(day.values))
    name = count.column.name if count.column else None
    rows = rows_of(sites_of_rows, day.values, values, day.moments)
    questions = (count.question,) if count.question else ()
    return Description("long", None, day, name, count.evidence, marks, (), rows, questions=questions)


def _without_site(
    table: FileTable, by_name: dict[str, Column], day: DayColumns, day_names: Sequence[str], answers: TableAnswers
) -> Description:
    """One column per depot, or one series, if no column names depots."""
    names = [name for name in _numeric(by_name, {*day_names}) if by_name[name].dates is None]
    rows = _with_parts(table, by_name, counts.SiteRows("", day.values, day.moments), day_names)
    count_columns = _wide(by_name, names, rows, answers)
    if count_columns is None or not count_columns.names:
        is_stock = counts.hold_stock(names) and rows.are_regular(np.zeros(len(rows.days)))
        if answers.count is None and (not rows.are_several or is_stock):
            raise SpecError(f"{table.path}: found no count column; {_looked_at(table)}; wanted one with daily counts")
        evidence = count_columns.evidence if count_columns else "each row is one order: there is no column of counts"
        count = counts.Count(None, evidence, count_columns.question if count_columns else None)
        return replace(_of_count(by_name, count, day, _name_of_site(answers)), layout="single", part=rows.part)
    if not count_columns.are_sites:
        count = counts.Count(by_name[count_columns.names[0]], count_columns.evidence, count_columns.question)
        description = replace(_of_count(by_name, count, day, _name_of_site(answers)), layout="single", part=rows.part)
        description = replace(description, notes=_left_out(count_columns))
        return _without_totals(description, by_name, None, answers)
    return _wide_sites(table, by_name, day, count_columns)


def _wide(
    by_name: dict[str, Column], names: Sequence[str], rows: counts.SiteRows, answers: TableAnswers
) -> wide.CountColumns | None:
    if answers.count is not None and answers.count != (ROW_COUNT,):
        are_sites = len(answers.count) > 1 or answers.site == ONE_A_COLUMN
        return wide.CountColumns(answers.count, "as answered", are_sites)
    if answers.rows == "events" or answers.count is not None or not names:
        return None
    return wide.choose(by_name, names, rows)


def _wide_sites(
    table: FileTable, by_name: dict[str, Column], day: DayColumns, count_columns: wide.CountColumns
) -> Description:
    marks = columns.marks(by_name[count_columns.names[0]], by_name)
    rows = pd.concat(
        [rows_of(name, day.values, by_name[name].numbers(marks), day.moments) for name in count_columns.names],
        ignore_index=True,
    )
    ignored = tuple(name for name in table.columns if name not in count_columns.names and name not in day.names)
    doubtful = [name for name in count_columns.names if wide.is_doubtful(name)]
    notes = _left_out(
        replace(count_columns, others={n: count_columns.others.get(n, "no counts") for n in ignored if n in by_name})
    )
    if doubtful:
        notes = (*notes, f"treated as depots because of their counts, despite their names: {columns.listed(doubtful)}")
    questions = (count_columns.question,) if count_columns.question else ()
    return Description(
        "depots", None, day, None, count_columns.evidence, marks, ignored, rows, notes=notes, questions=questions
    )


def _left_out(count_columns: wide.CountColumns) -> tuple[str, ...]:
    if not count_columns.others:
        return ()
    return (f"not used: {', '.join(f'{name!r} ({why})' for name, why in count_columns.others.items())}",)


def _name_of_site(answers: TableAnswers) -> str:
    """Given name of the only site; empty if the file's name is to be used."""
    return answers.site if answers.site and answers.site not in (NO_COLUMN, ONE_A_COLUMN) else ""


def _days_as_columns(table: FileTable, by_name: dict[str, Column], headers: list[str]) -> Description:
    form = notation.date_form(pd.Series(headers))
    if form is None:
        raise SpecError(f"{table.path}: found column names that are dates in different formats; wanted one format")
    other_names = [name for name in by_name if name not in headers]
    candidates = [name for name in other_names if not column_names.says(name, "total")]
    depots = column_names.best(candidates, "depot") or candidates
    if not depots:
        raise SpecError(f"{table.path}: found one column per day, but none that names the depot; {_looked_at(table)}")
    depot = by_name[depots[0]]
    filled = [name for name in headers if name in by_name and by_name[name].are_numbers]
    if not filled:
        raise SpecError(f"{table.path}: found one column per day, but no counts in these columns; wanted numbers")
    marks = columns.marks(by_name[filled[0]], by_name)
    of_headers = notation.days(pd.Series(filled), form.form)
    rows = pd.concat(
        [
            rows_of(depot.values, day, by_name[name].numbers(marks), name)
            for name, day in zip(filled, of_headers, strict=True)
        ],
        ignore_index=True,
    )
    ignored = tuple(name for name in table.columns if name not in headers and name != depot.name)
    day = DayColumns((), rows["day"], rows["moment"], form.form, form.rival)
    return Description("days", depot.name, day, None, "one column per day", marks, ignored, rows)


def _refuse_text_days(table: FileTable, by_name: dict[str, Column], day: DayColumns) -> None:
    if table.cells.kind == "parquet" and day.form is not None:
        sample = by_name[day.names[0]].distinct.iloc[0]
        raise SpecError(
            f"{table.path}: column '{day.names[0]}' contains dates as text, such as '{sample}'; wanted a "
            "date column, or text such as 2024-03-05, because a Parquet source has no `date_format`"
        )


def _numeric(by_name: dict[str, Column], used_names: set[str]) -> list[str]:
    return [name for name, column in by_name.items() if name not in used_names and column.are_numbers]


def _looked_at(table: FileTable) -> str:
    names = ", ".join(f"'{name}'" for name in table.columns[:_LISTED])
    more = f" and {len(table.columns) - _LISTED} more" if len(table.columns) > _LISTED else ""
    line = f" in line {table.header_row}" if table.header_row > 1 else ""
    return f"searched columns{line} {names}{more}"
