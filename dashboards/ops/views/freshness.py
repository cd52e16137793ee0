"""Data freshness: age of the last run, the publication and the depots' last counts, and delays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import href
from forecaster.core.language import ngettext
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.records import Head, Run

NIGHTLY = timedelta(hours=26)  # after which the next run is late
MOST_SILENT = 20  # depots without a count


@dataclass(frozen=True)
class Freshness:
    published: str
    reading_and_age: str  # of the newest reading
    late: tuple[str, ...]  # sentences
    silent: tuple[tuple[str, str], ...]  # depots without a count of the newest day: ID, address
    others: int  # number of those not listed
    aside: int  # rows that the last run quarantined


def freshness(
    head: Head | None, depots: Sequence[PublishedDepot], runs: Sequence[Run], now: datetime
) -> Freshness | None:
    """Return the freshness; None before the first publication. Runs are newest first."""
    if head is None:
        return None
    zone = ZoneInfo(head.timezone)
    age = (now.astimezone(zone).date() - head.cutoff).days
    silent = [
        depot.depot_id
        for depot in depots
        if any(day.date == head.cutoff and day.open and day.demand is None for day in depot.recent)
    ]
    ended = next((run for run in runs if run.finished_at is not None), None)
    return Freshness(
        display.instant(head.published_at, zone),
        ngettext("{day}, {n} day ago", "{day}, {n} days ago", age, n=display.number(age), day=display.day(head.cutoff)),
        _late(head, runs, silent, now, age),
        tuple((depot_id, href(depot_id)) for depot_id in silent[:MOST_SILENT]),
        max(len(silent) - MOST_SILENT, 0),
        sum(finding["count"] for finding in ended.findings if finding["severity"] == "quarantine") if ended else 0,
    )


def _late(head: Head, runs: Sequence[Run], silent: Sequence[str], now: datetime, age: int) -> tuple[str, ...]:
    sentences = []
    begun = max((run.started_at for run in runs), default=head.published_at)
    if now - begun > NIGHTLY:
        hours = int((now - begun).total_seconds() // 3600)
        sentences.append(
            ngettext(
                "No night has begun for {n} hour: see whether its scheduler runs.",
                "No night has begun for {n} hours: see whether its scheduler runs.",
                hours,
                n=display.number(hours),
            )
        )
    if age > 1:
        sentences.append(
            ngettext(
                "The newest reading is {n} day old: the source is late.",
                "The newest reading is {n} days old: the source is late.",
                age,
                n=display.number(age),
            )
        )
    if silent:
        sentences.append(
            ngettext(
                "{n} depot has no count for {day}.",
                "{n} depots have no count for {day}.",
                len(silent),
                n=display.number(len(silent)),
                day=display.day(head.cutoff),
            )
        )
    return tuple(sentences)
