"""Recognition of a rejected file's actual kind, compression, encoding or layout.

Used only after a file was rejected: its beginning is read once more.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from forecaster.config import CsvSource, Spec
from forecaster.config.sources import StoredSource
from forecaster.demand.sources import layout, text_stream
from forecaster.demand.sources.feed import Columns
from forecaster.demand.sources.files import File
from forecaster.errors import MissingExtra, SourceError, SourceUnreachable

_BEGINNING = 2**16  # bytes
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_FOREIGN = {
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"SQLite format 3\0": "an SQLite database (kind: sql reads it)",
    b"version https://git-lfs": "a Git LFS pointer whose file was not fetched",
}
_NO_CONTENT = "; the file is empty"
_UTF_8 = ("utf-8", "utf8", "utf-8-sig", "utf_8")


@contextmanager
def explained(file: File, source: StoredSource, spec: Spec, columns: Columns) -> Iterator[None]:
    """Extend a SourceError that rejects a file by the file's likely kind and the setting to change."""
    try:
        yield
    except (SourceUnreachable, MissingExtra):
        raise
    except SourceError as error:
        raise SourceError(f"{error}{remedy(file, source, spec, columns)}") from None


def remedy(file: File, source: StoredSource, spec: Spec, columns: Columns) -> str:
    """Setting that would read the file, as the end of a message; empty if none is found."""
    content = _beginning(file)
    if content is None:
        return ""
    if hint := _of_bytes(content, source):
        return hint
    if not isinstance(source, CsvSource):
        return ""
    content = text_stream.beginning(file, source, _BEGINNING)
    if content is None:  # already reported
        return ""
    if not content.strip():
        return _NO_CONTENT
    if hint := _of_bytes(content, source.model_copy(update={"compression": "none"})) or _of_encoding(content, source):
        return hint
    try:
        text = content.decode(source.encoding, "replace").removeprefix("\ufeff")
    except LookupError:  # unknown encoding, already reported
        return ""
    lines = list(io.StringIO(text, newline=None))[
        : -1 if len(content) >= _BEGINNING else None
    ]  # the last line may be incomplete
    layout_request = request(source, spec, columns)
    return layout.of_text(
        lines[: layout.LINES + source.header_row], source.delimiter, source.header_row, layout_request
    )


def request(source: StoredSource, spec: Spec, columns: Columns) -> layout.Request:
    """Columns required of the source's table."""
    demand_columns = spec.demand.columns
    if source is not spec.demand.source:
        return layout.Request(columns.required)
    if source.wide is not None:
        derived_columns = (
            demand_columns.demand,
            demand_columns.depot_id if source.wide == "depots" else demand_columns.day,
        )
        return layout.Request(tuple(name for name in columns.required if name not in derived_columns))
    return layout.Request(columns.required, demand_columns.depot_id, demand_columns.day, demand_columns.demand)


def _beginning(file: File) -> bytes | None:
    try:
        with file.open() as stream:
            return stream.read(_BEGINNING)
    except (OSError, SourceUnreachable):
        return None


def _of_bytes(content: bytes, source: StoredSource) -> str:
    """Kind of a file by its first bytes, as the end of a message."""
    if not content:
        return _NO_CONTENT
    kind, packed = _kind(content), _packed(content)
    if kind and kind != source.kind:
        description = {"excel": "an Excel workbook", "parquet": "a Parquet file"}[kind]
        return f"; it looks like {description}: set kind: {kind}"
    if packed and not kind:
        declared = source.compression if isinstance(source, CsvSource) else ""
        if declared in ("none", "") or text_stream.compression(source.path, declared) != packed:
            key = f"set compression: {packed}" if isinstance(source, CsvSource) else "wanted the decompressed file"
            return f"; it looks like a {packed}-compressed file: {key}"
    if foreign := next((description for start, description in _FOREIGN.items() if content.startswith(start)), None):
        return f"; it looks like {foreign}"
    return _of_markup(content) or _of_plain_text(content, source, known=bool(kind or packed))


def _of_plain_text(content: bytes, source: StoredSource, *, known: bool) -> str:
    """Message if the file is text although something else is declared."""
    if known or b"\0" in content:
        return ""
    if not isinstance(source, CsvSource):
        return "; it looks like text: set kind: csv" if _is_text(content) and source.kind != "delta" else ""
    if text_stream.compression(source.path, source.compression) != "none" and _is_text(content):
        return "; it looks like plain text: set compression: none"
    return ""


def _kind(content: bytes) -> str:
    if content.startswith(b"PAR1"):
        return "parquet"
    if content.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "excel"
    is_book = any(part in content for part in (b"[Content_Types].xml", b"xl/", b"opendocument.spreadsheet"))
    return "excel" if content.startswith(b"PK\x03\x04") and is_book else ""


def _packed(content: bytes) -> str:
    if content.startswith(b"PK\x03\x04"):
        return "zip"
    return next((name for start, name in _PACKED.items() if content.startswith(start)), "")


def _of_markup(content: bytes) -> str:
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1000].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script", b"<table")):
        return "; it looks like a web page, perhaps for login or an error: wanted the file itself; open it in a browser"
    if start.startswith(b"<"):
        return "; it looks like XML; wanted another export format"
    if start[:1] in (b"{", b"[") and start[1:].lstrip()[:1] in (b'"', b"{", b"[", b"}", b"]"):
        return "; it looks like JSON, perhaps an API response; wanted another export format"
    return ""


def _is_text(content: bytes) -> bool:
    try:
        content[: _BEGINNING - 4].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(content) - 8 or content.isascii()
    return True


def _of_encoding(content: bytes, source: CsvSource) -> str:
    """Encoding of a text that the declared one cannot read or misreads."""
    guess = _encoding(content)
    declared = source.encoding.lower()
    if (
        not guess
        or guess == declared
        or (guess == "utf-8" and declared in _UTF_8)
        or declared.replace("_", "-") in guess
    ):
        return ""
    if guess == "utf-8" and "16" not in declared and "32" not in declared and not content.startswith(b"\xef\xbb\xbf"):
        return ""  # ASCII reads the same in the other encodings
    return f"; it looks like {guess.upper()}: set encoding: {guess}"


def _encoding(content: bytes) -> str:
    if content.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    sample = content[:1000]
    zeros = [sample[place::2].count(0) / max(1, len(sample) // 2) for place in (0, 1)]
    if max(zeros) > 0.4 and min(zeros) < 0.1:
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    return "utf-8" if _is_text(content) and b"\0" not in content else ""
