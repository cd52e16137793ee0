"""A pipeline so small that its whole night takes seconds: four depots, half a year, a model of one narrow layer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

FIRST, DAYS, DEPOTS = date(2026, 1, 1), 130, 4
WEEK = (1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7)
LAST = FIRST + timedelta(days=DAYS - 1)
NIGHT = datetime(LAST.year, LAST.month, LAST.day, 3, 15, tzinfo=UTC) + timedelta(days=1)
PIPELINE = """
name: tiny
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
calendar: {holidays: false}
model: {layers: 1, hidden: 4, quantiles: [0.1, 0.5, 0.9]}
training: {epochs: 3, members: 1, batch_depots: 8, learning_rate: 0.01}
backtest: {days: 7}
gate: {beat: [], coverage: [0.0, 1.0], max_bias: 9.0}
staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}
"""


def pipeline(folder: Path, more: str = "", *, days: int = DAYS) -> Path:
    """A pipeline file with its source in a folder; `more` are further lines of it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"D{depot},{FIRST + timedelta(day)},{round(30 * (1 + depot) * WEEK[day % 7]) + (day * 7 + depot) % 5}"
        for day in range(days)
        for depot in range(DEPOTS)
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE + more, "utf-8")
    return file
