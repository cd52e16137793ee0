"""Odd cells, bytes and values that a source may contain, and files damaged by seed."""

from __future__ import annotations

import csv
import io
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.config import Spec, load
from forecaster.errors import ForecasterError

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "Etc/GMT+12", "UTC")
NAMES = ("depot_id", "date", "demand", "known")
PIPELINE = """name: t
timezone: ZONE
demand:
  source: {kind: csv, path: demand.csv}
  columns: {recorded_at: known}
depots:
  source: {kind: csv, path: depots.csv}
  columns: {opened: opened, closed: closed, timezone: zone}
  static: [city]
  aliases: {source: {kind: csv, path: aliases.csv}}
calendar: {country: DE, events: {source: {kind: csv, path: events.csv}}}
legacy:
  source: {kind: csv, path: legacy.csv}
  columns: {depot_id: depot_id, date: date, forecast: demand, made_on: known}
"""
CELLS = (
    *("", " ", "٣", "۳", "４２", "12²", "½", "Ⅻ", "一", "1e999", "-0", "9" * 5_000, "inf", "-Infinity", "nan", "NULL"),
    *("1.234,5", "0x10", "1_000", "120 %", "true", "1e-400", "--1", "1.", ".", "+", "#REF!", "=1+1", "1'000", "−1"),
    *("D\n1", "D\r1", 'a"b', "a,b", "ü", "\ufeff", "\u2028", "\u202e", "🚚", "x" * 3_000, "\\", "'", "\0", "\x1b[31m"),
    *("9999-12-31", "0001-01-01", "0000-00-00", "10000-01-01", "2262-04-12", "1677-09-20", "2024-02-30", "-1-1-1"),
    *("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2024-W10-2", "now"),
    *("9999-12-31T23:59:59", "0001-01-01 00:00", "2024-03-31T02:30", "2024-10-27T02:30", "٢٠٢٤-٠٣-٠١", "20240301"),
    *("2024-03-01T1", "2024-03-01T25:00", "2024-03-01T00:00:00+99:00", "45352", "1709251200", "[]", "{}", "b'1'"),
)
BYTES = (
    *(b"\0", b'"', b"\n", b"\r", b",", b";", b"\t", b"'", b"\x1a", b"\\", b'""', b'","', b"\r\n\r\n", b"  "),
    *(b"\xff", b"\xfc", b"\xc3", b"\xe2\x80", b"\xf0\x9f", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80"),
)
VALUES: tuple[tuple[Any, pa.DataType], ...] = (
    ([1], pa.list_(pa.int64())),
    ({"a": "1"}, pa.struct([("a", pa.string())])),
    ([("a", 1)], pa.map_(pa.string(), pa.int64())),
    (b"\xff\x00", pa.binary()),
    (b"12", pa.binary(2)),
    (1, pa.decimal128(38, 10)),
    (1, pa.decimal256(76, 0)),
    (1, pa.time64("us")),
    (2**62, pa.duration("us")),
    (np.float16(2), pa.float16()),
    (2**64 - 1, pa.uint64()),
    (-(2**63), pa.int64()),
    (True, pa.bool_()),
    (2**31 - 1, pa.date32()),
    (2_932_896, pa.date32()),
    (-719_163, pa.date32()),
    (2**62, pa.timestamp("ms")),
    (253_402_300_799, pa.timestamp("s", "America/New_York")),
    (-62_135_596_800, pa.timestamp("s", "Asia/Tokyo")),
    (2**63 - 1, pa.timestamp("ns", "Asia/Tokyo")),
    (19_000, pa.timestamp("us", "No/Where")),
    ([2**62], pa.list_(pa.timestamp("us"))),
    (None, pa.null()),
    ("x", pa.string_view()),
    ("x", pa.dictionary(pa.int32(), pa.string())),
    (float("-inf"), pa.float64()),
)


class Hang(BaseException):
    """Raised on a timeout; no code can mistake it for an error of a source."""


@contextmanager
def an_end(seconds: int = 120) -> Iterator[None]:
    """Raise Hang if the block takes longer than `seconds`."""

    def stop(*_: object) -> None:
        raise Hang(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def rows(count: int = 12) -> list[list[str]]:
    """Return readings of a depot that break no rule, in the order of NAMES."""
    days = [date(2024, 2, 1) + timedelta(number) for number in range(count)]
    return [["A", day.isoformat(), str(100 + day.day), f"{day + timedelta(1)}T13:00:00Z"] for day in days]


def spec_of(folder: Path, zone: str = "UTC", text: str = PIPELINE) -> Spec:
    (folder / "pipeline.yaml").write_text(text.replace("ZONE", zone), "utf-8")
    return load(folder / "pipeline.yaml")


def as_csv(lines: Sequence[Sequence[str]], **form: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=form.pop("lineterminator", "\n"), **form).writerows(lines)
    return text.getvalue()


def mutated_csv(random: np.random.Generator, header: Sequence[str], **form: Any) -> bytes:
    """Return a file of twelve rows with one to three odd cells, moved, cut or joined lines, and up
    to two odd bytes."""
    width = len(header)
    lines = [list(row[:width]) + [""] * (width - 4) for row in rows()]
    for _ in range(random.integers(1, 4)):
        row, column = random.integers(len(lines)), random.integers(width)
        match random.integers(5):
            case 0 | 1:
                lines[row][min(column, len(lines[row]) - 1)] = CELLS[random.integers(len(CELLS))]
            case 2:
                lines[row] = lines[row][1:] + lines[row][:1]
            case 3:
                lines[row] = lines[row][: column + 1]
            case 4:
                lines[row] = [*lines[row], "more"]
    content = bytearray(as_csv([header, *lines], **form).encode())
    for _ in range(random.integers(0, 3)):
        place = int(random.integers(len(as_csv([header], **form)), len(content)))
        content[place : place + int(random.integers(2))] = BYTES[random.integers(len(BYTES))]
    return bytes(content)


def attempt(work: Callable[[], Any], *, others: bool = False) -> tuple[Any, str]:
    """Return the result, or the message of our error; other errors are raised, unless `others`."""
    try:
        return work(), ""
    except Exception as error:
        if not (others or isinstance(error, ForecasterError)):
            raise
        return None, str(error) or type(error).__name__
