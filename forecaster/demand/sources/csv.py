"""CSV reader: exact lines, every value as text, a row of another form than the header's told as a
fault.

Most files are plain: the same number of fields in every line, quotes around whole fields or none.
What is plain Arrow's parser reads, several times faster; from any block of text that is not, the
csv module reads every record. Both give the same.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from forecaster.config import CsvSource, Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import recognised
from forecaster.demand.sources import encodings, files, recognition
from forecaster.demand.sources.feed import FAULT, ROW, Columns, Ending, Pieces, header_names, numbered
from forecaster.demand.sources.text_stream import below_titles, texts
from forecaster.errors import SourceError

_RECORDS_A_TABLE = 20_000  # records that the csv module reads before they become a table
_LINES_A_RECORD = 1_000  # lines of a record at most: a quote that is open for longer was not closed
_FEWEST = 2  # fields of a row: a line with one is a title or a footer
_NUL = N_("a NUL character; wanted text")
_QUOTE = N_("a quote that is not closed, or within a field; wanted quotes around it")
_WIDTH = N_("{fields} fields, wanted {width} as in the header")
csv.field_size_limit(2**31 - 1)  # a long field is no fault of its line's form


class CsvRecord(NamedTuple):
    """The line that a record starts on, its fields, and what is wrong with its form."""

    line: int
    fields: list[str]
    fault: str = ""


def fault_sentence(fault: str) -> str:
    """The fault of a row, which is text among its fields, as a sentence that can be told in other
    languages."""
    return recognised(fault, (_WIDTH, _QUOTE, _NUL, encodings.FAULT_OF_ROW))


def pieces(source: CsvSource, spec: Spec, columns: Columns, **_: str | None) -> Pieces:
    """The rows of each file, as the files lie; the digest is over the decompressed content."""
    digests = []
    for file in files.files(source, spec):
        content = hashlib.sha256()
        with recognition.explained(file, source, spec, columns):
            text = _Text(file.place, source.delimiter, below_titles(texts(file, source, content), source.header_row))
            header = _header(file, text, source, columns)
        yield file.name, _from_records([], header)
        for table in _tables(text, header):
            yield file.name, table
        digests.append(content.hexdigest())
    whole = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Ending(whole[:12])


def _header(file: files.File, text: _Text, source: CsvSource, columns: Columns) -> _Header:
    """The file's columns. Raises SourceError where the wanted ones are not among them."""
    first = next(text.records(), CsvRecord(1, [""]))
    if first.fault:
        raise SourceError(f"{file.place}:{first.line}: found {first.fault}; wanted a header")
    if odd := tuple(field for field in first.fields if not encodings.is_whole(field)):
        raise SourceError(f"{file.place}:{first.line}: found {encodings.fault(source.encoding, odd)} of a CSV file")
    names = header_names(first.fields)
    chosen = columns.of(file.place, names)
    needed = max([_FEWEST, *(names.index(name) + 1 for name in columns.required if name in names)])
    is_split = len(source.delimiter) == 1  # else a blank may stand in the place of any field
    return _Header(names, chosen, source.encoding, min(needed, len(names)) if is_split else len(names))


@dataclass(frozen=True)
class _Header:
    """A file's columns, which of them are read, and the encoding that the file is said to have."""

    names: list[str]
    chosen: list[str]
    encoding: str
    needed: int  # fields of a row at least: spreadsheets leave out empty ones at its end

    @property
    def positions(self) -> list[int]:
        return [self.names.index(column) for column in self.chosen]


class _Text:
    """A file's text, of which one block of lines after another is at hand."""

    def __init__(self, place: str, delimiter: str, blocks: Iterator[tuple[int, str]]) -> None:
        self._place, self.delimiter, self._blocks = place, delimiter, blocks
        self._line, self._block, self._start = 1, "", 0  # where the record at hand begins
        self._stream: io.StringIO | None = None  # where the block is read record by record
        self._pattern = _pattern(place, delimiter)

    def goes_on(self) -> bool:
        """True if text is left; takes the next block when this one is used up."""
        if self._used_up() and (following := next(self._blocks, None)):
            (self._line, self._block), self._stream = following, None
        return not self._used_up()

    def rest(self) -> tuple[int, str]:
        """Rest of the current block, and its line."""
        return self._line, self._block[self._stream.tell() :] if self._stream else self._block

    def skip(self) -> None:
        """Be done with the block at hand."""
        self._stream, self._block = None, ""

    def records(self, width: int | None = None) -> Iterator[CsvRecord]:
        """The records of the block at hand, up to the end of the last one; empty lines hold none.

        Where a quote is not closed or does not stand as it should, the line is a record with a
        fault, and the next line begins another one. `width`, in fields, tells a record of several
        lines from a quote that took rows for text.
        """
        if not self.goes_on():
            return
        self._stream = io.StringIO(self.rest()[1], newline="")
        self._block = self._stream.getvalue()
        while not self._used_up():
            line = self._line
            fields, fault = self._fields(width)
            if fields:
                yield CsvRecord(line, fields, fault)

    def _fields(self, width: int | None) -> tuple[list[str], str]:
        """The fields of the next record, and its fault."""
        assert self._stream is not None
        self._start = self._stream.tell()
        first = self._stream.readline()
        text, self._line = first.rstrip("\r\n"), self._line + 1
        fault = _NUL if "\0" in first else ""
        if self._pattern is not None:
            return ([field or "" for field in self._pattern.split(text.strip())] if text.strip() else []), fault
        if '"' not in first:
            return (text.split(self.delimiter) if text else []), fault
        lines = [first]
        try:
            fields = next(csv.reader(self._lines(lines), delimiter=self.delimiter, strict=True))
        except csv.Error:
            fields = []
        if fields and not (width and len(lines) > 1 and self._holds_rows(lines, len(fields), width)):
            self._line += len(lines) - 1
            return fields, fault
        self._stream.seek(self._start + len(first))
        return next(csv.reader([text], delimiter=self.delimiter)), _QUOTE

    def _lines(self, lines: list[str]) -> Iterator[str]:
        """The lines that a record may go on for, of this block and further ones; those that were
        asked for."""
        assert self._stream is not None
        yield lines[0]
        while len(lines) < _LINES_A_RECORD:
            while not (text := self._stream.readline()):
                if (following := next(self._blocks, None)) is None:
                    return
                self._block, place = self._block[self._start :] + following[1], len(self._block) - self._start
                self._stream, self._start = io.StringIO(self._block, newline=""), 0
                self._stream.seek(place)
            lines.append(text)
            yield text

    def _holds_rows(self, lines: Sequence[str], fields: int, width: int) -> bool:
        """True if a quote seems to have taken the rows after it for text: no such record, or each
        line is a row."""
        return fields != width or (width > 2 and all(line.count(self.delimiter) == width - 1 for line in lines))

    def _used_up(self) -> bool:
        return (self._stream.tell() if self._stream else 0) >= len(self._block)


def _pattern(place: str, delimiter: str) -> re.Pattern[str] | None:
    """None for a single character. Raises SourceError for what cannot be a delimiter."""
    if len(delimiter) == 1 and delimiter not in '"\r\n':
        return None
    try:
        if len(delimiter) > 1:
            return re.compile(delimiter)
    except re.error:
        pass
    raise SourceError(
        f"{place}: found delimiter {delimiter!r}, wanted a single character such as ',' or ';', or a regular "
        r"expression such as '\s+'"
    )


def _tables(text: _Text, header: _Header) -> Iterator[pa.Table]:
    while text.goes_on():
        table = _plain(text, header)
        if table is not None:
            yield table
            continue
        records = text.records(len(header.names))
        while some := list(islice(records, _RECORDS_A_TABLE)):
            yield _from_records(some, header)


def _plain(text: _Text, header: _Header) -> pa.Table | None:
    """The block at hand by Arrow's parser; None when only the csv module reads it as CSV is
    meant."""
    line, block = text.rest()
    if len(text.delimiter) > 1 or not text.delimiter.isascii() or not header.chosen:
        return None
    content = _bytes(block)
    if content is None:
        return None
    quoted = '"' in block
    if quoted and not _simply_quoted(content, text.delimiter):
        return None
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            arrow_csv.ReadOptions(
                column_names=[str(position) for position in range(len(header.names))],
                use_threads=False,
                block_size=len(content) + 1,
            ),
            arrow_csv.ParseOptions(delimiter=text.delimiter, quote_char='"' if quoted else False),
            arrow_csv.ConvertOptions(
                column_types={str(position): pa.string() for position in header.positions},
                include_columns=[str(position) for position in header.positions],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:  # a row with more or fewer fields
        return None
    line_ends = np.count_nonzero(np.frombuffer(content, np.uint8) == ord("\n"))
    # an empty line, which Arrow passes over
    if len(table) != line_ends + (not block.endswith("\n")):
        return None
    text.skip()
    return numbered(table.rename_columns(header.chosen), line)


def _bytes(block: str) -> bytes | None:
    """The block as Arrow reads it; None where it would read another text."""
    if block[0] == "\ufeff" or "\0" in block or ("\r" in block and block.count("\r") != block.count("\r\n")):
        return None  # what Arrow takes for a byte order mark, or lines that end in another way
    try:
        return block.encode()
    except UnicodeEncodeError:  # bytes that are no text
        return None


def _simply_quoted(content: bytes, delimiter: str) -> bool:
    """True if each quote opens or closes a whole field, and no line ends between the two."""
    codes = np.frombuffer(content, np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    border = np.zeros(256, bool)
    border[[ord(delimiter), ord("\n"), ord("\r")]] = True
    starts = (opening == 0) | border[codes[opening - 1]]
    ends = (closing == len(codes) - 1) | border[codes[np.minimum(closing + 1, len(codes) - 1)]]
    line_ends = np.flatnonzero(codes == ord("\n"))
    one_line = np.searchsorted(line_ends, opening) == np.searchsorted(line_ends, closing)
    return bool((starts & ends & one_line).all())


def _from_records(records: Sequence[CsvRecord], header: _Header) -> pa.Table:
    width = len(header.names)
    faults = [
        fault or ("" if header.needed <= len(fields) <= width else _WIDTH.format(fields=len(fields), width=width))
        for _, fields, fault in records
    ]
    rows = [fields if len(fields) >= width else fields + [""] * (width - len(fields)) for _, fields, _ in records]
    try:
        values = _texts(rows, header)
    except UnicodeEncodeError:  # few pieces have a byte that could not be read
        rows, undecoded = _readable(rows, header)
        faults = [fault or of_bytes for fault, of_bytes in zip(faults, undecoded, strict=True)]
        values = _texts(rows, header)
    values[ROW] = pa.array([record.line for record in records], pa.int64())
    if any(faults):
        values[FAULT] = pa.array(faults, pa.large_string())
    return pa.table(values)


def _texts(rows: Sequence[Sequence[str]], header: _Header) -> dict[str, pa.Array]:
    return {
        column: pa.array([fields[position] for fields in rows], pa.string())
        for column, position in zip(header.chosen, header.positions, strict=True)
    }


def _readable(rows: Sequence[list[str]], header: _Header) -> tuple[list[list[str]], list[str]]:
    """The rows with bytes that could not be read as escapes, and the fault of those that are read
    from them."""
    readable, faults, positions = [], [], header.positions
    for fields in rows:
        is_whole = encodings.is_whole("".join(fields))
        odd = () if is_whole else tuple(fields[at] for at in positions if not encodings.is_whole(fields[at]))
        readable.append(fields if is_whole else [encodings.escaped(field) for field in fields])
        faults.append(encodings.fault(header.encoding, odd) + " of its source" if odd else "")
    return readable, faults
