"""Data contract (schema validation): decide for each row alone whether its reading is accepted.

A reading is typed first: unknown values become NaN or NaT, unreadable values infinite or NaT. Then
the rules of the pipeline file are applied to all rows at once. For rows that break any, a pandera
schema lists every broken rule; the first in the order of `data_rules.OF_ROWS` is the reason for
quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pandera.pandas as pa
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.config.data_rules import OF_ROWS, requirement
from forecaster.core.arrays import Bools
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.arrangement import are_one_of, covariate_columns, further_values
from forecaster.demand.half_hours.clock import half_hours
from forecaster.demand.order_lines.cut_ends import DayEnds
from forecaster.demand.order_lines.row_keys import row_keys
from forecaster.demand.parsing import (
    LONGEST,
    PLAIN,
    Column,
    Ids,
    Kind,
    Notation,
    days,
    each_day,
    each_value,
    in_one_line,
    instants,
    kind_of,
    localize,
    numbers,
    words,
    yes,
)
from forecaster.demand.readings import HALF_HOUR, are_among, arrow_words, from_typed
from forecaster.demand.sources import FAULT, FILE, ROW, fault_sentence
from forecaster.demand.validation import quarantine, similar_ids
from forecaster.demand.validation.days.ahead import RULE, ZerosAhead
from forecaster.demand.validation.days.business import BusinessDays
from forecaster.demand.validation.days.stamps import DayStamps
from forecaster.demand.validation.notation_hints import Decimals, advice
from forecaster.demand.validation.quarantine import RowSentences

FIRST_DAY = pd.Timestamp("1970-01-01")
# time since the end of the day; stored with the columns of a source, which never start with a colon
_AGE = ":age"
_NOW = pd.Timedelta(0)
_SAMPLE = 20_000  # rows of the first block that show whether rows have times of day
_SEVERAL_TIMES = 1.5  # per depot and day, on average
_BROKEN = N_("{place}: depot {depot} on {day}, column '{column}': found '{value}', wanted {wanted}{hint}")
_UNDATED = N_("{place}: depot {depot}, column '{column}': found '{value}', wanted {wanted}{hint}")
_UNFIT = N_("{place}: depot {depot} on {day}: found {fault}")
Check = Callable[[Any], Any]  # marks the values that keep a rule


@dataclass(frozen=True)
class SortedBlock:
    """Rows of a block, each once: accepted, or rejected with the broken rule."""

    accepted: pd.DataFrame  # as described in `readings`
    refused: pd.DataFrame  # as described in `quarantine`


class Contract:
    """Data contract of one pipeline file for one batch; sorts its blocks."""

    def __init__(
        self,
        spec: Spec,
        *,
        now: datetime,
        known_depots: pd.Index[str] | None = None,
        zones: Mapping[str, str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        waived: Mapping[str, int] | None = None,
    ) -> None:
        """Set up the contract for the arrival at `now`, an instant with a zone. `known_depots` are
        those of the depots source, if declared; `zones` the time zones of depots with their own;
        `kinds` the known kinds (number or word) of covariates, others are derived from the first
        block; `waived` the ids of released rows, with the instant of the release in µs since 1970."""
        self.spec, self.now, self.known_depots = spec, now, known_depots
        self.zones, self.kinds, self.waived = dict(zones or {}), dict(kinds or {}), dict(waived or {})
        self._declared = arrow_words([] if known_depots is None else known_depots)
        self._notation = Notation.of(spec.demand.source)
        # days from three columns are joined as ISO 8601
        self._notation_of_days = self._notation if isinstance(spec.demand.columns.date, str) else PLAIN
        self.arrival = pd.Timestamp(now).tz_convert("UTC").as_unit("us")
        self.decimals, self.stamps, self.business_days = Decimals(spec), DayStamps(spec), BusinessDays(spec)
        self.ends, self.zeros_ahead = DayEnds(spec), ZerosAhead(spec)
        self._date_zone = ZoneInfo(spec.demand.date_zone) if spec.demand.date_zone else None
        # rows of one depot and day have different times of day, judged by the first block
        self.times_differ = False
        self.left_out = 0  # rows below 0 that count as 0
        self._first = True
        # rule → distinct depots, and marks of those that pass
        self._ids, self._checked = Ids(), dict[str, tuple[Any, Any]]()

    def sort(self, block: pd.DataFrame) -> SortedBlock:
        """Sort the rows of a block from a source's feed into accepted and rejected ones.

        Raises SpecError when the demand table itself uses the name of a known-future covariate.
        """
        block = block.reset_index(drop=True)
        names = covariate_columns(self.spec, block)
        self.kinds |= dict.fromkeys(self.spec.demand.columns.limits, "double")
        self.kinds |= {name: kind_of(block[name], self._notation) for name in names if name not in self.kinds}
        kinds = {name: self.kinds[name] for name in names}
        typed = self._typed(block, kinds)
        if self._first and len(block):
            stamps = words(block[self.spec.demand.columns.day].head(_SAMPLE))
            self._first, self.times_differ = False, _several_times(typed.head(_SAMPLE), stamps)
        self.decimals.look_at(block, typed["demand"])
        broken = self._broken(block, typed, kinds)
        accepted = from_typed(typed if broken.empty else typed.drop(index=broken.index), list(kinds))
        if self.spec.demand.negative == "leave_out":
            self.left_out += int((accepted["demand"] < 0).sum())
            accepted["demand"] = accepted["demand"].clip(lower=0)
        return SortedBlock(accepted, self._refused(block.loc[broken.index], typed.loc[broken.index], broken))

    def findings(self) -> list[Finding]:
        """Findings about the days of all blocks."""
        return [*self.stamps.findings(self.spec), *self.business_days.findings(), *self.zeros_ahead.findings()]

    def _typed(self, block: pd.DataFrame, kinds: Mapping[str, Kind]) -> pd.DataFrame:
        """Convert the rows to the types of their columns, in each depot's time zone."""
        columns, counts = self.spec.demand.columns, pd.Series(1.0, block.index)
        depots = self._ids(block[columns.depot_id])
        if self.spec.demand.aggregate != "count":
            counts = numbers(block[columns.demand], self._notation)  # for all zones at once, since they share one mark
        if self.zones and len(block):
            zones = self._zones(depots)
            of_zones = [(ZoneInfo(zone), block[zones == zone]) for zone in pd.unique(zones)]
            parts = [self._typed_in(zone, rows, counts[rows.index], kinds) for zone, rows in of_zones]
            typed = pd.concat(parts).sort_index()
        else:
            typed = self._typed_in(self.spec.zone, block, counts, kinds)
        return typed.assign(depot_id=depots, row=block[ROW], source=block[FILE], **{FAULT: block[FAULT]})

    def today(self, depots: Column) -> NDArray[np.int64]:
        """Local day of the batch's arrival at each depot, in days since 1970."""
        zones, (hours, minutes) = self._zones(depots), self._day_starts
        late = pd.Timedelta(hours=hours, minutes=minutes)
        local_days = {zone: (self.arrival.tz_convert(zone).tz_localize(None) - late).normalize() for zone in {*zones}}
        return np.array([local_days[zone].asm8.astype("datetime64[D]").astype(np.int64) for zone in zones], np.int64)

    def _zones(self, depots: Column) -> NDArray[np.object_]:
        """Time zone of each depot."""
        zone_names = [self.zones.get(depot, self.spec.timezone) for depot in depots.cat.categories]
        names: NDArray[np.object_] = np.asarray(zone_names, object)[depots.cat.codes.to_numpy()]
        return names

    def _typed_in(self, zone: ZoneInfo, block: pd.DataFrame, counts: Column, kinds: Mapping[str, Kind]) -> pd.DataFrame:
        spec, columns, notation = self.spec, self.spec.demand.columns, self._notation
        stamps = block[columns.day]
        self.stamps.look_at(stamps, zone)
        typed: Any = pd.DataFrame({"date": days(stamps, self._date_zone or zone, self._notation_of_days)})
        if spec.demand.day_starts:
            half = half_hours(stamps, self._date_zone or zone, self._notation_of_days)
            typed["date"] = self.business_days.of(typed["date"], half, block)
        if spec.demand.aggregate != "none" and len(block):
            self.ends.look_at(typed["date"], stamps, self._date_zone or zone, self._notation_of_days)
        typed["demand"] = counts
        typed["open"] = yes(block[columns.open]) if columns.open else np.nan
        if spec.demand.closed_values and spec.demand.aggregate != "count":
            is_closed = are_one_of(block[columns.demand], spec.demand.closed_values)
            typed.loc[is_closed, ["demand", "open"]] = np.nan, 0.0
        for name, kind in kinds.items():
            typed[name] = further_values(block[name], kind, columns, notation)
        if spec.stores_half_hours:
            typed[HALF_HOUR] = half_hours(stamps, zone, self._notation_of_days)
        typed = typed.assign(**row_keys(block, typed["demand"], spec))
        typed["recorded_at"] = self._recorded(block, typed["date"], zone)
        over = each_day(typed["date"], lambda date: _morning(date, zone, *self._day_starts))
        age = np.minimum(np.asarray(typed["recorded_at"], "datetime64[us]"), self._stamp) - over
        is_zero = self.zeros_ahead.of(typed, age < _NOW.to_timedelta64(), kinds, block)
        typed.loc[is_zero, "demand"] = np.nan
        age[typed["demand"].isna().to_numpy()] = np.timedelta64("NaT")
        typed[_AGE] = age
        frame: pd.DataFrame = typed
        return frame

    def _recorded(self, block: pd.DataFrame, day: Column, zone: ZoneInfo) -> Column:
        columns, spec = self.spec.demand.columns, self.spec
        if columns.recorded_at:
            recorded: Any = instants(block[columns.recorded_at], zone)
            if self._notation.date_format and recorded.isna().any():
                snapshots = days(block[columns.recorded_at], zone, self._notation)
                recorded = recorded.fillna(localize(snapshots, zone).dt.tz_convert("UTC").dt.as_unit("us"))
            return recorded
        if spec.demand.recorded == "next_day":
            hour, minute = max(spec.schedule.hour_minute, self._day_starts)
            morning = np.minimum(each_day(day, lambda date: _morning(date, zone, hour, minute)), self._stamp)
            mornings: Any = pd.Series(morning, index=block.index)
            return mornings.dt.tz_localize("UTC")
        return pd.Series(self.arrival, index=block.index)

    @property
    def _day_starts(self) -> tuple[int, int]:
        """Hour and minute at which a day begins."""
        hour, is_half = divmod(self.spec.demand.first_half_hour, 2)
        return hour, 30 * is_half

    @property
    def _stamp(self) -> np.datetime64:
        return self.arrival.tz_localize(None).to_datetime64()

    def _rules(self, kinds: Mapping[str, Kind]) -> dict[str, dict[str, Check]]:
        """Checks by column and rule, which mark typed values that keep it; NaN passes unless noted."""
        limit, arrival = self.spec.demand.rules.max_demand, self.arrival
        is_aggregated = self.spec.demand.aggregate != "none"
        depot = {"depot_missing": lambda words: words != "", "depot_form": self._well_formed}
        if self.known_depots is not None:
            depot["unknown_depot"] = self._is_declared
        return {
            FAULT: {"row_form": lambda fault: fault == ""},
            "depot_id": {rule: self._once_per_depot(rule, passes) for rule, passes in depot.items()},
            "date": {"date_form": lambda day: day >= FIRST_DAY},
            "demand": {
                "count_form": lambda count: ~np.isinf(count),
                **({"count_negative": lambda count: ~(count < 0)} if self.spec.demand.negative == "refuse" else {}),
                "count_too_large": lambda count: ~(count > limit),
            },
            "open": {"covariate_form": lambda flags: ~np.isinf(flags)},
            **{
                name: {"covariate_form": lambda numbers: ~np.isinf(numbers)}
                for name, kind in kinds.items()
                if kind == "double"
            },
            "recorded_at": {
                "recorded_at_form": lambda instant: instant.notna(),
                "recorded_in_future": lambda instant: ~(instant > arrival),
            },
            # a day of many rows is judged after aggregation
            **({} if is_aggregated else {_AGE: {"day_not_over": lambda age: ~(age < _NOW)}}),
        }

    def _once_per_depot(self, rule: str, passes: Check) -> Check:
        """Check of depots that runs once per distinct depot for all blocks with the same ones."""

        def check(depots: Column) -> Column:
            distinct = depots.cat.categories
            if rule not in self._checked or self._checked[rule][0] is not distinct:
                self._checked[rule] = distinct, np.append(np.asarray(passes(distinct), bool), True)
            return pd.Series(self._checked[rule][1][depots.cat.codes.to_numpy()], index=depots.index)

        return check

    def _is_declared(self, ids: pd.Index[Any]) -> Bools:
        return are_among(ids, self._declared)

    def _well_formed(self, ids: pd.Index[Any]) -> Bools:
        """Mark ids on one line; those of the depots source are, others are checked in each block."""
        fits = self._is_declared(ids)
        fits[~fits] = in_one_line(ids[~fits])
        return fits

    def _broken(self, block: pd.DataFrame, typed: pd.DataFrame, kinds: Mapping[str, Kind]) -> pd.DataFrame:
        """Rows that break a rule, with the first broken rule and its column."""
        rules = self._rules(kinds)
        suspects = typed[~_passes_all(typed, rules)]  # few rows, so that pandera need not check all
        try:
            if len(suspects):
                _schema(rules).validate(suspects, lazy=True)
        except pa.errors.SchemaErrors as error:
            cases = error.failure_cases[["index", "check", "column"]].dropna(subset=["index"])
            cases = cases[~self._waived(cases, block, typed)]
            rank = cases["check"].map({rule: position for position, rule in enumerate(OF_ROWS)})
            first = cases.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates("index")
            first = first.set_index("index").sort_index().rename(columns={"check": "rule"})
            violations: pd.DataFrame = first[["rule", "column"]].astype("str")
            return violations
        return pd.DataFrame({"rule": [], "column": []}, index=typed.index[:0], dtype="str")

    def _waived(self, cases: pd.DataFrame, block: pd.DataFrame, typed: pd.DataFrame) -> Column:
        """Mark broken rules that a person waived; such rows are known from the decision on."""
        waived = pd.Series(False, index=cases.index)
        for rule, rows in cases.groupby("check") if self.waived else ():
            if OF_ROWS[str(rule)].releasable:
                content = quarantine.content(block.loc[rows["index"]])
                since = quarantine.identity(typed.loc[rows["index"], "source"], str(rule), content).map(self.waived)
                decided_at = pd.to_datetime(since.dropna(), unit="us", utc=True).dt.as_unit("us")
                typed.loc[decided_at.index, "recorded_at"] = typed.loc[decided_at.index, "recorded_at"].clip(
                    lower=decided_at
                )
                waived |= since.notna().to_numpy() & cases.index.isin(rows.index)
        return waived

    def _refused(self, block: pd.DataFrame, typed: pd.DataFrame, broken: pd.DataFrame) -> pd.DataFrame:
        content = quarantine.content(block)
        message = self._messages(block, typed, broken)
        return quarantine.rows(typed, broken["rule"], message, content, self.arrival)

    def _messages(self, block: pd.DataFrame, typed: pd.DataFrame, broken: pd.DataFrame) -> RowSentences:
        """Message for each rejected row: file:row, depot, found and wanted value."""
        columns, messages = self.spec.demand.columns, list[RowSentences]()
        column_of = {"depot_id": columns.depot_id, "date": columns.day, "demand": columns.demand, _AGE: columns.day}
        column_of |= {"open": columns.open or "", "recorded_at": columns.recorded_at or columns.day}
        for key, part in broken.groupby(["rule", "column"], sort=False):
            (rule, place), index = map(str, key), part.index
            rows = block.loc[index]
            values = quarantine.where(typed.loc[index])
            if rule != "date_form":
                values["day"] = quarantine.legible(words(rows[columns.day]).str.slice(0, 10))
            if place == FAULT:
                faults = each_value(rows[FAULT], _fault_sentences, "")
                messages.append(RowSentences.of(_UNFIT, index, **values, fault=faults))
                continue
            name = column_of.get(place, place)
            values["column"] = self._header(rows) if name in self._spread else name
            values |= {"value": quarantine.legible(rows[name]), "wanted": self._requirement(rule)}
            values["hint"] = self._hint(rule, rows[name], typed.loc[index, "depot_id"])
            messages.append(RowSentences.of(_BROKEN if "day" in values else _UNDATED, index, **values))
        return RowSentences.in_order(messages, block.index)

    def _hint(self, rule: str, values: pd.Series, depots: pd.Series) -> Any:
        """Advice per row that breaks a rule, or one for all of them."""
        if rule in ("count_form", "covariate_form"):
            return advice(values)
        if rule == RULE and self.kinds:
            return sentence(N_("; an empty count keeps the covariates of the row"))
        if rule == "unknown_depot":
            return pd.Series([self._nearest(str(depot)) for depot in depots], depots.index, dtype=object)
        return ""

    @property
    def _spread(self) -> tuple[str, ...]:
        """Columns of readings that are headers and cells of a wide source."""
        columns, wide = self.spec.demand.columns, self.spec.demand.source.wide
        headers = {"depots": columns.depot_id, "days": columns.day}
        return (headers[wide], columns.demand) if wide else ()

    def _header(self, rows: pd.DataFrame) -> Column:
        """Header of each reading's column in a wide source."""
        return quarantine.legible(rows[self._spread[0]])

    def _requirement(self, rule: str) -> str:
        limit, zone = self.spec.demand.rules.max_demand, self.spec.timezone
        now, day = self.now.isoformat(), self._notation_of_days.day
        return requirement(rule, max_demand=limit, now=now, timezone=zone, longest=LONGEST, day=day)

    @cached_property
    def _nearest(self) -> Callable[[str], str]:
        return similar_ids.NearestDepot([] if self.known_depots is None else self.known_depots.tolist())


def _several_times(typed: pd.DataFrame, stamps: Column) -> bool:
    """True if rows of one depot and day have different times of day."""
    sample = typed[["depot_id", "date"]].assign(stamp=stamps)
    sample = sample[sample["date"].notna()]
    days, instants = (len(sample.drop_duplicates(["depot_id", name])) for name in ("date", "stamp"))
    return instants > _SEVERAL_TIMES * days


def _passes_all(typed: pd.DataFrame, rules: Mapping[str, Mapping[str, Check]]) -> NDArray[np.bool_]:
    """Mark rows that break no rule."""
    passing = np.ones(len(typed), np.bool_)
    for column, checks in rules.items():
        for passes in checks.values():
            passing &= np.asarray(passes(typed[column]), bool)
    return passing


def _schema(rules: Mapping[str, Mapping[str, Check]]) -> pa.DataFrameSchema:
    """The rules as a pandera schema over typed readings."""
    columns = {}
    for name, checks in rules.items():
        column_checks = [pa.Check(passes, name=rule, ignore_na=False) for rule, passes in checks.items()]
        columns[name] = pa.Column(None, column_checks, nullable=True)
    return pa.DataFrameSchema(columns)


def _morning(day: Column, zone: ZoneInfo, hour: int, minute: int) -> Column:
    following = day.astype("datetime64[us]") + pd.Timedelta(days=1, hours=hour, minutes=minute)
    return localize(following, zone).dt.tz_convert("UTC").astype("datetime64[us, UTC]")


def _fault_sentences(faults: Column) -> Column:
    return pd.Series(list(map(fault_sentence, faults)), faults.index, dtype=object)
