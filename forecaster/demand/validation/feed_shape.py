"""Checks of the shape of a whole batch: unreadable rows, unread sheets, and parts of a day that are
not added up."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import ExcelSource, Spec, WrittenSource, data_rules
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, and_more, counted, joined, sentence
from forecaster.demand.history.reading_versions import CORRECTION
from forecaster.demand.readings import dates, depot_ids
from forecaster.demand.sources.feed import FurtherSheets
from forecaster.demand.validation import notation_hints
from forecaster.demand.validation.days import order as day_order
from forecaster.demand.validation.quarantine import first_message

CANNOT_BE_READ = ("row_form", "depot_missing", "date_form", "count_form", "covariate_form", "recorded_at_form")
FEW_ROWS = 10  # unreadable rows up to this number are reported only one by one, whatever their share
WHOLE_DEPOT = 28  # this many rows of a depot, all unreadable, are no slip
FEW_DAYS = 10  # days with several rows up to this number are reported only one by one
MOST_DAYS = 0.5  # share of the depot-days above which several rows are the rule
# share of the days with several rows; if fewer have different counts, the rows are copies
DIFFERENT = 0.2
# share of the days above which different counts on adjacent rows are parts, however little they
# differ
NEARLY_EVERY = 0.9
NAMED_SHEETS = 12  # in a message
PLACES = 50  # depots and days named in a finding


def unreadable(
    refused: pd.DataFrame, accepted: pd.DataFrame, read: int, discarded: Collection[str], spec: Spec
) -> list[Finding]:
    """Finding if more of the `read` rows are unreadable than the rules allow, or all of a depot's,
    or all of its highest or lowest counts.

    `refused` are the quarantined rows, as described in `quarantine`; discarded ones do not count.
    """
    rows = refused[refused["rule"].isin(CANNOT_BE_READ) & ~refused["id"].isin(discarded)]
    lost_depots = _lost_depots(rows, accepted)
    cut = notation_hints.cut_depots(rows, accepted, spec)
    if not (lost_depots or cut or len(rows) > max(spec.demand.rules.unreadable_share * read, FEW_ROWS)):
        return []
    rules = rows["rule"].value_counts()
    rules_counted = joined((sentence(N_("{rule} {n}"), rule=rule, n=int(n)) for rule, n in rules.items()), ", ") or ""
    of_first = rows[rows["rule"] == ("count_form" if cut else rules.index[0])]
    values = {"n": len(rows), "all": read, "rules": rules_counted}
    detail = sentence(N_("found {n} of {all} rows that cannot be read ({rules})"), **values)
    if lost_depots:
        template = N_("found {n} of {all} rows that cannot be read ({rules}), and none of depot {depot}")
        detail = sentence(template, **values, depot=lost_depots[0])
    elif cut:
        ends = N_(
            "found {n} of {all} rows that cannot be read ({rules}), all at one end of the counts of depot {depot}"
        )
        detail = sentence(ends, **values, depot=cut[0])
    hint = notation_hints.hint(of_first, dates(accepted.head(notation_hints.LOOKED_AT)), spec)
    return [batch_finding("unreadable", len(rows), detail, hint or _first(of_first), spec)]


def unread_sheets(
    further: Iterable[FurtherSheets], accepted: pd.DataFrame, spec: Spec, now: datetime
) -> Iterable[Finding]:
    """Finding if further sheets have the same columns as the one that is read; if the pipeline file
    names that one, only if they hold newer days that are over."""
    source = spec.demand.source
    over = np.datetime64(now.astimezone(spec.zone).date(), "D").astype(np.int64)
    newest = int(accepted["day"].max()) if len(accepted) else 0
    is_named = isinstance(source, ExcelSource) and source.sheet is not None
    for workbook in further:
        names = [
            name
            for name, days in workbook.days.items()
            if not is_named or bool(((days > newest) & (days < over)).any())
        ]
        if not names:
            continue
        template = N_("{file}: found sheets with the same columns as '{read}' that are not read ({sheets})")
        listed = and_more([f"'{name}'" for name in names[:NAMED_SHEETS]], len(names) - NAMED_SHEETS)
        detail = sentence(template, file=workbook.file, read=workbook.read, sheets=listed)
        hint = sentence(N_("set demand.source.sheet: {value}"), value='"*"')
        if spec.demand.depot is not None:
            hint = sentence(
                N_("if each sheet is a depot, put all rows on one sheet, with a column that names the depot")
            )
        yield batch_finding("unread_sheets", len(names), detail, hint, spec)


def day_month_order(accepted: pd.DataFrame, refused: pd.DataFrame, spec: Spec) -> list[Finding]:
    """Finding if days are far apart, but consecutive with day and month, or day and year, swapped."""
    is_ahead = (refused["rule"] == "day_not_over") & refused["date"].notna()
    days_ahead = refused.loc[is_ahead, "date"].drop_duplicates().to_numpy("datetime64[D]").astype("int64")
    days = pd.unique(accepted["day"])
    order = day_order.other_order(days, days_ahead) or day_order.other_year(days, days_ahead, spec)
    if order is None:
        return []
    return [batch_finding("day_month_order", order.before[2], order.message(), order.hint(spec), spec)]


def decimals(notation: notation_hints.Decimals, spec: Spec) -> list[Finding]:
    """Finding if nearly every count with decimals may as well be a number of thousands; with a
    declared decimal comma it only warns."""
    if not notation.may_be_thousands:
        return []
    observation = N_("found three decimals in all {n} counts with a point, as in '{example}'")
    if notation.comma or notation.counts < notation.all:
        observation = N_("found three decimals in {n} of {all} counts with decimals, as in '{example}'")
    detail = sentence(observation, n=notation.counts, all=notation.all, example=notation.example)
    if notation.comma:
        mark = N_("demand.source.thousands: {mark} in the place of `decimal` where {example} is more than a thousand")
        requirement = sentence(mark, mark='","', example=notation.example)
        finding = batch_finding("decimals", notation.counts, detail, "", spec, wanted=requirement)
        return [finding if "decimals" in spec.demand.rules.severity else replace(finding, severity="warn")]
    if isinstance(spec.demand.source, WrittenSource):
        return [batch_finding("decimals", notation.counts, detail, "", spec)]
    template = N_(
        "numbers instead of text from a source of kind {kind}, or demand.rules.severity: {setting} if 1.234 is "
        "little more than one"
    )
    requirement = sentence(template, kind=spec.demand.source.kind, setting="{decimals: warn}")
    return [batch_finding("decimals", notation.counts, detail, "", spec, wanted=requirement)]


def several_rows(accepted: pd.DataFrame, spec: Spec, *, times_differ: bool) -> list[Finding]:
    """Finding if most days of a depot have several rows that look like parts of the day, such as
    hours or channels.

    Copies and corrections of a row are not reported: few counts differ, or they differ little, or a
    later part of the feed settles them. With `times_differ`, the rows of a day have different times
    of day: then they are parts of it.
    """
    keys = ["depot_id", "day", *(["recorded_at"] if spec.demand.columns.recorded_at else [])]
    rows = accepted[accepted["demand"].notna()]
    days = rows.groupby(keys, observed=True, sort=False)["demand"].agg(["size", "min", "max"])
    share = (days["size"] > 1).groupby(level="depot_id", observed=True).mean()
    days = days[days.index.get_level_values("depot_id").isin(share.index[share > MOST_DAYS])]
    several = days[days["size"] > 1]
    if len(several) < FEW_DAYS:
        return []
    differing = several[several["max"] > several["min"]]
    if not times_differ and (len(differing) < DIFFERENT * len(several) or _corrects(rows, days, differing, keys)):
        return []
    example = several if differing.empty else differing
    first = example.reset_index().head(PLACES)
    places = tuple(zip(first["depot_id"].astype("str"), dates(first).dt.strftime("%Y-%m-%d"), strict=True))
    depot, day = places[0]
    size, low, high = example.iloc[0]
    detail = sentence(
        N_(
            "depot {depot} on {day}: found {rows} with counts from {low} to {high}, and several rows on {n} of {all} "
            "depot days"
        ),
        depot=depot,
        day=date.fromisoformat(day),
        rows=counted(round(size), "{n} row", "{n} rows"),
        low=amount(float(low), "g"),
        high=amount(float(high), "g"),
        n=len(several),
        all=len(days),
    )
    return [batch_finding("several_rows", len(several), detail, "", spec, places)]


def _corrects(rows: pd.DataFrame, days: pd.DataFrame, differing: pd.DataFrame, keys: list[str]) -> bool:
    """True if the rows of most of these days differ like a count and its correction. Corrections on
    adjacent rows of nearly every day are implausible."""
    place = pd.MultiIndex.from_frame(rows[keys])
    ends = rows[place.isin(differing.index)].groupby(keys, observed=True, sort=False).tail(2)
    pairs = ends.groupby(keys, observed=True, sort=False)
    agree = pairs["demand"].nunique() == 1
    side_by_side = (pairs["row"].max() - pairs["row"].min() == 1) & (pairs["source"].nunique() == 1)
    if side_by_side.mean() > MOST_DAYS:
        return len(differing) < NEARLY_EVERY * len(days) and _differ_little(differing)
    return bool(agree.mean() > MOST_DAYS) or _differ_little(differing)


def _differ_little(differing: pd.DataFrame) -> bool:
    return bool(((differing["max"] - differing["min"]) / differing["max"]).median() <= CORRECTION)


def _lost_depots(unreadable_rows: pd.DataFrame, accepted: pd.DataFrame) -> list[str]:
    """Depots with many rows, all unreadable, while other depots have readable ones."""
    counts = unreadable_rows["depot_id"].value_counts()
    counts = counts[(counts >= WHOLE_DEPOT) & (counts.index != "")]
    if counts.empty:
        return []
    heard = depot_ids(accepted) if len(accepted) else ()
    return [str(depot) for depot in counts.index if depot not in heard]


def _first(refused: pd.DataFrame) -> str:
    return sentence(N_("first {message}"), message=first_message(refused))


def batch_finding(
    rule: str,
    count: int,
    detail: str,
    hint: str,
    spec: Spec,
    places: tuple[tuple[str, str], ...] = (),
    *,
    wanted: str | None = None,
) -> Finding:
    """Finding about a whole batch: the observation, then a hint for a setting, if any, and the
    requirement."""
    limits: Any = spec.demand.rules
    values = {"detail": detail, "wanted": wanted or data_rules.requirement(rule, **limits.model_dump())}
    message = sentence(N_("{detail}; wanted {wanted}"), **values)
    if hint:  # before the requirement, so that it survives truncation
        message = sentence(N_("{detail}; {hint}; wanted {wanted}"), **values, hint=hint)
    return Finding(rule, data_rules.severity(rule, limits.severity), count, message, places)
