"""What the depots and events sources say, as snapshots; what is odd about them becomes a finding."""

from __future__ import annotations

import pandas as pd

from forecaster.demand import sources, text
from forecaster.errors import SpecError
from forecaster.spec import Spec
from forecaster.values import Finding

EVENT = ["date", "kind", "name", "depot_id", "city"]
"""What makes an event the same event."""


def depots(spec: Spec, findings: list[Finding]) -> pd.DataFrame:
    """The snapshot of the depots source: depot_id, opened, closed and the static attributes as words."""
    assert spec.depots is not None
    source, columns, static = spec.depots.source, spec.depots.columns, spec.depots.static
    if taken := sorted({"opened", "closed", "retracted", "recorded_at"} & set(static)):
        raise SpecError(f"depots.static: the depots table has a column '{taken[0]}' of its own; rename the source's")
    wanted = [name for name in (columns.depot_id, columns.opened, columns.closed, *static) if name]
    given, file = sources.read(source, spec, wanted), sources.name(source)
    table = pd.DataFrame({"depot_id": text.words(given[columns.depot_id]), "row": given[sources.ROW]})
    for name, column in (("opened", columns.opened), ("closed", columns.closed)):
        table[name] = text.days(given[column], spec.zone) if column else pd.NaT
        if column:
            unread = given[table[name].isna() & (text.words(given[column]) != "")]
            findings += _warn(
                "date_form", file, unread, column, "a date such as 2024-03-05, or nothing; taken as nothing"
            )
        table[name] = table[name].astype("datetime64[s]")
    for name in static:
        table[name] = text.words(given[name])
    nameless = given[table["depot_id"] == ""]
    findings += _warn("depot_missing", file, nameless, columns.depot_id, "a depot id; the row is left out")
    findings += _warn(
        "row_form", file, given[given[sources.FAULT] != ""], columns.depot_id, "as many fields as the header"
    )
    table = table[table["depot_id"] != ""].drop_duplicates(list(table.columns.drop("row")))
    twice = table["depot_id"].duplicated(keep="last")
    told = given.loc[table.index[twice]]
    findings += _warn("depot_twice", file, told, columns.depot_id, "one set of attributes a depot; the last row counts")
    return table[~twice].drop(columns="row").reset_index(drop=True)


def events(spec: Spec, known: pd.DataFrame | None, findings: list[Finding]) -> pd.DataFrame:
    """The snapshot of the events source: date, kind, name, depot_id, city; null where an event is not bound to one."""
    assert spec.calendar.events is not None
    source = spec.calendar.events.source
    given, file = sources.read(source, spec, ["date", "kind", "name"], ["depot_id", "city"]), sources.name(source)
    table = pd.DataFrame({"date": text.days(given["date"], spec.zone)})
    for name in EVENT[1:]:
        table[name] = (
            text.words(given[name]).replace("", None) if name in given else pd.Series(None, given.index, "str")
        )
    fits = table["date"].notna() & table["kind"].notna() & (given[sources.FAULT] == "")
    findings += _warn(
        "event_form", file, given[~fits], "date", "a date such as 2024-03-05 and a kind; the row is left out"
    )
    for name in ("depot_id", "city"):
        if known is not None and name in known:
            stray = given[table[name].notna() & ~table[name].isin(known[name])]
            findings += _warn("event_place", file, stray, name, f"a {name} of the depots source; it concerns no depot")
    return table[fits].fillna({"name": ""}).drop_duplicates(ignore_index=True)


def _warn(rule: str, file: str, rows: pd.DataFrame, column: str, wanted: str) -> list[Finding]:
    if rows.empty:
        return []
    first = rows.iloc[0]
    found = f"{file}:{first[sources.ROW]}: column '{column}': found '{first[column]}', wanted {wanted}"
    return [Finding(rule, "warn", len(rows), found)]
