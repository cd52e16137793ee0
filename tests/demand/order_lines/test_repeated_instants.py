from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.demand.ingest import IngestResult, ingest

DAYS = [date(2026, 1, 5) + timedelta(days=place) for place in range(30)]
HOURS = range(6, 22, 2)


def result(folder: Path, level: int, *, order_id: str = "") -> IngestResult:
    """Ingestion of hourly counts, a fourth of which is repeated in a second row."""
    rows = ["station,time,weather,count"]
    for day in DAYS:
        for hour in HOURS:
            row = f"A,{day}T{hour:02}:00,{{}},{level + (day.day * hour) % level}"
            rows += [row.format(word) for word in (("mist", "fog") if (day.day + hour) % 4 == 0 else ("clear",))]
    (folder / "demand.csv").write_text("\n".join(rows) + "\n", "utf-8")
    columns = f"depot_id: station, date: time, demand: count{order_id}"
    text = f"demand: {{source: {{kind: csv, path: demand.csv}}, columns: {{{columns}}}, aggregate: sum}}\n"
    (folder / "pipeline.yaml").write_text(f"name: t\n{text}calendar: {{holidays: false}}\n", "utf-8")
    return ingest(load(folder / "pipeline.yaml"), now=datetime(2026, 2, 5, 12, tzinfo=UTC))


def test_repeated_timestamps_with_one_count_stop_the_batch(tmp_path: Path) -> None:
    outcome = result(tmp_path, 300)
    assert outcome.stopped is not None
    assert outcome.stopped.startswith("repeated_rows: found 56 of 296 rows with the timestamp and the count of another")
    assert "demand.columns.order_id: time counts each timestamp once" in outcome.stopped


def test_timestamp_as_order_id_counts_each_once(tmp_path: Path) -> None:
    outcome = result(tmp_path, 300, order_id=", order_id: time")
    assert (outcome.stopped, outcome.quarantined) == (None, 0)


@pytest.mark.parametrize("level", [2, 5])
def test_small_equal_counts_are_not_a_repetition(tmp_path: Path, level: int) -> None:
    assert result(tmp_path, level).stopped is None
