"""CSV reader: exact line numbers, every value as text, malformed rows reported as faults.

Most files are plain: every line has the same number of fields, and quotes enclose whole fields or
are absent. Arrow's parser reads plain text several times faster; the csv module reads every record
of any other block of text. Both give the same result.
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

_RECORDS_A_TABLE = 20_000  # records read by the csv module per table
_LINES_A_RECORD = 1_000  # maximum number of lines of a record: a quote that is open for longer was not closed
_FEWEST = 2  # minimum number of fields of a row: a line with one field is a title or a footer
_NUL = N_("a NUL character; wanted text")
_QUOTE = N_("a quote that is not closed, or within a field; wanted quotes around it")
_WIDTH = N_("{fields} fields, wanted {width} as in the header")
csv.field_size_limit(2**31 - 1)  # a long field is not a fault


class CsvRecord(NamedTuple):
    """Record with the line on which it starts, its fields, and its fault of form."""

    line: int
    fields: list[str]
    fault: str = ""


def fault_sentence(fault: str) -> str:
    """Fault of a row, stored as text among its fields, as a translatable sentence."""
    return recognised(fault, (_WIDTH, _QUOTE, _NUL, encodings.FAULT_OF_ROW))


def pieces(source: CsvSource, spec: Spec, columns: Columns, **_: str | None) -> Pieces:
    """Rows of each file, in the order of the files; the digest covers the decompressed content."""
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
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Ending(digest[:12])


def _header(file: files.File, text: _Text, source: CsvSource, columns: Columns) -> _Header:
    """Columns of the file. Raises SourceError if the required ones are not among them."""
    first = next(text.records(), CsvRecord(1, [""]))
    if first.fault:
        raise SourceError(f"{file.place}:{first.line}: found {first.fault}; wanted a header")
    if odd := tuple(field for field in first.fields if not encodings.is_whole(field)):
        raise SourceError(f"{file.place}:{first.line}: found {encodings.fault(source.encoding, odd)} of a CSV file")
    names = header_names(first.fields)
    read_columns = columns.of(file.place, names)
    needed = max([_FEWEST, *(names.index(name) + 1 for name in columns.required if name in names)])
    is_split = len(source.delimiter) == 1  # otherwise a blank may stand in place of any field
    further = {*read_columns} - {*columns.required, *columns.optional} if columns.others else set[str]()
    return _Header(names, read_columns, source.encoding, min(needed, len(names)) if is_split else len(names), further)


@dataclass(frozen=True)
class _Header:
    """Columns of a file, the selected ones, and the file's declared encoding."""

    names: list[str]
    chosen: list[str]
    encoding: str
    needed: int  # minimum number of fields of a row: spreadsheets omit empty ones at the end
    further: set[str]  # selected columns in which an undecodable byte is no fault of a row

    @property
    def positions(self) -> list[int]:
        return [self.names.index(column) for column in self.chosen]


class _Text:
    """Text of a file, read in blocks of lines."""

    def __init__(self, place: str, delimiter: str, blocks: Iterator[tuple[int, str]]) -> None:
        self._place, self.delimiter, self._blocks = place, delimiter, blocks
        self._line, self._block, self._start = 1, "", 0  # where the current record begins
        self._stream: io.StringIO | None = None  # set if the block is read record by record
        self._pattern = _pattern(place, delimiter)

    def goes_on(self) -> bool:
        """True if text is left; loads the next block when the current one is used up."""
        if self._used_up() and (following := next(self._blocks, None)):
            (self._line, self._block), self._stream = following, None
        return not self._used_up()

    def rest(self) -> tuple[int, str]:
        """Rest of the current block, and its line."""
        return self._line, self._block[self._stream.tell() :] if self._stream else self._block

    def skip(self) -> None:
        """Skip the current block."""
        self._stream, self._block = None, ""

    def records(self, width: int | None = None) -> Iterator[CsvRecord]:
        """Records of the current block, up to the end of the last one; empty lines have none.

        If a quote is not closed or misplaced, the line is a record with a fault, and the next line
        begins another record. `width`, in fields, distinguishes a record of several lines from an
        unclosed quote that swallowed rows.
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
        """Fields of the next record, and its fault."""
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
        """Lines that a record may continue on, from this block and later ones; `lines` collects the
        consumed ones."""
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
        """True if a quote seems to have swallowed the rows after it: the record has the wrong
        width, or each line is a row."""
        return fields != width or (width > 2 and all(line.count(self.delimiter) == width - 1 for line in lines))

    def _used_up(self) -> bool:
        return (self._stream.tell() if self._stream else 0) >= len(self._block)


def _pattern(place: str, delimiter: str) -> re.Pattern[str] | None:
    """Compiled delimiter; None for a single character. Raises SourceError for an invalid delimiter."""
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
    """Parse the current block with Arrow; None if only the csv module reads it correctly."""
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
    # an empty line, which Arrow skips
    if len(table) != line_ends + (not block.endswith("\n")):
        return None
    text.skip()
    return numbered(table.rename_columns(header.chosen), line)


def _bytes(block: str) -> bytes | None:
    """Bytes of the block for Arrow; None if Arrow would read a different text."""
    if block[0] == "\ufeff" or "\0" in block or ("\r" in block and block.count("\r") != block.count("\r\n")):
        return None  # Arrow would take it for a byte order mark, or the lines end differently
    try:
        return block.encode()
    except UnicodeEncodeError:  # bytes that are not valid text
        return None


def _simply_quoted(content: bytes, delimiter: str) -> bool:
    """True if each quote opens or closes a whole field, and no line ends within quotes."""
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
    except UnicodeEncodeError:  # few pieces have an undecodable byte
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
    """Rows with undecodable bytes as escapes, and the faults of rows that have such bytes in a
    column being read."""
    readable, faults = [], list[str]()
    positions = [at for at in header.positions if header.names[at] not in header.further]
    for fields in rows:
        is_whole = encodings.is_whole("".join(fields))
        odd = () if is_whole else tuple(fields[at] for at in positions if not encodings.is_whole(fields[at]))
        readable.append(fields if is_whole else [encodings.escaped(field) for field in fields])
        faults.append(encodings.fault(header.encoding, odd) + " of its source" if odd else "")
    return readable, faults
