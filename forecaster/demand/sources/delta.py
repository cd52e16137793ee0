"""Delta Lake reader: a table as of its latest version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from forecaster.config import DeltaSource, Spec
from forecaster.demand.sources import files
from forecaster.demand.sources.feed import BLOCK, Columns, Ending, Pieces, is_text, numbered
from forecaster.demand.sources.parquet import coded
from forecaster.errors import SourceError, SourceUnreachable


def pieces(source: DeltaSource, spec: Spec, columns: Columns, *, name: str, **_: str | None) -> Pieces:
    """Rows of the table; the digest covers its id and version."""
    url, options = spec.place(source.path), files.storage_options(source)
    place = files.without_credentials(url)
    with _sound(place):
        table = DeltaTable(url, storage_options=options or None)
        schema = pa.schema(table.schema().to_arrow())
        read_columns = columns.of(place, schema.names)
        yield name, numbered(schema.empty_table().select(read_columns), 1)
        row = 1
        for batch in _batches(table, schema, read_columns):
            yield name, numbered(coded(pa.Table.from_batches([batch])), row)
            row += batch.num_rows
        version = f"{table.metadata().id} {table.version()}"
    return Ending(hashlib.sha256(version.encode()).hexdigest()[:12])


def _batches(table: DeltaTable, schema: pa.Schema, read_columns: list[str]) -> Iterator[pa.RecordBatch]:
    text = {name for name in read_columns if is_text(schema.field(name).type)}
    try:
        dataset = table.to_pyarrow_dataset(parquet_read_options=ds.ParquetReadOptions(dictionary_columns=text))
    except ValueError:  # the table's statistics contain a day outside Python's range of years
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in read_columns)
        for batch in QueryBuilder().register("source", table).execute(f"SELECT {columns} FROM source"):
            yield pa.record_batch(batch)
        return
    # Arrow would read sixteen batches ahead, which takes gigabytes.
    yield from dataset.to_batches(columns=read_columns, batch_size=BLOCK, batch_readahead=1, fragment_readahead=1)


@contextmanager
def _sound(place: str) -> Iterator[None]:
    """Reject a path without a Delta table, or a damaged table; a missing one may appear later."""
    try:
        yield
    except TableNotFoundError:
        raise SourceUnreachable(f"{place}: found no Delta table; wanted a folder with a _delta_log") from None
    except OSError as error:
        raise SourceUnreachable(
            f"{place}: cannot be read: {_library_message(error)}; wanted a readable Delta table"
        ) from None
    except (DeltaError, pa.ArrowException, ValueError, MemoryError) as error:
        raise SourceError(
            f"{place}: not a readable Delta table ({_library_message(error)}); wanted one, as declared by kind: delta"
        ) from None


def _library_message(error: Exception) -> str:
    """Message of the library in one line, without colors, retries and function addresses."""
    message = re.sub(r"\x1b\[\d*m", "", str(error)).partition("\n   0: ")[0]
    return re.sub(r"\s*(↳\s*)?\n\s*(↳\s*)?", ": ", message.strip())
