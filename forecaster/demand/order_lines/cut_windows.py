"""Truncated first day of a rolling export: with orders since some hour instead of midnight, a known
day falls.

An export of the last given number of hours begins within a day. On that day most depots have fewer
orders than already known and none has more, while the following days are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Doubles
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount
from forecaster.demand.history import reading_versions
from forecaster.demand.readings import day_words
from forecaster.demand.validation import quarantine
from forecaster.demand.validation.known_days import KnownDays
from forecaster.demand.validation.quarantine import RowSentences

if TYPE_CHECKING:
    from forecaster.demand.validation.batch import Batch

RULE = "cut_day"
FALLING = 0.5  # share of the depots known on the first day
SHORTFALL = 0.1  # share of the known total of the first day: less is an ordinary correction
RISING = 0.1  # share of those depots that may rise; the finding then only warns
AGREEING = 0.9  # share of the later depot-days
AFTER = 14  # days after the first one that are compared
LEAST = 3  # minimum number of known depot-days after it
PLACES = 50  # depots and days named in a finding


def quarantine_cut_day(
    batch: Batch, known_days: KnownDays, released: Collection[str], spec: Spec, now: datetime
) -> tuple[Batch, list[Finding]]:
    """Quarantine the counts of the first day that fall because the export begins within it, so that
    the known counts stay. If a few depots rise, or the pipeline file sets `warn`, they are accepted
    and reported in a finding.

    `released` are the ids of quarantined rows that a person released.
    """
    if spec.demand.aggregate == "none" or batch.accepted.empty:
        return batch, []
    first = int(batch.accepted["day"].min())
    if not (known_days.days < first).any():
        return batch, []
    is_first = batch.accepted["day"].to_numpy() == first
    of_first_day = batch.accepted[is_first]
    counts, known_counts = of_first_day["demand"].to_numpy(), _known_counts(of_first_day, known_days, first, first)
    fall, rises = counts < known_counts, int((~(counts <= known_counts)).sum())
    if not (_most_fall(of_first_day, fall, rises, known_days, first) and _later_agree(batch, known_days, first)):
        return batch, []
    ids = quarantine.identity(of_first_day["source"], RULE, quarantine.source_json(of_first_day, spec))
    fall &= ~ids.isin(released).to_numpy()
    rows = of_first_day[fall]
    if rows.empty:
        return batch, []
    message, severity = _message(rows, known_counts[fall], spec), data_rules.severity(RULE, spec.demand.rules.severity)
    if severity != "warn" and not rises:
        falls = is_first.copy()
        falls[is_first] = fall
        return batch.refuse(falls, RULE, message, spec, now), []
    first_rows = rows.head(PLACES)
    places = zip(first_rows["depot_id"].astype("str"), day_words(first_rows), strict=True)
    return batch, [Finding(RULE, "stop" if severity == "stop" else "warn", len(rows), message.first, tuple(places))]


def _known_counts(accepted: pd.DataFrame, known_days: KnownDays, first: int, last: int) -> Doubles:
    """Known count of each row's depot and day; NaN if there is none."""
    counts = np.full(len(accepted), np.nan)
    for begin, end, rows in known_days.between(first, last):
        latest = reading_versions.latest(rows)
        at = np.flatnonzero(accepted["day"].between(begin, end).to_numpy())
        known_counts = pd.Series(latest["demand"].to_numpy(), _cells(latest))
        counts[at] = known_counts.reindex(_cells(accepted.iloc[at])).to_numpy()
    return counts


def _cells(rows: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([rows["depot_id"].astype("str"), rows["day"].to_numpy()])


def _most_fall(of_first_day: pd.DataFrame, fall: Bools, rises: int, known_days: KnownDays, first: int) -> bool:
    """True if most depots known on the first day fall or have no order left, the total falls by
    much, and few depots rise."""
    if not fall.any():
        return False
    known_rows = pd.concat([reading_versions.latest(rows) for _, _, rows in known_days.between(first, first)])
    known_rows = known_rows[known_rows["demand"] > 0]
    depots, batch_depots = known_rows["depot_id"].astype("str"), of_first_day["depot_id"].astype("str")
    fallen = int(fall.sum()) + int((~depots.isin(batch_depots)).sum())
    before, after = (
        float(known_rows["demand"].sum()),
        float(of_first_day.loc[batch_depots.isin(depots), "demand"].sum()),
    )
    by_much = before - after >= SHORTFALL * before
    return fallen > FALLING * len(depots) and by_much and rises <= RISING * len(depots)


def _later_agree(batch: Batch, known_days: KnownDays, first: int) -> bool:
    """True if the counts of the following days equal the known ones."""
    later = batch.accepted[batch.accepted["day"].between(first + 1, first + AFTER)]
    counts, known_counts = later["demand"].to_numpy(), _known_counts(later, known_days, first + 1, first + AFTER)
    both = ~np.isnan(known_counts) & ~np.isnan(counts)
    return bool(both.sum() >= LEAST and (counts[both] == known_counts[both]).mean() >= AGREEING)


def _message(rows: pd.DataFrame, known_counts: Doubles, spec: Spec) -> RowSentences:
    template = N_(
        "{place}: depot {depot} on {day}: found {value} where {known} are known, on the first day of the export, which "
        "seems to begin within it; wanted {wanted}"
    )
    values: dict[str, Any] = quarantine.where(rows) | {"day": day_words(rows)}
    values |= {
        name: pd.Series([amount(float(count), "g") for count in counts], rows.index, dtype=object)
        for name, counts in (("value", rows["demand"]), ("known", known_counts))
    }
    return RowSentences.of(template, rows.index, **values, wanted=data_rules.requirement(RULE))
