"""People of the depots: read the table of where each person works, under which contract, and their
days off.

The source is read completely each night; only the names in the plans of the week are stored.
Findings name the line, the column and the value found there, but never a person: they end up in
logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import pandas as pd

from forecaster.config import PeopleTable, Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.language.sentences import sentence
from forecaster.demand import parsing, sources
from forecaster.demand.history import aliases
from forecaster.demand.validation.reference_tables import RowFindings
from forecaster.errors import SourceError
from forecaster.staffing.people.worker import Worker

LEFT_OUT = "the row is left out"


def people(spec: Spec, depot_ids: Iterable[str], former: pd.DataFrame, findings: list[Finding]) -> tuple[Worker, ...]:
    """People of these depots, in the order of their first rows; empty if no table is declared.

    Several rows of a person are several spans of days off; the first row determines the contract.
    `former` are resolved aliases. Raises SourceError and its subclasses as `sources.read`.
    """
    if spec.staffing is None or spec.staffing.people_table is None:
        return ()
    table = spec.staffing.people_table
    rows = sources.read(table.source, spec, table.columns.required, table.columns.optional)
    report = RowFindings(spec, findings)
    depot_id = aliases.current(parsing.words(rows[table.columns.depot_id]), former)
    entries = pd.DataFrame(
        {
            "depot_id": depot_id,
            "name": parsing.words(rows[table.columns.person]).str.strip(),
            "contract": parsing.words(rows[table.columns.contract]),
        }
    )
    is_valid = _valid(entries, rows, table, spec, set(depot_ids), report)
    first, last = _days_off(rows, table, is_valid, report)
    cannot_work = _shifts(rows, table, spec, is_valid, report)
    key = ["depot_id", "name"]
    valid = entries[is_valid]
    differs = valid["contract"] != valid.groupby(key)["contract"].transform("first")
    report(
        "person_form",
        rows.loc[valid.index[differs]],
        table.columns.contract,
        N_("one contract a person"),
        N_("the first row's counts"),
    )
    return tuple(
        Worker(
            depot,
            name,
            group["contract"].iloc[0],
            tuple((first[row], last[row]) for row in group.index if row in first),
            tuple(dict.fromkeys(shift for row in group.index for shift in cannot_work.get(row, ()))),
        )
        for (depot, name), group in valid.groupby(key, sort=False)
    )


def _valid(
    entries: pd.DataFrame, rows: pd.DataFrame, table: PeopleTable, spec: Spec, depot_ids: set[str], report: RowFindings
) -> Any:
    """Mask of valid rows; each invalid row is reported once, with its first fault."""
    assert spec.staffing is not None
    contracts = [contract.name for contract in spec.staffing.people]
    columns, is_valid = table.columns, rows[sources.FAULT] == ""
    report("person_form", rows[~is_valid], columns.depot_id, N_("as many fields as the header"), LEFT_OUT)
    for name, column, fits, expected, choices in (
        (
            "name",
            columns.person,
            parsing.in_one_line(entries["name"]) & (entries["name"] != ""),
            N_("a name or number"),
            (),
        ),
        ("depot_id", columns.depot_id, entries["depot_id"].isin(depot_ids), N_("a depot that counts"), depot_ids),
        (
            "contract",
            columns.contract,
            entries["contract"].isin(contracts),
            sentence(N_("a contract of staffing.people: {names}"), names=", ".join(contracts)),
            contracts,
        ),
    ):
        wrong = is_valid & ~fits
        near = nearest_word(str(entries[name][wrong].iloc[0]), list(choices)) if wrong.any() and choices else None
        wrong_rows = rows[wrong]
        # report only that the name is missing or has several lines, never the name itself
        if name == "name":
            wrong_rows = wrong_rows.assign(
                **{column: entries["name"][wrong].where(entries["name"][wrong] == "", "several lines")}
            )
        report(
            "person_form",
            wrong_rows,
            column,
            expected,
            sentence(N_("the row is left out{hint}"), hint=did_you_mean(near)),
        )
        is_valid = is_valid & fits
    return is_valid


def _days_off(
    rows: pd.DataFrame, table: PeopleTable, is_valid: Any, report: RowFindings
) -> tuple[dict[Any, date], dict[Any, date]]:
    """First and last day of the span of each row that has one."""
    columns, notation = table.columns, parsing.Notation.of(table.source)
    off_from, off_to = (name if name in rows else None for name in (columns.off_from, columns.off_to))
    if off_from is None:
        if off_to and columns.off_from:
            raise SourceError(
                f"{sources.name(table.source)}: found column '{off_to}' without '{columns.off_from}'; wanted both, or "
                "the name of the column with the first day off as staffing.people_table.columns.off_from"
            )
        return {}, {}
    first = report.days(rows, off_from, notation)
    last = report.days(rows, off_to, notation) if off_to else first
    form = sentence(N_("a date such as {day}, or nothing"), day=notation.day)
    dated, then = sentence(N_("a date such as {day}"), day=notation.day), N_("these days off are left out")
    is_told = is_valid & (parsing.words(rows[off_from]) != "")
    report("absence_form", rows[is_told & first.isna()], off_from, form, then)
    fits = is_told & first.notna()
    if off_to:
        has_last = parsing.words(rows[off_to]) != ""
        report("absence_form", rows[is_valid & has_last & last.isna()], off_to, form, then)
        report("absence_form", rows[is_valid & has_last & ~is_told], off_from, dated, then)
        early = fits & has_last & (last < first)
        report("absence_form", rows[early], off_to, N_("a last day on or after the first"), then)
        fits = fits & ~early & (last.notna() | ~has_last)
        last = last.where(has_last, first)
    return first[fits].dt.date.to_dict(), last[fits].dt.date.to_dict()


def _shifts(
    rows: pd.DataFrame, table: PeopleTable, spec: Spec, is_valid: Any, report: RowFindings
) -> dict[Any, tuple[str, ...]]:
    """Shifts that the person of each row cannot work; unknown ones are reported."""
    column = table.columns.cannot_work
    if column is None or column not in rows:
        return {}
    assert spec.staffing is not None
    names = [shift.name for shift in spec.staffing.shifts]
    listed = {
        row: [word.strip() for word in text.split(";") if word.strip()]
        for row, text in parsing.words(rows[column])[is_valid].items()
    }
    unknown = [row for row, labels in listed.items() if not set(labels) <= set(names)]
    expected = sentence(N_("shifts of staffing.shifts with a ';' between them ({names})"), names=", ".join(names))
    report("absence_form", rows.loc[unknown], column, expected, N_("others are left out"))
    return {row: tuple(word for word in labels if word in names) for row, labels in listed.items()}
