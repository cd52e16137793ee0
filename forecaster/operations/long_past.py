"""Reject a manual run on an archive before its work begins: all days that it would forecast are
long past."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.core.terminal import count
from forecaster.core.time_limits import call_within, items_within
from forecaster.demand import sources
from forecaster.demand.arrangement import Arrangement, source_columns
from forecaster.demand.parsing import PLAIN, Notation, day_numbers, days, words
from forecaster.errors import ForecasterError, NoLedger, StaleHistory, TimeLimitExceeded
from forecaster.lake import NOT_THERE, Lake
from forecaster.ledger.store import Ledger
from forecaster.publishing import caveats

MOST_SECONDS = 3.0  # time limit for reading; no verdict without a result by then
NEARLY_ALL = 0.9  # minimum share of readable days; otherwise the newest is uncertain
_AT_ONCE = timedelta(minutes=1)


def refuse_archive(spec: Spec, file: Path, command: str, *, now: datetime) -> None:
    """Raises StaleHistory if the newest reading is so old that the data are an archive; the message
    states what to type.

    A pipeline that has published as of the present is not an archive, however long its feed has
    been silent: its nightly runs continue with the data they have. Data that cannot be read now, or
    not within MOST_SECONDS, are left to the run.
    """
    today = now.astimezone(spec.zone).date()
    try:
        newest = None if _has_run_in_its_time(spec) else newest_day(spec, today)
        if newest is None or not caveats.is_archive(newest, today) or _is_newer_in_lake(spec, today):
            return
        is_ingested = _of_lake(lambda: Lake(spec.lake_url).version("demand") != NOT_THERE)
    except ForecasterError:
        return  # the run reports it better
    first = caveats.what_an_archive_lacks(spec)
    if first and is_ingested:
        first += f" and another `lake` than {spec.lake_url}, in which these readings count from their arrival"
    raise StaleHistory(
        f"{file}: the newest reading is of {newest}, {count((today - newest).days, 'day')} ago, and every day that "
        f"could be forecast is over. For an archive, {first + ', then ' if first else ''}type: "
        f"forecaster {command} {shlex.quote(str(file))} --as-of {newest + timedelta(days=1)} "
        f"(--as-of {today} runs all the same)"
    )


def newest_day(spec: Spec, today: date) -> date | None:
    """Last day before today with a count in the demand source; or any day recent enough to rule out
    an archive.

    None if there is no such day, or it cannot be read in time. Raises ForecasterError if the source
    is unreadable.
    """
    source, columns = spec.demand.source, spec.demand.columns
    required, _ = source_columns(spec)
    arrangement = Arrangement(spec)
    notation = Notation.of(source) if isinstance(columns.date, str) else PLAIN
    all_pieces = sources.pieces(source, spec, sources.Columns(tuple(required)))
    pieces = items_within(MOST_SECONDS, MOST_SECONDS, all_pieces, "the source")
    newest, rows, readable = None, 0, 0
    try:
        for block in map(arrangement.arrange, sources.Feed(sources.name(source), pieces).blocks):
            day = days(block[columns.day], spec.zone, notation)
            rows, readable = rows + len(day), readable + int(day.notna().sum())
            highest = _highest(day[_has_count(block, spec)], today)
            newest = max(filter(None, (newest, highest)), default=None)
            if newest and not caveats.is_archive(newest, today):
                return newest
    except TimeLimitExceeded:
        return None
    return newest if readable >= NEARLY_ALL * rows else None


def _has_count(block: pd.DataFrame, spec: Spec) -> Any:
    if spec.demand.aggregate == "count":
        return slice(None)
    return (words(block[spec.demand.columns.demand]) != "").to_numpy()


def _highest(day: Any, today: date) -> date | None:
    number = day_numbers(day.dropna().to_numpy())
    number = number[number < (today - date(1970, 1, 1)).days]
    return date(1970, 1, 1) + timedelta(days=int(number.max())) if len(number) else None


def _has_run_in_its_time(spec: Spec) -> bool:
    """Return true if a night was published when it was due, instead of as of a day long past, or
    one is at work."""
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, nights=True)
    except NoLedger:
        return False
    return any(
        run.outcome in ("published", "degraded", "running") and run.as_of >= run.started_at - _AT_ONCE for run in runs
    )


def _is_newer_in_lake(spec: Spec, today: date) -> bool:
    since = pa.scalar(today - timedelta(days=caveats.ARCHIVE_DAYS))
    where = (ds.field("date") > since) & ds.field("demand").is_valid()
    return _of_lake(lambda: bool(len(Lake(spec.lake_url).read("demand", where=where, columns=["date"]))))


def _of_lake(question: Callable[[], bool]) -> bool:
    """Result of a query of the lake. Raises TimeLimitExceeded if it takes too long."""
    return call_within(MOST_SECONDS, question, "the lake")
