"""Rows of published depots in a file (Arrow), by which a worker hands over what it made of a
group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from forecaster.core import artifact
from forecaster.ledger.staging.depot_rows import SCHEMA, DepotRows


def write(file: Path, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches of `SCHEMA`, in one step, so that a worker that is killed leaves no half of a
    file; how many depots they have."""
    count, options = 0, pa.ipc.IpcWriteOptions(compression="zstd")
    with artifact.writing(file) as new, pa.ipc.new_stream(new, SCHEMA, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
            count += len(batch)
    return count


def read(file: Path) -> Iterator[DepotRows]:
    """The depots of a file, in their order, some at a time."""
    with pa.OSFile(str(file)) as content, pa.ipc.open_stream(content) as stream:
        yield from map(DepotRows.from_batch, stream)
