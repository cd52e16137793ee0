"""Parquet reader: files, globs, folders and partitioned folders, whose partitions become text
columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forecaster.config import ParquetSource, Spec
from forecaster.demand.sources import files, layout, recognition
from forecaster.demand.sources.feed import BLOCK, Columns, Ending, Pieces, escaped, is_text, numbered
from forecaster.demand.sources.files import File
from forecaster.errors import SourceError, SourceUnreachable

_CHUNK = 2**22  # bytes hashed at a time
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
# distinct texts of a block; above that, and if most rows have their own, coding is not worthwhile
_MANY = 1_000


def pieces(source: ParquetSource, spec: Spec, columns: Columns, **_: str | None) -> Pieces:
    """Rows of each file, in the order of the files; the digest covers the files' bytes."""
    digests = []
    for file in files.files(source, spec):
        content = hashlib.sha256()
        row = 1
        for table in _tables(file, source, spec, columns, content):
            yield file.name, numbered(table, row)
            row += len(table)
        digests.append(content.hexdigest())
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Ending(digest[:12])


def coded(table: pa.Table) -> pa.Table:
    """Table with text of few distinct values as dictionaries, other text unchanged."""
    for place, column in enumerate(table.column_names):
        values = table[column]
        if pa.types.is_dictionary(values.type) and is_text(values.type.value_type):
            distinct = max((len(chunk.dictionary) for chunk in values.chunks), default=0)
            if distinct > _MANY and distinct > len(values) / 2:
                table = table.set_column(place, column, pc.cast(values, values.type.value_type))
    return table


def _tables(file: File, source: ParquetSource, spec: Spec, columns: Columns, content: Any) -> Iterator[pa.Table]:
    partitions = _partitions(file.name)
    with recognition.explained(file, source, spec, columns), _sound(file), _opened(file) as handle:
        while chunk := handle.read(_CHUNK):
            content.update(chunk)
        handle.seek(0)
        schema = pq.read_schema(handle)
        file_columns = [name for name in schema.names if name not in partitions]
        try:
            read_columns = columns.of(file.place, [*file_columns, *partitions])
        except SourceError as error:
            raise SourceError(f"{error}{_remedy(handle, recognition.request(source, spec, columns))}") from None
        text = [name for name in read_columns if name in file_columns and is_text(schema.field(name).type)]
        handle.seek(0)
        reader = pq.ParquetFile(handle, read_dictionary=text)
        stored = [name for name in read_columns if name in file_columns]
        yield _with(reader.schema_arrow.empty_table().select(stored), partitions, read_columns)
        for batch in reader.iter_batches(BLOCK, columns=stored):
            # pandas would read the metadata, even if damaged
            table = pa.Table.from_batches([batch]).replace_schema_metadata()
            yield _with(coded(_whole(table)), partitions, read_columns)


def _remedy(handle: Any, request: layout.Request) -> str:
    """Settings that would read a table without the required columns, judged by its first rows."""
    handle.seek(0)
    batch = next(pq.ParquetFile(handle).iter_batches(layout.LINES), None)
    rows = (
        []
        if batch is None
        else zip(*(escaped(pa.chunked_array([values])).to_pylist() for values in batch), strict=True)
    )
    names = [] if batch is None else batch.schema.names
    table = [(0, names), *((number, [cell or "" for cell in row]) for number, row in enumerate(rows, start=1))]
    return layout.of_cells(table, 0, request, has_header_row=False)


def _whole(table: pa.Table) -> pa.Table:
    """Table with escapes in text that is not UTF-8. Raises ArrowInvalid for other damage."""
    try:
        table.validate(full=True)  # damage would otherwise cause errors far from here
    except pa.ArrowInvalid:
        for place, column in enumerate(table.schema):
            if is_text(column.type) or (pa.types.is_dictionary(column.type) and is_text(column.type.value_type)):
                values = table[place].cast(pa.binary()) if is_text(column.type) else _decoded(table[place])
                table = table.set_column(place, column.name, escaped(values))
        table.validate(full=True)
    return table


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a dictionary array as bytes."""
    chunks = [chunk.dictionary.cast(pa.binary()).take(chunk.indices) for chunk in values.chunks]
    return pa.chunked_array(chunks, pa.binary())


def _partitions(name: str) -> dict[str, str | None]:
    """Partition values in the folder names of a file, such as year=2026/."""
    parts = [part.partition("=") for part in name.split("/")[:-1] if "=" in part]
    return {key: None if value == _NOTHING else unquote(value) for key, _, value in parts}


def _with(table: pa.Table, partitions: Mapping[str, str | None], read_columns: list[str]) -> pa.Table:
    """Select the chosen columns, adding those that are partitions."""
    for key in read_columns:
        if key in partitions:
            value, rows = partitions[key], len(table)
            codes = pa.nulls(rows, pa.int32()) if value is None else pa.repeat(pa.scalar(0, pa.int32()), rows)
            values = pa.array([] if value is None else [value], pa.string())
            table = table.append_column(key, pa.DictionaryArray.from_arrays(codes, values))
    return table.select(read_columns)


@contextmanager
def _opened(file: File) -> Iterator[Any]:
    """Open the file's bytes; local files through Arrow, which is faster."""
    with files.reached(file.place, file.advice):
        handle = pa.OSFile(file.path) if file.is_here else file.open()
    with handle:
        yield handle


@contextmanager
def _sound(file: File) -> Iterator[None]:
    """Reject a file that is not Parquet or is damaged; an unreadable one may be readable later."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            message = error.strerror or str(error)
            raise SourceUnreachable(f"{file.place}: cannot be read: {message}; wanted a readable file") from None
        raise SourceError(
            f"{file.place}: not a Parquet file ({error}); wanted one, as declared by kind: parquet"
        ) from None
