"""Files (Arrow) with rows of published depots, by which a worker returns the results of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from forecaster.core import artifact
from forecaster.ledger.staging.depot_rows import SCHEMA, DepotRows


def write(file: Path, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches of `SCHEMA` atomically, so that a killed worker leaves no partial file; return
    the number of depots."""
    count, options = 0, pa.ipc.IpcWriteOptions(compression="zstd")
    with artifact.writing(file) as new, pa.ipc.new_stream(new, SCHEMA, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
            count += len(batch)
    return count


def read(file: Path) -> Iterator[DepotRows]:
    """Depots of a file, in order, in batches."""
    with pa.OSFile(str(file)) as content, pa.ipc.open_stream(content) as stream:
        yield from map(DepotRows.from_batch, stream)
