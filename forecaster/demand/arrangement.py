"""Arrange a source's rows as the pipeline file declares: fill blank cells down, select rows by
`where`, and provide one column for the depot and one for the day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow.compute as pc

from forecaster.config import Spec, data_rules
from forecaster.config.demand import Condition, DemandColumns, Excluded
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, fold, nearest_word
from forecaster.core.language.sentences import sentence
from forecaster.demand import parsing, sources
from forecaster.demand.parsing import Notation
from forecaster.demand.sources import FAULT, FILE
from forecaster.errors import SourceError, SpecError
from forecaster.lake import TABLES, YEAR, Lake

Column = Any  # a pandas Series
RESEMBLES = 0.75  # similarity of a misspelled name
_RESERVED = frozenset({*TABLES["demand"].names, YEAR, "day", "rows"})
_UTC = ZoneInfo("UTC")
_WHOLE = r"^([+-]?[0-9]+)\.0+$"  # a whole number with decimals


def plain_words(column: Column) -> Column:
    """Texts of cells, casefolded and stripped; 1.0 becomes 1."""
    return parsing.words(column).str.casefold().str.replace(_WHOLE, r"\1", regex=True)


def are_one_of(column: Column, values: Sequence[str]) -> Column:
    """Mark cells with one of these texts, ignoring case; "" is an empty cell."""
    return plain_words(column).isin(_plain(values))


def _plain(values: Sequence[str]) -> set[str]:
    return {*plain_words(pd.Series(values, dtype="str"))}


def joined_days(year: Column, month: Column, day: Column) -> Column:
    """Days from a year, a month and a day column, as ISO 8601 text; a month is a number or a name.
    If they form no valid day, the three texts joined by dashes."""
    texts = parsing.words(year) + "-" + parsing.words(month) + "-" + parsing.words(day)
    return parsing.each_value(texts.where(texts != "--", ""), _iso, "").astype("str")


def _iso(texts: Column) -> Column:
    parts = texts.str.extract(r"^([0-9]{4})(?:\.0+)?-(.+?)(?:\.0+)?-([0-9]{1,2})(?:\.0+)?$")
    plain = (parts[0] + "-" + parts[1].str.rstrip(".") + "-" + parts[2]).fillna("")
    parsed = pd.Series(pd.NaT, texts.index, dtype="datetime64[s]")
    for form in ("%Y-%m-%d", "%Y-%B-%d", "%Y-%b-%d"):
        parsed = parsed.fillna(parsing.days(plain, _UTC, Notation(date_format=form)))
    return parsed.dt.strftime("%Y-%m-%d").astype("str").where(parsed.notna(), texts)


def source_columns(spec: Spec) -> tuple[list[str], list[str]]:
    """Columns that the demand source must have, and columns that it may have."""
    columns, future = spec.demand.columns, list(spec.calendar.known_future)
    count = [] if spec.demand.aggregate == "count" else [columns.demand]
    depot = [] if spec.demand.depot is not None else [columns.depot_id]
    must = [*depot, *columns.day_columns, *count, columns.open, columns.recorded_at, columns.order_id, *columns.limits]
    must += [*spec.demand.where, *spec.demand.source.fill_down]
    # without an events source every known-future covariate has to be a column
    needed = [*dict.fromkeys(name for name in must if name)]
    return (needed, future) if spec.calendar.events else ([*needed, *future], [])


def refuse_unknown_covariates(spec: Spec) -> None:
    """Raise SpecError for a misspelled name in `calendar.known_future`, which would be 0 on every
    day: it is neither a column nor a kind of event, and resembles an unused one.

    A kind of event that has not occurred yet is no error. Without an events source, ingestion
    requires the columns.
    """
    if not spec.calendar.events or not spec.calendar.known_future:
        return
    lake, declared = Lake.of(spec), spec.calendar.known_future
    kinds = sorted(pc.unique(lake.read("events", columns=["kind"])["kind"]).to_pylist())
    known = {*lake.covariates(), *(["open"] if spec.demand.columns.open else [])}
    missing = [name for name in declared if name not in known and fold(name) not in {*map(fold, kinds)}]
    if not missing:
        return
    source, needed = spec.demand.source, source_columns(spec)[0]
    has_covariates = getattr(source, "wide", None) is None
    try:
        columns = next(sources.open_feed(source, spec, needed, others=has_covariates).blocks).columns
    except SourceError:  # ingestion reports it
        return
    used = {*map(fold, (*needed, *declared))}
    unused = [name for name in (*columns, *kinds) if fold(name) not in used and name[:1] != ":"]
    for name in missing:
        if name not in columns and (near := nearest_word(name, unused, RESEMBLES)):
            place = f"calendar.known_future: found '{name}', wanted a column of {sources.name(source)}"
            raise SpecError(f"{place} or a kind of event{did_you_mean(near)}")


def covariate_columns(spec: Spec, readings: pd.DataFrame) -> list[str]:
    """Source columns that the demand table keeps: known-future covariates, except `open`, which it
    has anyway, and limits of what could be served.

    Raises SpecError when the demand table itself uses one of the names.
    """
    columns = dict.fromkeys((*spec.calendar.known_future, *spec.demand.columns.limits))
    names = [name for name in columns if name in readings.columns]
    if "open" in names and spec.demand.columns.open == "open":
        names.remove("open")
    if clashes := sorted(_RESERVED.intersection(names)):
        advice = "declare it as demand.columns.open" if clashes[0] == "open" else "rename that column of the source"
        key = "calendar.known_future" if clashes[0] in spec.calendar.known_future else "demand.columns"
        raise SpecError(f"{key}: the demand table has a column '{clashes[0]}' of its own; {advice}")
    return names


def further_values(column: Column, kind: parsing.Kind, columns: DemandColumns, notation: Notation) -> Column:
    """Values of an additional column: numbers or words, None if empty; for limits 1 or 0, or hours
    since midnight."""
    if column.name == columns.capped:
        return parsing.yes(column)
    if column.name == columns.sold_out_at:
        return parsing.times_of_day(column)
    return parsing.numbers(column, notation) if kind == "double" else parsing.words(column).replace("", None)


class Arrangement:
    """Arranges the blocks of a feed, one after another."""

    def __init__(self, spec: Spec) -> None:
        self._demand = spec.demand
        self.left_out, self._rows = 0, 0  # rows excluded by `where`, and rows in total
        self._last = dict[str, pd.DataFrame]()  # column → file, order and value of the last filled cell
        self._missing = {
            name: {value: plain for value in _values(condition) for plain in _plain([value])}
            for name, condition in spec.demand.where.items()
        }

    def arrange(self, block: pd.DataFrame) -> pd.DataFrame:
        """The rows that count, with the columns that the contract reads."""
        demand = self._demand
        for name in sorted(demand.source.fill_down, key=lambda name: name != demand.columns.order_id):
            block = block.assign(**{name: self._filled_down(block, name)})
        is_included = pd.Series(True, index=block.index)
        for name, condition in demand.where.items():
            texts = plain_words(block[name])
            block_values = {*texts.unique()}
            self._missing[name] = {
                value: plain for value, plain in self._missing[name].items() if plain not in block_values
            }
            is_included &= texts.isin(_plain(_values(condition))) ^ isinstance(condition, Excluded)
        is_included |= block[FAULT] != ""  # the cells of a faulty row may be in the wrong columns
        self._rows += len(block)
        if not is_included.all():
            self.left_out += int((~is_included).sum())
            block = block[is_included]
        if demand.depot is not None:
            block = block.assign(**{demand.columns.depot_id: demand.depot})
        if len(names := demand.columns.day_columns) == 3:
            block = block.assign(**{demand.columns.day: joined_days(*(block[name] for name in names))})
        return block

    def findings(self) -> list[Finding]:
        """Findings about values of `where` that no row has."""
        limits = self._demand.rules
        severity = data_rules.severity("where_value", limits.severity)
        requirement = data_rules.requirement("where_value", **limits.model_dump())
        template = N_("demand.where: found no row with {values} in column '{column}'; wanted {wanted}")
        return [
            Finding(
                "where_value",
                severity,
                1,
                sentence(template, values=" or ".join(map(repr, missing)), column=name, wanted=requirement),
            )
            for name, missing in self._missing.items()
            if missing and self._rows
        ]

    def _filled_down(self, block: pd.DataFrame, name: str) -> Column:
        """Fill each blank cell from the one above it in the same file and, if order numbers repeat,
        in the same order."""
        order = self._demand.columns.order_id
        keys = pd.DataFrame({"file": block[FILE].astype("str"), "order": ""}, index=block.index)
        if order is not None and order != name:
            numbers = parsing.words(block[order])
            numbers = numbers.where(numbers != "")
            keys["order"] = numbers if numbers.dropna().duplicated().any() else ""
        texts = parsing.words(block[name])
        rows = keys.assign(value=texts.where(texts != ""))
        all_rows = pd.concat([self._last.get(name, rows.head(0)), rows])
        filled = all_rows.groupby(["file", "order"], sort=False)["value"].ffill().fillna(all_rows["value"])
        self._last[name] = all_rows.assign(value=filled).tail(1)
        return filled.iloc[len(all_rows) - len(rows) :].fillna("").astype("str")


def _values(condition: Condition) -> tuple[str, ...]:
    return condition.values if isinstance(condition, Excluded) else condition
