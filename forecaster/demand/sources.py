"""Read what a declared source holds.

Text stays as it was given: what it means, and whether it is accepted, the contract decides. Every row keeps its place,
so that a message can point at it: the line in a CSV file (the header is line 1), the row number in a Parquet file.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.errors import SourceError
from forecaster.spec import DATASETS, CsvSource, ParquetSource, Spec

ROW, FAULT = "row", ":fault"  # a wanted column of such a name is refused
AnySource = CsvSource | ParquetSource


def name(source: AnySource) -> str:
    """What messages and tables call the source: its file name."""
    return Path(source.path).name


def digest(source: AnySource, spec: Spec) -> str:
    """Twelve hex digits of the sha256 over the file: the same content has the same digest.

    Raises SourceError when the file cannot be read.
    """
    return hashlib.sha256(_content(source, spec)).hexdigest()[:12]


def read(source: AnySource, spec: Spec, wanted: Iterable[str], optional: Iterable[str] = ()) -> pd.DataFrame:
    """The wanted columns, those of the optional ones that are there, `row` and `:fault`.

    CSV columns are text, empty where nothing was given; Parquet columns keep their types. `:fault` is empty but for a
    CSV row that has more or fewer fields than the header: then it says so, and the row's fields are cut or padded.
    Raises SourceError when the file is missing, is not what its kind says, or lacks a wanted column.
    """
    content = _content(source, spec)
    place, wanted, optional = spec.path(source.path), list(dict.fromkeys(wanted)), list(dict.fromkeys(optional))
    if isinstance(source, ParquetSource):
        return _parquet(content, place, wanted, optional)
    return _csv(content, source, place, wanted, optional)


def _content(source: AnySource, spec: Spec) -> bytes:
    place = spec.path(source.path)
    try:
        return place.read_bytes()
    except FileNotFoundError:
        raise SourceError(f"{place}: no such file{_advice(source)}") from None
    except OSError as error:
        raise SourceError(f"{place}: cannot be read: {error.strerror}; wanted a readable {source.kind} file") from error


def _advice(source: AnySource) -> str:
    if DATASETS in source.path:
        return (
            f"; {DATASETS} names a folder of tidy Parquet files with one row a site and day: depot_id, date, demand "
            f"and covariates. Set {DATASETS} to such a folder, or point demand.source at a file of your own"
        )
    return f"; wanted a {source.kind} file there; a relative path starts at the folder of the pipeline file"


def _parquet(content: bytes, place: Path, wanted: list[str], optional: list[str]) -> pd.DataFrame:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        _require(place, file.schema_arrow.names, wanted)
        columns = [*wanted, *(column for column in optional if column in file.schema_arrow.names)]
        table = file.read(columns=list(dict.fromkeys(columns)))
        frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(
            f"{place}: found something else than a Parquet file ({error}); wanted kind: parquet"
        ) from error
    frame[ROW], frame[FAULT] = range(1, len(frame) + 1), ""
    return frame


def _csv(content: bytes, source: CsvSource, place: Path, wanted: list[str], optional: list[str]) -> pd.DataFrame:
    try:
        text = content.decode("utf-8-sig" if source.encoding.lower() in {"utf-8", "utf8"} else source.encoding)
    except LookupError:
        raise SourceError(f"{place}: unknown encoding {source.encoding!r}; wanted one such as utf-8, cp1252") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{place}:{line}: found a byte that is not {source.encoding} text; wanted a CSV file, or its `encoding`"
        ) from error
    if len(source.delimiter) != 1 or source.delimiter in '"\r\n':
        raise SourceError(
            f"{place}: found delimiter {source.delimiter!r}, wanted a single character such as ',' or ';'"
        )
    lines = _records(text, source.delimiter, place)
    header = [column.strip() for column in next(lines, (1, [""]))[1]]
    _require(place, header, wanted)
    columns = list(dict.fromkeys([*wanted, *(column for column in optional if column in header)]))
    positions = [header.index(column) for column in columns]
    pick = itemgetter(*positions, 0) if len(positions) == 1 else itemgetter(*positions)
    rows, places, faults = [], [], []
    for place_of_row, fields in lines:
        fault = ""
        if len(fields) != len(header):
            fault = f"{len(fields)} fields, wanted {len(header)} as in the header"
            fields = [*fields, *[""] * (len(header) - len(fields))]
        rows.append(pick(fields))
        places.append(place_of_row)
        faults.append(fault)
    values = dict(zip(columns, zip(*rows, strict=True), strict=False)) if rows else dict.fromkeys(columns, ())
    frame = pd.DataFrame({column: pd.Series(list(values[column]), dtype="str") for column in columns})
    frame[ROW], frame[FAULT] = pd.Series(places, dtype="int64"), pd.Series(faults, dtype="str")
    return frame


def _records(text: str, delimiter: str, place: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it starts on; empty lines hold no record."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise SourceError(
                f"{place}:{line}: found a row that does not end as CSV rows do ({error}); wanted every quote closed"
            ) from error
        if fields:
            yield line, fields
        line = reader.line_num + 1


def _require(place: Path, found: Sequence[str], wanted: Sequence[str]) -> None:
    for column in wanted:
        if column == ROW or column.startswith(":"):
            raise SourceError(f"{place}: column '{column}' has a name that is used for a row's place; rename it")
        if column not in found:
            close = difflib.get_close_matches(column, found, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            if len(found) == 1 and (other := next((mark for mark in ";\t|" if mark in found[0]), None)):
                hint = f"; the file seems to be delimited by {other!r}: set the source's `delimiter`"
            raise SourceError(f"{place}: found columns {', '.join(found)}; wanted '{column}'{hint}")
        if found.count(column) > 1:
            raise SourceError(f"{place}: found column '{column}' twice; wanted each name once")
