"""Published depots as compressed lines of JSON, by which a worker hands over what it made of a group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa

from forecaster.ledger import records
from forecaster.ledger.publication import PublishedDepot

DAYS = "days"


def write(file: Path, depots: Iterable[PublishedDepot]) -> int:
    """Write depots, in one step, so that a worker that is killed leaves no half of a file; how many they were."""
    beside, count = file.with_suffix(".part"), 0
    with pa.output_stream(beside, compression="zstd") as stream:
        for depot in depots:
            days = [{**records.of_day(day), "target_date": day.target_date.isoformat()} for day in depot.days]
            stream.write(json.dumps({**records.of_depot(depot), DAYS: days}).encode() + b"\n")
            count += 1
    beside.replace(file)
    return count


def read(file: Path) -> Iterator[PublishedDepot]:
    """The depots of a file, in their order."""
    with pa.input_stream(file, compression="zstd") as stream:
        rest = b""
        while block := stream.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            yield from map(_depot, lines)


def _depot(line: bytes) -> PublishedDepot:
    row = json.loads(line)
    days = [records.day_of_row({**day, "target_date": date.fromisoformat(day["target_date"])}) for day in row.pop(DAYS)]
    return records.depot_of_row(row, tuple(days))
