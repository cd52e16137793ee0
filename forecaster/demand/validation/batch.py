"""Deduplication and reconciliation of a batch: every row is accepted, unchanged, or quarantined
with its rule.

The contract has checked each row alone. Here rows are compared with one another, with known
readings, and with the days before them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec, data_rules
from forecaster.config.data_rules import STOPPED
from forecaster.core.arrays import Bools, Ints
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, sentence
from forecaster.demand.half_hours.profiles import DayProfiles
from forecaster.demand.history import reading_versions
from forecaster.demand.history.reading_versions import CORRECTION
from forecaster.demand.order_lines import cut_ends, cut_windows
from forecaster.demand.order_lines.repeated_rows import repeated_rows, without_repeated_orders
from forecaster.demand.parsing import each_value
from forecaster.demand.readings import CONTENT, HALF_HOUR, ORDER, Days, dates, day_words
from forecaster.demand.validation import quarantine
from forecaster.demand.validation.contract import Contract
from forecaster.demand.validation.feed_shape import CANNOT_BE_READ
from forecaster.demand.validation.known_days import KnownDays
from forecaster.demand.validation.quarantine import RowSentences, with_distinct_ids

DAY_NOT_OVER, PARTIAL_DAY, SUPERSEDED = "day_not_over", "partial_day", "superseded"
PLACES = 50  # depots and days named in a finding
FEW_PARTS = 3  # rows of a day; if one of more rows is lost, the day is only a little too low
PARTS_LOST = (*CANNOT_BE_READ, "count_too_large")  # rules whose rejected rows may be missing in a day's sum
Column = Any  # a pandas Series


@dataclass(frozen=True)
class RepeatedDays:
    """Repetition of days with known counts by a batch, one row per reading of such a day."""

    depots: pd.Index[Any]
    depot: NDArray[np.integer[Any]]  # (readings,) position among the depots
    day: Ints  # (readings,) since 1970
    restated: Bools  # (readings,) the count is gone, or differs by more than a correction
    newest: int  # day of the batch


@dataclass(frozen=True)
class Batch:
    """Rows of one batch, each exactly once."""

    accepted: pd.DataFrame  # as described in `readings`
    refused: pd.DataFrame  # as described in `quarantine`
    unchanged: int = 0  # rows
    single: bool = False  # the accepted rows have at most one per depot and day
    # rejected rows that may yet count, as readings
    superseded: pd.DataFrame = field(default_factory=pd.DataFrame)
    instants: pd.Series[int] = field(default_factory=lambda: pd.Series(dtype="int64"))
    """Declared instants of rows that count as known since another instant, by `_places`."""
    repeated_days: RepeatedDays | None = None  # if days of some readings are already known
    profiles: DayProfiles | None = None  # if shares of shifts are learned
    findings: tuple[Finding, ...] = ()  # about its rows, before aggregation

    def refuse(self, where: Bools, rule: str, message: RowSentences, spec: Spec, now: datetime) -> Batch:
        """Move some of the accepted readings to quarantine; `message` has one sentence for each of
        them."""
        if not where.any():
            return self
        rows = self.accepted[where]
        as_read = rows
        if spec.demand.columns.recorded_at and len(self.instants):
            place = self.instants.index.get_indexer(_places(rows))
            instants = self.instants.to_numpy()[place]
            as_read = rows.assign(recorded_at=np.where(place < 0, rows["recorded_at"], instants))
        content = quarantine.source_json(as_read, spec)
        rows = rows.assign(date=dates(rows))
        arrival = pd.Timestamp(now).tz_convert("UTC").as_unit("us")
        refused = quarantine.rows(rows, pd.Series(rule, rows.index), message, content, arrival)
        if "rows" in rows:  # one reading made of many rows
            refused["rows"] = rows["rows"].to_numpy()
        return replace(
            self, accepted=self.accepted[~where], refused=pd.concat([self.refused, refused], ignore_index=True)
        )

    def size(self, part: pd.DataFrame) -> int:
        """Number of source rows in a part."""
        return int(part["rows"].fillna(1).sum()) if "rows" in part else len(part)


def daily_totals(rows: pd.DataFrame, repeated: pd.DataFrame | None = None) -> pd.DataFrame:
    """One reading per depot and day, from all its rows: the sum, unknown if one is unknown; open if
    one is open.

    The position is that of the last row. Numeric covariates are the highest known, words the last
    known. `repeated` are rows of the same depots and days that only count as rows.
    """
    keys = [rows["depot_id"], rows["day"]]
    groups = rows.assign(rows=np.int32(1)).groupby(keys, observed=True, sort=False)
    daily = groups[["open", "recorded_at", "row"]].max()
    daily["demand"] = groups["demand"].sum(min_count=1).where(groups["demand"].count() == groups.size())
    daily["source"], daily["rows"] = groups["source"].last(), groups.size().astype("int32")
    for name in rows.columns.difference([*daily.columns, "depot_id", "day"], sort=False):
        numeric = pd.api.types.is_numeric_dtype(rows[name])
        daily[name] = groups[name].max() if numeric else groups[name].last().astype("category")
    if repeated is not None and len(repeated):
        more = repeated.groupby(["depot_id", "day"], observed=True).size()
        daily["rows"] += more.reindex(daily.index, fill_value=0).astype("int32")
    daily = daily.reset_index()
    return daily[[name for name in rows.columns if name in daily] + ["rows"]]


def whole_days(batch: Batch, contract: Contract, discarded: Collection[str] = ()) -> Batch:
    """Aggregate to one reading per depot and day, and quarantine days that are not over.
    `discarded` are the ids of quarantined rows that a person set aside for good: days are complete
    without them."""
    rows, repeated, findings = without_repeated_orders(batch.accepted, contract.spec)
    findings, profiles = [*findings, *repeated_rows(rows, contract.spec, times_differ=contract.times_differ)], None
    findings += _left_out(contract.left_out)
    if contract.spec.stores_half_hours:
        profiles = DayProfiles.of(rows.assign(demand=rows["demand"].clip(lower=0)))
        findings += profiles.findings(contract.spec) if contract.spec.learns_shares else []
    daily = daily_totals(rows.drop(columns=[HALF_HOUR, CONTENT, ORDER], errors="ignore"), repeated)
    day_batch = replace(batch, accepted=daily, profiles=profiles, findings=tuple(findings))
    day_batch = _without_negative_days(day_batch, contract)
    day_batch = _without_partial_days(day_batch, with_distinct_ids(batch.refused), discarded, contract)
    day_batch = _without_first_night(day_batch, contract)
    today = contract.today(day_batch.accepted["depot_id"])
    going_on = ~np.isnan(day_batch.accepted["demand"].to_numpy()) & (day_batch.accepted["day"].to_numpy() >= today)
    rows = day_batch.accepted[going_on]
    message = RowSentences.of(
        N_("{place}: depot {depot} on {day}: found {rows} rows so far, wanted {wanted}"),
        rows.index,
        **start(rows),
        rows=rows["rows"],
        wanted=data_rules.requirement(DAY_NOT_OVER, timezone=contract.spec.timezone),
    )
    return _without_cut_end(day_batch.refuse(going_on, DAY_NOT_OVER, message, contract.spec, contract.now), contract)


def _without_cut_end(batch: Batch, contract: Contract) -> Batch:
    """Quarantine the readings of the last day if the export ends within it; add a finding if the
    rule only warns."""
    rule, end, spec = cut_windows.RULE, contract.ends.last_day(), contract.spec
    if end is None:
        return batch
    accepted = batch.accepted
    is_cut = ((accepted["day"] == end[0]) & accepted["demand"].notna()).to_numpy(copy=True)
    rows = accepted[is_cut]
    ids = quarantine.identity(rows["source"], rule, quarantine.source_json(rows, spec))
    is_cut[is_cut] = ~ids.isin(contract.waived).to_numpy()
    rows = accepted[is_cut]
    message = cut_ends.message(rows, end[1])
    if len(rows) and data_rules.severity(rule, spec.demand.rules.severity) == "warn":
        places = tuple(zip(rows["depot_id"].astype("str"), day_words(rows), strict=True))[:PLACES]
        return replace(batch, findings=(*batch.findings, Finding(rule, "warn", len(rows), message.first, places)))
    return batch.refuse(is_cut, rule, message, spec, contract.now)


def _left_out(rows: int) -> list[Finding]:
    message = sentence(
        N_("found {n} below 0, which count as 0 (demand.negative: leave_out)"), n=counted(rows, "{n} row", "{n} rows")
    )
    return [Finding("count_negative", "warn", rows, message)] if rows else []


def _without_negative_days(batch: Batch, contract: Contract) -> Batch:
    """Quarantine days on which returns exceed orders."""
    below = batch.accepted["demand"].to_numpy() < 0
    rows = batch.accepted[below]
    message = RowSentences.of(
        N_("{place}: depot {depot} on {day}: found a sum of {sum}, wanted {wanted}"),
        rows.index,
        **start(rows),
        sum=rows["demand"],
        wanted=data_rules.requirement("count_negative"),
    )
    return batch.refuse(below, "count_negative", message, contract.spec, contract.now)


def _without_first_night(batch: Batch, contract: Contract) -> Batch:
    """Quarantine the business day of which an export that begins at midnight only has the hours
    after it."""
    first = contract.business_days.first_day
    if first is None or batch.accepted.empty:
        return batch
    is_cut = batch.accepted["day"].to_numpy() < first
    rows = batch.accepted[is_cut]
    ids = quarantine.identity(rows["source"], "cut_day", quarantine.source_json(rows, contract.spec))
    is_cut[is_cut] = ~ids.isin(contract.waived).to_numpy()
    rows = batch.accepted[is_cut]
    message = RowSentences.of(
        N_("{place}: depot {depot} on {day}: found only rows after midnight ({rows}), wanted {wanted}"),
        rows.index,
        **start(rows),
        rows=rows["rows"],
        wanted=data_rules.requirement("cut_day"),
    )
    return batch.refuse(is_cut, "cut_day", message, contract.spec, contract.now)


def _without_partial_days(batch: Batch, refused: pd.DataFrame, discarded: Collection[str], contract: Contract) -> Batch:
    """Quarantine days with a larger share of unreadable rows than corrections change."""
    parts = refused[refused["rule"].isin(PARTS_LOST) & ~refused["id"].isin(discarded) & refused["date"].notna()]
    if parts.empty:
        return batch
    parts = parts.assign(day=parts["date"].to_numpy("datetime64[D]").astype("int64"))
    counts = parts.groupby(["depot_id", "day"]).size()
    # few of many depots lose rows
    is_looked_at = batch.accepted["depot_id"].isin(parts["depot_id"].unique()).to_numpy()
    days = batch.accepted[is_looked_at]
    place = pd.MultiIndex.from_arrays([days["depot_id"].astype("str"), days["day"].astype("int64")])
    number = np.zeros(len(batch.accepted), np.int64)
    number[is_looked_at] = counts.reindex(place, fill_value=0).to_numpy()
    rows = number + batch.accepted["rows"].to_numpy()
    # each row is a large part of them
    few = FEW_PARTS if contract.spec.demand.aggregate == "sum" else 0
    is_partial = (number > CORRECTION * rows) & ((number > 1) | (rows <= few))
    is_partial &= ~np.isnan(batch.accepted["demand"].to_numpy())
    partial = batch.accepted[is_partial]
    message = RowSentences.of(
        N_("{place}: depot {depot} on {day}: found {n} of {rows} rows that cannot be read, wanted {wanted}"),
        partial.index,
        **start(partial),
        n=pd.Series(number[is_partial], partial.index),
        rows=pd.Series(rows[is_partial], partial.index),
        wanted=data_rules.requirement(PARTIAL_DAY),
    )
    return batch.refuse(is_partial, PARTIAL_DAY, message, contract.spec, contract.now)


def without_repeats(batch: Batch, spec: Spec, now: datetime) -> Batch:
    """Quarantine repeated readings."""
    # labels are positions, and stay when rows are removed
    batch = replace(batch, accepted=batch.accepted.reset_index(drop=True))
    repeats = reading_versions.repeats(batch.accepted, declared=spec.demand.columns.recorded_at is not None)
    for rule, places in repeats.broken.items():
        if len(places):
            repeated = batch.accepted.loc[places]
            last = batch.accepted.loc[repeats.last] if rule == SUPERSEDED else None
            message = _message(repeated, last, spec, rule)
            if rule == SUPERSEDED:
                batch = replace(batch, superseded=repeated)
            batch = batch.refuse(batch.accepted.index.isin(places), rule, message, spec, now)
    return replace(batch, single=repeats.single)


def with_earlier_rows(before: Batch, after: Batch, spec: Spec) -> Batch | None:
    """The batch `before` its check against history, with each reading that the check rejected
    replaced by the last superseded row; None if there is no such row. `after` is the checked batch."""
    fallen = after.refused.iloc[len(before.refused) :]
    if before.superseded.empty or fallen.empty:
        return None
    is_fallen = before.accepted["row"].isin(fallen["row"]).to_numpy(copy=True)
    is_fallen[is_fallen] = _places(before.accepted[is_fallen]).isin(_places(fallen))
    of_fallen = _readings(before.accepted[is_fallen], spec)
    earlier = before.superseded[_readings(before.superseded, spec).isin(of_fallen)]
    if earlier.empty:
        return None
    earlier = earlier[~_readings(earlier, spec).duplicated(keep="last")]
    is_fallen[is_fallen] = of_fallen.isin(_readings(earlier, spec))
    now_refused = fallen[_places(fallen).isin(_places(before.accepted[is_fallen]))]
    no_more = (before.refused["rule"] == SUPERSEDED).to_numpy() & _places(before.refused).isin(_places(earlier))
    return replace(
        before,
        accepted=pd.concat([before.accepted[~is_fallen], earlier]).sort_index(),
        refused=pd.concat([before.refused[~no_more], now_refused], ignore_index=True),
        superseded=before.superseded.drop(index=earlier.index),
    )


def _places(rows: pd.DataFrame) -> pd.MultiIndex:
    """Position of each reading in its source; a line may have many readings."""
    day = rows["day"].to_numpy() if "day" in rows else rows["date"].to_numpy("datetime64[D]")
    texts = [rows[name].astype("str") for name in ("source", "depot_id")]
    return pd.MultiIndex.from_arrays([*texts, rows["row"].astype("int64"), day.astype("int64")])


def _readings(accepted: pd.DataFrame, spec: Spec) -> pd.MultiIndex:
    """Identity of each reading: depot, day, and instant if the source declares it."""
    instant = [accepted["recorded_at"]] if spec.demand.columns.recorded_at else []
    return pd.MultiIndex.from_arrays([accepted["depot_id"].astype("str"), accepted["day"], *instant])


def known_since_release(batch: Batch, released: pd.DataFrame, spec: Spec) -> Batch:
    """Set the instant of released readings to that of their release.

    `released` has the columns id, rule, depot_id, day and recorded_at (µs since 1970) of the
    decision.
    """
    if released.empty or batch.accepted.empty:
        return batch
    accepted = batch.accepted.reset_index(drop=True)
    candidates = accepted[accepted["depot_id"].isin(released["depot_id"]) & accepted["day"].isin(released["day"])]
    content, recorded = quarantine.source_json(candidates, spec), accepted["recorded_at"].copy()
    for rule, decisions in released.groupby("rule"):
        since = (
            quarantine.identity(candidates["source"], rule, content)
            .map(decisions.set_index("id")["recorded_at"])
            .dropna()
        )
        recorded.loc[since.index] = np.maximum(recorded.loc[since.index], since.astype("int64"))
    return replace(batch, accepted=accepted.assign(recorded_at=recorded))


def without_known(
    batch: Batch, known_days: KnownDays, spec: Spec, now: datetime, released: pd.DataFrame | None = None
) -> Batch:
    """Keep only new readings as accepted; known ones are counted as unchanged.

    So are readings that a person decided against by releasing a superseded row of the same depot
    and day (`released` as in `known_since_release`): a source that repeats its earlier value is no
    news.
    """
    if batch.accepted.empty:
        return batch
    decided = None if released is None else released[released["rule"] == SUPERSEDED]
    instant = int(pd.Timestamp(now).as_unit("us").asm8.astype(np.int64))
    day, is_new = batch.accepted["day"].to_numpy(), np.ones(len(batch.accepted), np.bool_)
    days = Days(day)
    recorded = batch.accepted["recorded_at"].to_numpy(copy=True)
    has_known_count, restated = np.zeros((2, len(batch.accepted)), np.bool_)
    for first, last, rows in known_days.between(
        int(day.min()), int(day.max())
    ):  # no rule compares one day with another
        at = days.between(first, last)
        part, declared = batch.accepted.iloc[at], spec.demand.columns.recorded_at is not None
        new_part = reading_versions.new_readings(part, rows, declared=declared, now=instant)
        is_new[at], recorded[at] = new_part.new, new_part.recorded_at
        has_known_count[at], restated[at] = new_part.counted, new_part.restated
        if decided is not None and not declared and len(decided):
            is_new[at] &= ~reading_versions.overruled(part, rows, decided)
    restated &= is_new
    accepted, of_source = batch.accepted.assign(recorded_at=recorded), batch.accepted["recorded_at"]
    is_moved = is_new & (recorded != of_source.to_numpy()) & (spec.demand.columns.recorded_at is not None)
    return replace(
        batch,
        accepted=accepted if is_new.all() else accepted[is_new],
        unchanged=batch.unchanged + batch.size(accepted[~is_new]),
        instants=pd.Series(of_source[is_moved].to_numpy(), _places(batch.accepted[is_moved])),
        repeated_days=_repeated_days(batch.accepted, has_known_count, restated),
    )


def _repeated_days(accepted: pd.DataFrame, has_known_count: Bools, restated: Bools) -> RepeatedDays | None:
    if not restated.any():
        return None
    depot = accepted["depot_id"].cat
    return RepeatedDays(
        depot.categories,
        depot.codes.to_numpy()[has_known_count],
        accepted["day"].to_numpy()[has_known_count],
        restated[has_known_count],
        int(accepted["day"].max()),
    )


def quarantine_all(batch: Batch, reason: str, spec: Spec, now: datetime) -> Batch:
    """Quarantine all readings not rejected already."""
    everything = np.ones(len(batch.accepted), np.bool_)
    template = N_(
        "{place}: depot {depot} on {day}: found nothing wrong with this row, but its batch was stopped: {reason}"
    )
    message = RowSentences.of(template, batch.accepted.index, **start(batch.accepted), reason=reason)
    return batch.refuse(everything, STOPPED, message, spec, now)


def _message(rows: pd.DataFrame, last: pd.DataFrame | None, spec: Spec, rule: str) -> RowSentences:
    """Sentences about repeated rows; `last` has, row by row, the readings that count instead."""
    values = {**start(rows), "column": spec.demand.columns.demand, "value": _counts(rows)}
    values["wanted"] = data_rules.requirement(rule)
    if last is None:
        template = N_("{place}: depot {depot} on {day}, column '{column}': found '{value}', wanted {wanted}")
        return RowSentences.of(template, rows.index, **values)
    template = N_(
        "{place}: depot {depot} on {day}, column '{column}': found '{value}', wanted {wanted}: '{held}', {where}"
    )
    last = last.set_axis(rows.index)
    return RowSentences.of(template, rows.index, **values, held=_counts(last), where=quarantine.where(last)["place"])


def _counts(rows: pd.DataFrame) -> Column:
    return each_value(rows["demand"], lambda distinct: distinct.map("{:g}".format).astype("str"), "nothing")


def start(rows: pd.DataFrame) -> dict[str, Column]:
    """Start of a message about readings: file:row, depot and day."""
    return quarantine.where(rows) | {"day": day_words(rows)}
