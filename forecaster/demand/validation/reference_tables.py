"""Validation of reference data: snapshots of depots, aliases and events, with findings about
anomalies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core import timezones
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.language.sentences import as_sentence, sentence
from forecaster.demand import parsing, sources
from forecaster.demand.history.aliases import current, resolve
from forecaster.demand.panel.event_scope import ADDRESS
from forecaster.demand.panel.events import EVENT
from forecaster.demand.unread_columns import refuse_unread
from forecaster.demand.validation.days.announced import announced_days
from forecaster.demand.validation.quarantine import legible
from forecaster.errors import SpecError

ALIAS = ["alias", "depot_id"]
LONGEST = 400  # days of an event that are always listed one by one
_NAMED = 10  # rows named in a finding
MOST_GROUPS = 1000  # maximum number of values of a level

_RESERVED = frozenset({"opened", "closed", "timezone", "retracted", "recorded_at"})


def depots(spec: Spec, findings: list[Finding]) -> pd.DataFrame:
    """Snapshot of the depots source: depot_id, opened, closed, timezone and the attributes as
    words."""
    assert spec.depots is not None
    source, columns, attributes = spec.depots.source, spec.depots.columns, spec.attributes
    if clashes := sorted(_RESERVED & set(attributes)):
        raise SpecError(
            f"depots.static and levels: the depots table has a column '{clashes[0]}' of its own; rename the source's"
        )
    declared = (columns.depot_id, columns.opened, columns.closed, columns.timezone)
    levels = [name for name in spec.depots.levels if name not in spec.depots.static]
    required = [*(name for name in declared if name), *(name for name in attributes if name not in levels)]
    rows = sources.read(source, spec, required, levels)
    for name in set(levels) - set(rows.columns):
        raise SpecError(f"depots.levels: {sources.name(source)}: found no column '{name}', wanted one of the source's")
    row_findings = RowFindings(spec, findings)
    table = pd.DataFrame({"depot_id": parsing.words(rows[columns.depot_id]), "row": rows[sources.ROW]})
    _add_business_days(table, rows, spec, row_findings)
    table["timezone"] = _zones(rows, columns.timezone, row_findings)
    # unreadable values are blanked instead of dropping the row: a depot is worth more than its
    # attribute
    for name in attributes:
        table[name] = parsing.words(rows[name])
        is_text = parsing.are_text(table[name])
        row_findings("row_form", rows[~is_text], name, N_("text, or the source's `encoding`"), AS_NOTHING)
        table[name] = table[name].where(is_text, "")
    _check_levels(table, rows, spec, row_findings)
    _blank_wrong_numbers(table, rows, spec, row_findings)
    return _one_row_each(table, rows, columns.depot_id, row_findings)


def _check_levels(table: pd.DataFrame, rows: pd.DataFrame, spec: Spec, row_findings: RowFindings) -> None:
    """Report depots without a value of a level. Raises SpecError for too many values."""
    assert spec.depots is not None
    for name in spec.depots.levels:
        row_findings(
            "level_missing", rows[table[name] == ""], name, _OF_LEVEL, N_("the depot is in none of its totals")
        )
        if (count := table[name].nunique()) > MOST_GROUPS:
            raise SpecError(
                f"depots.levels: {sources.name(spec.depots.source)}: column '{name}': found {count:,} values, wanted "
                f"at most {MOST_GROUPS:,}; name a column that has one value for many depots"
            )


def _add_business_days(table: pd.DataFrame, rows: pd.DataFrame, spec: Spec, row_findings: RowFindings) -> None:
    """Add `opened` and `closed`; NaT if not declared or not a date."""
    assert spec.depots is not None
    columns, notation = spec.depots.columns, parsing.Notation.of(spec.depots.source)
    for name, column in (("opened", columns.opened), ("closed", columns.closed)):
        table[name] = row_findings.days(rows, column, notation) if column else pd.NaT
        if column:
            unreadable = rows[table[name].isna() & (parsing.words(rows[column]) != "")]
            dated = sentence(N_("a date such as {day}, or nothing"), day=notation.day)
            row_findings("date_form", unreadable, column, dated, AS_NOTHING)
        table[name] = table[name].astype("datetime64[s]")
    if columns.closed:
        requirement = data_rules.RULES["depot_span"].wanted
        row_findings(
            "depot_span", rows[table["closed"] <= table["opened"]], columns.closed, requirement, N_("taken as it is")
        )


def _zones(rows: pd.DataFrame, column: str | None, row_findings: RowFindings) -> pd.Series:
    """Time zone of each row; None if not declared or unknown."""
    if not column:
        return pd.Series(None, rows.index, "str")
    zone = parsing.words(rows[column]).replace("", None)
    is_zone = zone.isin([zone_name for zone_name in zone.dropna().unique() if timezones.exists(zone_name)])
    wrong = rows[zone.notna() & ~is_zone]
    hint = timezones.hint(zone[wrong.index[0]]) if len(wrong) else ""
    requirement = sentence(N_("a time zone such as Europe/Berlin, or nothing{hint}"), hint=hint)
    row_findings("zone_form", wrong, column, requirement, AS_NOTHING)
    valid: pd.Series = zone.where(is_zone, None)
    return valid


def _blank_wrong_numbers(table: pd.DataFrame, rows: pd.DataFrame, spec: Spec, row_findings: RowFindings) -> None:
    """Blank invalid numbers of vans, people and capacities."""
    vans, people = N_("a whole number of vans, or nothing"), N_("a number of people up to 500, or nothing")
    forms = [("vans_form", spec.vans_home, r"\d{0,6}(\.0+)?", vans)] if spec.vans_home else []
    if spec.depot_capacity:
        forms.append(("capacity_form", spec.depot_capacity, r"(\d{1,9}(\.\d+)?)?", N_("a count a day, or nothing")))
    forms += [("people_form", name, r"([1-4]?\d{0,2}|500)(\.0+)?", people) for name in spec.people_columns]
    for rule, name, form, requirement in forms:
        wrong = ~table[name].str.fullmatch(form)
        row_findings(rule, rows[wrong], name, requirement, AS_NOTHING)
        table[name] = table[name].where(~wrong, "")


def _one_row_each(table: pd.DataFrame, rows: pd.DataFrame, column: str, row_findings: RowFindings) -> pd.DataFrame:
    """Rows with a valid id, the last one of each depot."""
    row_findings("depot_missing", rows[table["depot_id"] == ""], column, N_("a depot id"), LEFT_OUT)
    is_odd = (rows[sources.FAULT] != "") & ~rows[sources.FAULT].str.startswith(sources.NO_TEXT)
    row_findings(
        "row_form", rows[is_odd], column, N_("as many fields as the header"), N_("the row is accepted as it is")
    )
    misnamed = ~parsing.in_one_line(table["depot_id"])
    form = data_rules.requirement("depot_form", longest=parsing.LONGEST)
    row_findings("depot_form", rows[misnamed], column, form, LEFT_OUT)
    # identical rows are one depot listed twice, which is no finding; different rows are
    table = table[(table["depot_id"] != "") & ~misnamed].drop_duplicates(list(table.columns.drop("row")))
    is_repeated = table["depot_id"].duplicated(keep="last")
    repeated = rows.loc[table.index[is_repeated]]
    row_findings("depot_twice", repeated, column, N_("one set of attributes a depot"), N_("the last row counts"))
    result: pd.DataFrame = table[~is_repeated].drop(columns="row").reset_index(drop=True)
    return result


def aliases(spec: Spec, findings: list[Finding], depot_ids: Collection[str]) -> pd.DataFrame:
    """Snapshot of the aliases source: alias, and the current depot_id at the end of its chain.

    Omitted are rows without both ids, aliases of themselves or of several depots, chains that end
    in a cycle, and chains without any of `depot_ids`.
    """
    assert spec.depots is not None
    assert spec.depots.aliases is not None
    source = spec.depots.aliases.source
    rows = sources.read(source, spec, ALIAS)
    row_findings = RowFindings(spec, findings)
    table = pd.DataFrame({name: parsing.words(rows[name]) for name in ALIAS})
    is_unfit = (table == "").any(axis=1) | (rows[sources.FAULT] != "") | (table["alias"] == table["depot_id"])
    row_findings("alias_form", rows[is_unfit], "alias", N_("an old and a new depot id, not the same"), LEFT_OUT)
    table = table[~is_unfit].drop_duplicates()
    is_ambiguous = table["alias"].duplicated(keep=False)
    row_findings(
        "alias_form",
        rows.loc[table.index[is_ambiguous]],
        "alias",
        N_("one depot an alias"),
        N_("none of its rows counts"),
    )
    table, is_circular = resolve(table[~is_ambiguous])
    row_findings(
        "alias_form", rows.loc[table.index[is_circular]], "alias", N_("a chain that ends in a depot"), LEFT_OUT
    )
    table = table[~is_circular]
    # a depot that the depots source lists under a former id is a depot under its current id, too
    listed = pd.Series([*depot_ids], dtype="str")
    is_stray = ~table["depot_id"].isin([*listed, *current(listed, table)])
    near = nearest_word(table["depot_id"][is_stray].iloc[0], depot_ids) if is_stray.any() else None
    then = sentence(N_("the row is left out{hint}"), hint=did_you_mean(near))
    stray = rows.loc[table.index[is_stray]]
    row_findings("alias_form", stray, "depot_id", N_("a depot of the depots source"), then)
    return table[~is_stray].reset_index(drop=True)


@dataclass(frozen=True)
class AnnouncedRows:
    """Accepted rows of the events source, before they are expanded to one row per day."""

    written: pd.DataFrame  # as in the source
    table: pd.DataFrame  # the columns of `EVENT` and `until`, the last day; the same index


def events(
    spec: Spec, findings: list[Finding], now: datetime, depot_ids: Collection[str] = ()
) -> tuple[pd.DataFrame, AnnouncedRows]:
    """Snapshot of the events source, one row per event and day: the columns of `EVENT`, null where
    an event has no restriction; and the rows it is made from.

    A row with `until` stands for every day from its date to that day. Of rows with more than
    `LONGEST` days, only those days count that may matter by the end of the next year, so that a
    closure until 9999-12-31 does not become millions of rows. Raises SourceError as
    `refuse_unread` does.
    """
    assert spec.calendar.events is not None
    source, columns = spec.calendar.events.source, spec.calendar.events.columns
    optional = filter(None, (columns.until, *(getattr(columns, name) for name in ADDRESS)))
    rows = sources.read(source, spec, columns.needed, optional, others=True)
    refuse_unread(rows, spec.calendar.events, depot_ids)
    row_findings, notation = RowFindings(spec, findings), parsing.Notation.of(source)
    table = pd.DataFrame({"date": row_findings.days(rows, columns.date, notation)})
    for name in EVENT[1:]:
        column = getattr(columns, name)
        table[name] = (
            parsing.words(rows[column]).replace("", None) if column in rows else pd.Series(None, rows.index, "str")
        )
    fits = table["date"].notna() & table["kind"].notna() & (rows[sources.FAULT] == "")
    row_findings("event_form", rows[~fits], columns.date, sentence(_DATED, day=notation.day), LEFT_OUT)
    table["until"] = table["date"]
    if columns.until is not None and columns.until in rows:
        until = row_findings.days(rows, columns.until, notation)
        table["until"] = until.where(parsing.words(rows[columns.until]) != "", table["date"])
        ends = table["until"] >= table["date"]
        row_findings("event_form", rows[fits & ~ends], columns.until, N_("a last day on or after its date"), LEFT_OUT)
        fits &= ends
    table = table[fits]
    daily = _each_day(table, now.astimezone(spec.zone).year + 1)
    return daily.fillna({"name": ""}).drop_duplicates(ignore_index=True), AnnouncedRows(rows[fits], table)


def _each_day(table: pd.DataFrame, year: int) -> pd.DataFrame:
    """Expand each row to one row per day; long ones at most up to the end of a year."""
    date, until = (table[name].to_numpy("datetime64[D]").astype(np.int64) for name in ("date", "until"))
    ends = np.datetime64(f"{year}-12-31", "D").astype(np.int64)
    is_long = until - date >= LONGEST
    date = np.where(is_long, np.maximum(date, 0), date)  # no reading is of a day before 1970
    until = np.where(is_long, np.minimum(until, np.maximum(ends, date + LONGEST - 1)), until)
    days = np.maximum(until - date + 1, 0)
    rows, first = np.repeat(np.arange(len(table)), days), np.repeat(np.cumsum(days) - days, days)
    day = (date[rows] + np.arange(len(rows)) - first).view("datetime64[D]").astype("datetime64[s]")
    return table.iloc[rows].drop(columns="until").reset_index(drop=True).assign(date=day)


_OF_LEVEL = N_("a value on each depot (depots.levels)")
_DATED = N_("a date such as {day} and a kind")
AS_NOTHING, LEFT_OUT = N_("taken as nothing"), N_("the row is left out")


class RowFindings:
    """Turns rows that break a rule into a finding about the first of them, with the lines of some
    others."""

    def __init__(self, spec: Spec, findings: list[Finding]) -> None:
        self.declared, self.findings = spec.demand.rules.severity, findings
        self._zone = spec.zone

    def days(self, rows: pd.DataFrame, column: str, notation: parsing.Notation) -> pd.Series:
        """Days of a column, NaT if there is none; midnights of another zone become a finding."""
        days, is_other = announced_days(rows[column], self._zone, notation)
        for local in parsing.days(rows.loc[is_other, column].head(1), self._zone, notation):
            values = {"day": notation.day, "local": local.date(), "zone": self._zone.key}
            requirement = sentence(N_("a day such as {day}, as the instant is of {local} in {zone}"), **values)
            self("day_stamps", rows[is_other], column, requirement, N_("the day as written counts"))
        result: pd.Series = days
        return result

    def __call__(self, rule: str, rows: pd.DataFrame, column: str, wanted: str, then: str) -> None:
        """Add a finding; `wanted` is the required content of the column, `then` the consequence for
        rows without it."""
        if rows.empty:
            return
        first, place = rows.iloc[0], rows[sources.FILE].astype("str") + ":" + rows[sources.ROW].astype("str")
        values = {"place": place.iloc[0], "then": as_sentence(then)}
        if first[sources.FAULT]:
            values["fault"] = sources.fault_sentence(first[sources.FAULT])
            message = sentence(N_("{place}: found {fault}; {then}"), **values)
        else:
            values |= {"column": column, "value": legible(rows[column].head(1)).iloc[0], "wanted": as_sentence(wanted)}
            message = sentence(N_("{place}: column '{column}': found '{value}', wanted {wanted}; {then}"), **values)
        if len(rows) > 1:
            also = N_("{message} (also {places})")
            message = sentence(also, message=message, places=", ".join(place.iloc[1:_NAMED]))
        # rules of readings quarantine them or stop their batch; rows of these sources are accepted
        # or reported
        is_own = rule in data_rules.OF_BATCHES and rule != "day_stamps"
        severity = data_rules.severity(rule, self.declared) if is_own else "warn"
        self.findings.append(Finding(rule, severity, len(rows), message))
