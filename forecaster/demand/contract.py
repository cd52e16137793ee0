"""Which readings are accepted.

A reading is typed first: an unknown value becomes NaN or NaT, a value that cannot be read becomes infinite or NaT. A
pandera schema built from the pipeline file then names every rule that a reading breaks; the first one in the order of
`RULES` is the reason it goes to quarantine, whole.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pandera.pandas as pa

from forecaster.demand.sources import FAULT, ROW
from forecaster.demand.text import Column, Kind, days, each_value, instants, kind_of, localize, numbers, words, yes
from forecaster.errors import SpecError
from forecaster.lake import TABLES
from forecaster.spec import Spec
from forecaster.values import Finding

RULES: Mapping[str, str] = {  # rule → what was wanted; `{…}` is filled in
    "row_form": "as many fields as the header has",
    "depot_missing": "a depot id",
    "date_form": "a date such as 2024-03-05, not before 1970",
    "count_form": "a number, or nothing where the count is not known",
    "count_negative": "0 or more",
    "count_too_large": "at most {max_demand:g} (demand.rules.max_demand)",
    "covariate_form": "a number, or nothing where it is not known; 0 or 1 where it says whether a depot is open",
    "recorded_at_form": "an instant such as 2024-03-05T04:10:00-05:00",
    "recorded_in_future": "not after {now}",
    "day_not_over": "a day that was over in {timezone} when the count was recorded",
    "unknown_depot": "a depot of the depots source",
    "duplicate_row": "each reading once",
    "superseded": "one value for a depot and day; the last row counts",
}
_OWN = frozenset(TABLES["demand"].names)
# beside the columns of a source, which do not start with a colon
_AGE, _RULE, _PLACE, _DEPOT = ":age", ":rule", ":place", ":depot"


@dataclass(frozen=True)
class Checked:
    """Every reading, once: accepted, or quarantined with the rule it broke."""

    accepted: pd.DataFrame  # columns of the lake's `demand`
    quarantined: pd.DataFrame  # columns of the lake's `quarantine`
    findings: tuple[Finding, ...]  # one a broken rule


def check(
    readings: pd.DataFrame,
    spec: Spec,
    *,
    source: str,
    batch: str,
    recorded_now: datetime,
    known_depots: set[str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
) -> Checked:
    """Sort readings (as `sources.read` gives them) into accepted and quarantined ones.

    `recorded_now` is the instant of arrival, with its zone; `known_depots` are those of the depots source, if one is
    declared; `kinds` says which covariates are known to be numbers and which words; others are judged by their values.
    Raises SpecError when a known-future covariate has a name that the demand table itself uses.
    """
    readings = readings.reset_index(drop=True)
    kinds = {name: (kinds or {}).get(name) or kind_of(readings[name]) for name in covariates(spec, readings)}
    typed = _typed(readings, spec, recorded_now, kinds)
    broken = _broken(typed, _schema(spec, kinds, recorded_now, known_depots))
    _refuse_repeats(typed, broken, list(kinds), declared=spec.demand.columns.recorded_at is not None)
    rule = broken["rule"]
    accepted = typed[rule == ""].drop(columns=[FAULT, _AGE]).assign(source=source, batch=batch)
    accepted["open"] = accepted["open"].map({0.0: False, 1.0: True}).astype("boolean")
    # the columns are added first: pandas lets a column that is added to no rows bring rows of its own
    refused = readings.assign(**{_RULE: rule, _PLACE: broken["column"], _DEPOT: typed["depot_id"]})[rule != ""]
    messages = _messages(refused, spec, source, recorded_now, known_depots)
    quarantined = pd.DataFrame(
        {
            "source": source,
            "batch": batch,
            "row": refused[ROW],
            "rule": refused[_RULE],
            "message": messages,
            "content": _content(refused.drop(columns=[ROW, FAULT, _RULE, _PLACE, _DEPOT])),
            "recorded_at": pd.Timestamp(recorded_now).tz_convert("UTC"),
        }
    )
    findings = tuple(
        Finding(rule, "quarantine", len(told), str(told.iloc[0]))
        for rule in RULES
        if len(told := quarantined.loc[quarantined["rule"] == rule, "message"])
    )
    columns = [*TABLES["demand"].names, *kinds]
    return Checked(accepted[columns].reset_index(drop=True), quarantined.reset_index(drop=True), findings)


def late(accepted: pd.DataFrame, spec: Spec) -> tuple[Finding, ...]:
    """A finding when counts were recorded later after their day than the rules expect, by the source's own account."""
    if spec.demand.columns.recorded_at is None:
        return ()
    recorded = accepted["recorded_at"].dt.tz_convert(spec.zone).dt.tz_localize(None).dt.normalize()
    age = (recorded - accepted["date"]).dt.days.where(accepted["demand"].notna())
    limit = spec.demand.rules.late_days
    rows = accepted[age > limit]
    if rows.empty:
        return ()
    first = rows.iloc[0]
    found = (
        f"{first['source']}:{first['row']}: depot {first['depot_id']} on {first['date'].date()}: found a count "
        f"recorded {age[rows.index[0]]:.0f} days after its day, wanted at most {limit} (demand.rules.late_days)"
    )
    return (Finding("late", "warn", len(rows), found),)


def covariates(spec: Spec, readings: pd.DataFrame) -> list[str]:
    """The known-future covariates that are columns of the source, but for `open`, which the table has anyway.

    Raises SpecError when one has a name that the demand table itself uses.
    """
    found = [name for name in spec.calendar.known_future if name in readings.columns]
    if "open" in found and spec.demand.columns.open == "open":
        found.remove("open")
    if taken := sorted(_OWN.intersection(found)):
        advice = "declare it as demand.columns.open" if taken[0] == "open" else "rename that column of the source"
        raise SpecError(f"calendar.known_future: the demand table has a column '{taken[0]}' of its own; {advice}")
    return found


def _typed(readings: pd.DataFrame, spec: Spec, now: datetime, kinds: Mapping[str, Kind]) -> pd.DataFrame:
    columns, zone, arrival = spec.demand.columns, spec.zone, pd.Timestamp(now).tz_convert("UTC").as_unit("us")
    typed = pd.DataFrame({"depot_id": words(readings[columns.depot_id]), "date": days(readings[columns.date], zone)})
    typed["demand"] = numbers(readings[columns.demand])
    typed["open"] = yes(readings[columns.open]) if columns.open else np.nan
    for name, kind in kinds.items():
        typed[name] = numbers(readings[name]) if kind == "double" else words(readings[name]).replace("", None)
    if columns.recorded_at:
        recorded = instants(readings[columns.recorded_at], zone)
    elif spec.demand.recorded == "next_day":
        hour, minute = spec.schedule.hour_minute
        recorded = each_value(typed["date"], lambda day: _morning(day, zone, hour, minute), pd.NaT).clip(upper=arrival)
    else:
        recorded = pd.Series(arrival, index=typed.index)
    typed["recorded_at"] = recorded
    local = recorded.clip(upper=arrival).dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
    typed[_AGE] = (local - typed["date"]).dt.days.astype("float64").where(typed["demand"].notna())
    return typed.assign(row=readings[ROW], **{FAULT: readings[FAULT]})


def _morning(day: Column, zone: ZoneInfo, hour: int, minute: int) -> Column:
    following = day.astype("datetime64[us]") + pd.Timedelta(days=1, hours=hour, minutes=minute)
    return localize(following, zone).dt.tz_convert("UTC").astype("datetime64[us, UTC]")


def _schema(spec: Spec, kinds: Mapping[str, Kind], now: datetime, known_depots: set[str] | None) -> pa.DataFrameSchema:
    """The rules as a pandera schema over typed readings; NaN passes where nothing else is said."""

    def column(*checks: tuple[str, Callable[[Column], Column]], missing: bool = False) -> pa.Column:
        rules = [pa.Check(passes, name=name, ignore_na=not missing) for name, passes in checks]
        return pa.Column(None, rules, nullable=True)

    limit, first_day, arrival = spec.demand.rules.max_demand, pd.Timestamp("1970-01-01"), pd.Timestamp(now)
    depot = [("depot_missing", lambda ids: ids != "")]
    if known_depots is not None:
        depot.append(("unknown_depot", lambda ids: ids.isin(known_depots)))
    return pa.DataFrameSchema(
        {
            FAULT: column(("row_form", lambda fault: fault == "")),
            "depot_id": column(*depot),
            "date": column(("date_form", lambda day: day >= first_day), missing=True),
            "demand": column(
                ("count_form", np.isfinite),
                ("count_negative", lambda count: count >= 0),
                ("count_too_large", lambda count: count <= limit),
            ),
            "open": column(("covariate_form", np.isfinite)),
            **{name: column(("covariate_form", np.isfinite)) for name, kind in kinds.items() if kind == "double"},
            "recorded_at": column(
                ("recorded_at_form", lambda instant: instant.notna()),
                ("recorded_in_future", lambda instant: instant.isna() | (instant <= arrival)),
                missing=True,
            ),
            _AGE: column(("day_not_over", lambda age: age >= 1)),
        }
    )


def _broken(typed: pd.DataFrame, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """The first rule each row breaks, "" where it breaks none, and the column that broke it."""
    broken = pd.DataFrame({"rule": "", "column": ""}, index=typed.index, dtype="str")
    try:
        schema.validate(typed, lazy=True)
    except pa.errors.SchemaErrors as error:
        cases = error.failure_cases[["index", "check", "column"]].dropna(subset=["index"])
        rank = cases["check"].map({rule: position for position, rule in enumerate(RULES)})
        first = cases.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates("index").set_index("index")
        broken.loc[first.index, "rule"] = first["check"].astype("str")
        broken.loc[first.index, "column"] = first["column"].astype("str")
    return broken


def _refuse_repeats(typed: pd.DataFrame, broken: pd.DataFrame, names: list[str], *, declared: bool) -> None:
    """Among rows that broke no rule, one for each depot, day (and declared instant) stays: the first that says what the
    last one says."""
    key = ["depot_id", "date", *(["recorded_at"] if declared else [])]
    again = typed[broken["rule"] == ""]
    again = again[again.duplicated(key, keep=False)]
    if again.empty:
        return
    group = again.groupby(key, sort=False, dropna=False).ngroup()
    value = again.groupby([*key, "demand", "open", *names], sort=False, dropna=False).ngroup()
    agrees = value == value.groupby(group).transform("last")
    broken.loc[again.index[~agrees], "rule"] = "superseded"
    broken.loc[again.index[agrees & value.duplicated()], "rule"] = "duplicate_row"


def _messages(refused: pd.DataFrame, spec: Spec, source: str, now: datetime, known_depots: set[str] | None) -> Column:
    """file:row, depot, what was found and what was wanted, for each refused row."""
    columns, messages = spec.demand.columns, pd.Series("", index=refused.index, dtype="str")
    given = {"depot_id": columns.depot_id, "date": columns.date, "demand": columns.demand, _AGE: columns.date}
    given |= {"open": columns.open or "", "recorded_at": columns.recorded_at or columns.date, "": columns.demand}
    filling = {"max_demand": spec.demand.rules.max_demand, "now": now.isoformat(), "timezone": spec.timezone}
    for (rule, place), rows in refused.groupby([_RULE, _PLACE], sort=False):
        wanted = RULES[str(rule)].format(**filling)
        start = source + ":" + rows[ROW].astype("str") + ": depot " + rows[_DEPOT].where(rows[_DEPOT] != "", "?")
        if place == FAULT:
            found = ": found " + rows[FAULT]
        else:
            name = given.get(str(place), str(place))
            found = f", column '{name}': found '" + words(rows[name]) + "', wanted " + wanted
        if rule != "date_form":
            start = start + " on " + words(rows[columns.date]).str.slice(0, 10)
        if rule == "unknown_depot":
            found = found + each_value(rows[_DEPOT], lambda ids: ids.map(_Nearest(known_depots or set())), "")
        messages.loc[rows.index] = start + found
    return messages


class _Nearest:
    """A hint with the nearest known depot, for the first few unknown ones: the search is slow."""

    def __init__(self, known: set[str], most: int = 20) -> None:
        self.known, self.left = sorted(known), most

    def __call__(self, depot: str) -> str:
        self.left -= 1
        close = difflib.get_close_matches(depot, self.known, n=1) if self.left >= 0 else []
        return f"; did you mean '{close[0]}'?" if close else ""


def _content(rows: pd.DataFrame) -> Column:
    """Each row as JSON."""
    given = rows.astype(object).where(rows.notna(), None)
    text = [json.dumps(row, ensure_ascii=False, default=str) for row in given.to_dict("records")]
    return pd.Series(text, index=rows.index, dtype="str")
