"""Streaming decompression and decoding of a CSV file: some megabytes of whole lines at a time, with
line numbers."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO, Protocol

import pyarrow as pa

from forecaster.config import CsvSource
from forecaster.demand.sources import encodings
from forecaster.demand.sources.files import File
from forecaster.errors import SourceError, SourceUnreachable

CHUNK = 2**24  # bytes read at a time
_LINE_END = re.compile(r"\r\n|\n|\r")
_LONGEST = 2**26  # maximum characters of a line; a file with a longer one is not CSV
_LISTED = 5  # files of an archive named in a message
_BY_NAME = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip", ".zst": "zstd"}
_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    pa.ArrowException,
    NotImplementedError,
    RuntimeError,
)
_OPENERS: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": lambda raw: pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"),
}


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def texts(file: File, source: CsvSource, content: Hash) -> Iterator[tuple[int, str]]:
    """Blocks of whole lines, each with the number of its first line; the decompressed bytes are
    hashed into `content`.

    Invalid bytes appear in the text as described in `encodings`. Raises SourceUnreachable when the
    file cannot be read now, SourceError when it is incomplete or damaged, has a NUL in its header,
    or has invalid bytes in an encoding with several bytes per letter, such as UTF-16.
    """
    decoder = _decoder(file, source)
    line, rest = 1, ""
    with _opened(file, source) as stream:
        while chunk := _read(file, stream, line):
            content.update(chunk)
            text = rest + _decoded(file, source, decoder, chunk, line, rest)
            # a \r at the end may be half of \r\n
            end = max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1)) + 1
            block, rest = text[:end], text[end:]
            if block:
                _refuse_nul(file, block, line)
                yield line, block
                line += lines(block)
            if len(rest) > _LONGEST:
                raise SourceError(f"{file.place}:{line}: found a line without a line break; wanted a CSV file")
        rest += _decoded(file, source, decoder, b"", line, rest)
    if rest:
        _refuse_nul(file, rest, line)
        yield line, rest


def beginning(file: File, source: CsvSource, size: int) -> bytes | None:
    """First bytes of a file's content, decompressed; None if it cannot be decompressed."""
    try:
        with _opened(file, source) as stream, _sound(file, 1):
            return stream.read(size)
    except SourceError:
        return None


def compression(name: str, declared: str) -> str:
    """Compression of a file: the declared one or, if to be inferred, by its name."""
    return declared if declared != "infer" else _BY_NAME.get(PurePosixPath(name).suffix.lower(), "none")


def below_titles(blocks: Iterator[tuple[int, str]], header_row: int) -> Iterator[tuple[int, str]]:
    """Blocks from the header's line on; the lines above may have any form."""
    for line, text in blocks:
        while line < header_row and (end := _LINE_END.search(text)):
            line, text = line + 1, text[end.end() :]
        if line >= header_row and text:
            yield line, text


def lines(text: str) -> int:
    """Number of line ends in a text: \\n, \\r\\n or \\r."""
    alone = text.count("\r") - text.count("\r\n") if "\r" in text else 0
    return text.count("\n") + alone


def _decoder(file: File, source: CsvSource) -> codecs.IncrementalDecoder:
    name = "utf-8-sig" if source.encoding.lower() in {"utf-8", "utf8"} else source.encoding
    try:
        # rejects codecs that do not convert between text and bytes
        "".encode(name)
        return codecs.getincrementaldecoder(name)(encodings.ERRORS)
    except LookupError:
        raise SourceError(
            f"{file.place}: unknown encoding {source.encoding!r}; wanted one such as utf-8, cp1252"
        ) from None


def _decoded(
    file: File, source: CsvSource, decoder: codecs.IncrementalDecoder, chunk: bytes, line: int, rest: str
) -> str:
    try:
        return decoder.decode(chunk, final=not chunk)
    except UnicodeDecodeError as error:
        good = error.object[: error.start].decode(source.encoding, errors="ignore")
        line += lines(rest + good)
    except UnicodeError:
        pass
    raise SourceError(f"{file.place}:{line}: found {encodings.fault(source.encoding)} of a CSV file")


def _refuse_nul(file: File, text: str, line: int) -> None:
    """Reject a header with NUL characters: not a CSV file, or another encoding. In other lines only
    the row is lost."""
    if line == 1 and "\0" in text.splitlines()[0]:
        raise SourceError(f"{file.place}:1: found a NUL character; wanted a CSV file, or the `encoding` of this file")


@contextmanager
def _opened(file: File, source: CsvSource) -> Iterator[IO[bytes]]:
    kind = compression(file.name, source.compression)
    with ExitStack() as closing:
        raw: BinaryIO = closing.enter_context(file.open())
        stream: IO[bytes] = raw
        if kind != "none":
            with _sound(file, 1):
                opened = _only_member(file, raw) if kind == "zip" else _OPENERS[kind](raw)
                stream = closing.enter_context(opened)
        yield stream


def _read(file: File, stream: IO[bytes], line: int) -> bytes:
    with _sound(file, line):
        return stream.read(CHUNK)


@contextmanager
def _sound(file: File, line: int) -> Iterator[None]:
    """Reject a truncated or damaged file; an unreadable one may be readable later."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and not isinstance(error, pa.ArrowException):
            message = error.strerror or str(error)
            raise SourceUnreachable(f"{file.place}: cannot be read: {message}; wanted a readable file") from None
        raise _damaged(file, line, error) from None
    except _DAMAGE as error:
        raise _damaged(file, line, error) from None


def _damaged(file: File, line: int, error: Exception) -> SourceError:
    after = f" after line {line - 1}" if line > 1 else ""
    return SourceError(f"{file.place}: is truncated or damaged{after} ({error}); wanted a complete compressed file")


def _is_macos_note(name: str) -> bool:
    """True for a file in which macOS stores metadata of another."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name == ".DS_Store"


def tables(archive: zipfile.ZipFile) -> list[str]:
    """Names of the archive's files that may be the table: those ending in .csv, else all."""
    names = [
        member.filename for member in archive.infolist() if not member.is_dir() and not _is_macos_note(member.filename)
    ]
    return [name for name in names if name.lower().endswith(".csv")] or names


def _only_member(file: File, raw: BinaryIO) -> IO[bytes]:
    archive = zipfile.ZipFile(raw)
    names = tables(archive)
    if len(names) != 1:
        listed = ", ".join(f"'{name}'" for name in names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        raise SourceError(
            f"{file.place}: found {len(names)} files in the archive ({listed}); wanted exactly one CSV file"
        )
    return archive.open(names[0])
