"""Examples of a data-quality finding: the affected depots and days, for display.

A finding is a sentence; its places are in the quarantine table, or in the finding itself.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.panel import Panel
from forecaster.lake import Lake

WHAT_HAPPENS: Mapping[str, str] = {
    "stop": "the whole batch is quarantined",
    "quarantine": "rows are kept aside",
    "warn": "rows are taken",
}
"""Severities in plain words, the most severe first."""
DEPOTS = 3  # shown depots per finding, at most


@dataclass(frozen=True)
class FindingExample:
    """One example of a finding: a depot and its days, with the count of each from a row, if it is a
    number."""

    depot_id: str
    days: Mapping[date, float | None]


@dataclass(frozen=True)
class Evidence:
    """Evidence of a dry run, from which reports select their examples."""

    panel: Panel
    rows: pd.DataFrame  # the lake's `quarantine`: first the dry run's own rows, then the latest others
    # for each count, days from its day to its recording; None: the source does not record it
    ages: NDArray[np.int64] | None
    count: str  # column of the source with the count


def collect(panel: Panel, batch: str, spec: Spec, lake: Lake) -> Evidence:
    """Collect the evidence of a batch that was ingested into a lake. Raises LakeError if the lake
    cannot be read."""
    rows = lake.read("quarantine").to_pandas(date_as_object=False)
    rows = rows.assign(own=rows["batch"] == batch)
    rows = rows.sort_values(["own", "recorded_at", "row"], ascending=[False, False, True], kind="stable")
    return Evidence(panel, rows.reset_index(drop=True), _ages(spec, lake), spec.demand.columns.demand)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, the most severe first; within a severity, the most frequent first."""
    order = list(WHAT_HAPPENS)
    return sorted(findings, key=lambda finding: (order.index(finding.severity), -finding.count))


def rows_of(finding: Finding, evidence: Evidence) -> pd.DataFrame:
    """Return the quarantined rows of a finding."""
    rows = evidence.rows
    return rows[rows["rule"] == finding.rule].head(finding.count)


def examples(finding: Finding, evidence: Evidence) -> list[FindingExample]:
    """Return at most three examples of a finding: the most affected depots, with their days inside
    the panel."""
    panel = evidence.panel
    first, last = panel.days[0].astype(object), panel.cutoff
    rows = rows_of(finding, evidence)
    candidates: dict[tuple[str, date], float | None] = dict.fromkeys(_places_in_finding(finding))
    rows = rows[rows["date"].notna()]
    candidates |= dict.fromkeys(zip(rows["depot_id"], rows["date"].dt.date, strict=True))
    depot_ids = set(panel.depot_ids)
    inside = [(depot, day) for depot, day in candidates if depot in depot_ids and first <= day <= last]
    most = Counter(depot for depot, _ in inside).most_common(DEPOTS)
    return [
        FindingExample(depot, _counts_of_days(rows[rows["depot_id"] == depot], inside, depot, evidence.count))
        for depot, _ in most
    ]


def findings_per_depot(findings: Iterable[Finding], evidence: Evidence) -> Counter[str]:
    """Return depots of the panel → number of rows and places in the findings."""
    counts: Counter[str] = Counter()
    for finding in findings:
        rows = rows_of(finding, evidence)
        counts.update(rows["depot_id"] if len(rows) else (depot for depot, _ in _places_in_finding(finding)))
    return Counter({depot: counts[depot] for depot in evidence.panel.depot_ids if depot in counts})


def printable(text: str, most: int = 40) -> str:
    """Sanitize a word of the data for one line: without control characters, and at most `most`
    characters."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join("�" if _steers(letter) else letter for letter in cut)


def _steers(letter: str) -> bool:
    # a zero-width joiner joins emoji
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter != "\u200d"


def _places_in_finding(finding: Finding) -> list[tuple[str, date]]:
    """Return the depots and days that the finding itself lists; unreadable days are left out."""
    return [(depot, date.fromisoformat(day)) for depot, day in finding.places if day]


def _counts_of_days(
    rows: pd.DataFrame, inside: Iterable[tuple[str, date]], depot: str, column: str
) -> dict[date, float | None]:
    """Return the depot's days, with the count of each from a row."""
    counts: dict[date, float | None] = dict.fromkeys(sorted(day for other, day in inside if other == depot))
    for day, content in zip(rows["date"].dt.date, rows["content"], strict=True):
        if day in counts:
            counts[day] = _number(content, column)
    return counts


def _number(content: str, column: str) -> float | None:
    try:
        value = float(json.loads(content).get(column))
    except (AttributeError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _ages(spec: Spec, lake: Lake) -> NDArray[np.int64] | None:
    if spec.demand.columns.recorded_at is None:
        return None
    table: Any = lake.read("demand", columns=["date", "demand", "recorded_at"]).to_pandas(date_as_object=False)
    table = table[table["demand"].notna()]
    recorded = table["recorded_at"].dt.tz_convert(spec.zone).dt.tz_localize(None).dt.normalize()
    ages: NDArray[np.int64] = (recorded - table["date"]).dt.days.to_numpy(np.int64)
    return ages
