"""An unreadable batch is stopped with a setting that reads it, or with a description of the
problem."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.config import load
from forecaster.core.language import use_language
from forecaster.core.language.sentences import retold, stored
from forecaster.demand.ingest import IngestResult, ingest

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
DAYS = [date(2024, 1, 1) + timedelta(day) for day in range(60)]


def result_of(folder: Path, content: str, keys: str = "") -> IngestResult:
    (folder / "demand.csv").write_text(content, "utf-8")
    source = f"{{kind: csv, path: demand.csv{keys}}}"
    text = f"name: t\ntimezone: America/New_York\nstate: {folder}/{len(keys)}\ndemand: {{source: {source}}}\n"
    (folder / "pipeline.yaml").write_text(text + "calendar: {holidays: false}\n", "utf-8")
    return ingest(load(folder / "pipeline.yaml"), now=NOW)


def long(days: list[str], counts: list[str] | None = None) -> str:
    counts = counts or [f"{90 + place % 7}" for place in range(len(days))]
    rows = [f'A,"{day}","{count}"' for day, count in zip(days, counts, strict=True)]
    return "\n".join(["depot_id,date,demand", *rows]) + "\n"


def serial(day: date) -> int:
    return (day - date(1899, 12, 30)).days


def noon(day: date) -> int:
    """Seconds from 1970 to noon of that day in New York."""
    return int(datetime(day.year, day.month, day.day, 17, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("days", "form"),
    [
        ([f"{serial(day)}" for day in DAYS], "excel"),
        ([f"{serial(day)}.75" for day in DAYS], "excel"),
        ([f"{noon(day)}" for day in DAYS], "unix"),
        ([f"{noon(day)}000" for day in DAYS], "unix_ms"),
        ([f"{day:%Y%m%d}" for day in DAYS], "%Y%m%d"),
        ([f"{day:%d.%m.%y}" for day in DAYS], "%d.%m.%y"),
        ([f"{day:%y/%m/%d}" for day in DAYS], "%y/%m/%d"),
        ([f"{day:%B %d, %Y}" for day in DAYS], "%B %d, %Y"),
        ([f"{day:%m/%d/%Y} 12:00 AM" for day in DAYS], "%m/%d/%Y %I:%M %p"),
    ],
)
def test_the_suggested_form_reads_the_days(tmp_path: Path, days: list[str], form: str) -> None:
    stopped = result_of(tmp_path, long(days)).stopped or ""
    assert f"; demand.source.date_format: '{form}' would read all of them; wanted" in stopped
    result = result_of(tmp_path, long(days), f', date_format: "{form}"')
    assert (result.accepted, result.quarantined, result.stopped) == (60, 0, None)


def test_seconds_are_local_days_and_other_values_are_reported_with_an_example(tmp_path: Path) -> None:
    # midnight in New York, and one second earlier
    rows = long([f"{noon(DAYS[0])}", "1704085200", "1704085199", "soon"])
    result = result_of(tmp_path, rows, ", date_format: unix")
    assert result.accepted + result.quarantined == 4
    messages = [finding.message for finding in result.findings]
    assert any("found 'soon', wanted a date such as 1709596800" in message for message in messages)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ([f"2024-W{week:02}" for week in range(1, 53)], "they look like weeks; wanted a count for each day"),
        ([f"{year}-{month:02}" for year in (2022, 2023) for month in range(1, 13)], "they look like months"),
        ([f"{day:%d.%m.}" for day in DAYS], "they have no year: write days with one, as in 2024-03-05"),
        ([f"{day:%d/%m}/1446" for day in DAYS], "wanted years as in 2024-03-05: they look like years of the Hijri"),
        ([f"{day.day} stycznia 2024" for day in DAYS[:31]], "month names in languages other than English"),
        ([f"{day.day:02}-stycz-24" for day in DAYS[:31]], "month names in languages other than English"),
    ],
)
def test_days_that_no_form_reads_are_reported_with_a_description(tmp_path: Path, days: list[str], words: str) -> None:
    assert f"; {words}" in (result_of(tmp_path, long(days)).stopped or "")


@pytest.mark.parametrize(
    ("form", "marks"),
    [
        ("{} pcs", "'pcs'"),
        ("€{}", "'€'"),
        ("{}€", "'€'"),
        ("{} Stk.", "'Stk.'"),
        ("{}.00%", "'%'"),
        ("USD {}", "'USD'"),
        ("[{}]", "'[' and ']'"),
    ],
)
def test_marks_next_to_numbers_are_named(tmp_path: Path, form: str, marks: str) -> None:
    counts = [f"{90 + place % 7}" for place in range(60)]
    of_all = [count if form[0] != "[" and form[-1] != "%" and place % 2 else form.format(count)
              for place, count in enumerate(counts)]  # fmt: skip
    stopped = result_of(tmp_path, long([f"{day}" for day in DAYS], of_all)).stopped or ""
    assert f"; they have {marks} next to the number: write numbers alone" in stopped
    of_few = [form.format(count) if place % 20 == 3 else count for place, count in enumerate(counts)]
    result = result_of(tmp_path, long([f"{day}" for day in DAYS], of_few), " ")
    assert (result.accepted, result.quarantined, result.stopped) == (57, 3, None)
    (finding,) = result.findings
    assert finding.message.endswith(f"; it has {marks} next to the number: write numbers alone")


@pytest.mark.parametrize("word", ["n/a", "-", "NULL", "None", "NaN", "#N/A", "k. A.", "\u2014"])
def test_null_word_is_reported_with_the_key_that_declares_it(tmp_path: Path, word: str) -> None:
    counts = [word if place % 20 == 3 else f"{90 + place % 7}" for place in range(60)]
    content = long([f"{day}" for day in DAYS], counts)
    (finding,) = result_of(tmp_path, content).findings
    key = f'null_values: ["{word}"]'
    assert finding.message.endswith(f"; if it is a word for nothing, set demand.source.{key}")
    result = result_of(tmp_path, content, f", {key}")
    assert (result.accepted, result.quarantined, result.findings) == (60, 0, ())


def test_thousands_only_in_peaks_are_reported_with_the_key_that_reads_them(tmp_path: Path) -> None:
    counts = ["1'022" if place % 20 == 3 else f"{990 + place % 7}" for place in range(60)]
    content, key = long([f"{day}" for day in DAYS], counts), 'thousands: "\'"'
    (finding,) = result_of(tmp_path, content).findings
    assert finding.message.endswith(f"; if it is more than a thousand, set demand.source.{key}")
    assert result_of(tmp_path, content, f", {key}").accepted == 60


def test_batch_with_null_words_is_stopped_and_all_of_them_are_named(tmp_path: Path) -> None:
    counts = [("n/a", "-", "n/a", "90")[place % 4] for place in range(60)]
    content = long([f"{day}" for day in DAYS], counts)
    key = 'null_values: ["n/a", "-"]'
    assert f"; demand.source.{key} would read all of them as nothing" in (result_of(tmp_path, content).stopped or "")
    assert result_of(tmp_path, content, f", {key}").accepted == 60


def test_word_among_counts_can_mark_a_closed_day(tmp_path: Path) -> None:
    counts = ["soon" if place % 20 == 3 else f"{90 + place % 7}" for place in range(60)]
    (finding,) = result_of(tmp_path, long([f"{day}" for day in DAYS], counts)).findings
    assert "found 'soon', wanted a number, or nothing where the count is not known; if it is a word" in finding.message
    assert finding.message.endswith('set demand.closed_values: ["soon"]')


def test_delimiter_within_values_is_reported(tmp_path: Path) -> None:
    rows = [f"A,{day},90,5" for day in DAYS]
    stopped = result_of(tmp_path, "\n".join(["depot_id,date,demand", *rows])).stopped or ""
    assert "; values seem to hold the delimiter ',', as a decimal comma does: write them in quotes" in stopped


def test_columns_of_a_wide_table_without_readings_are_named(tmp_path: Path) -> None:
    rows = [f"{day},{day:%a},{90 + day.day % 7},{80 + day.day % 5},{70 + day.day % 6}" for day in DAYS]
    content = "\n".join(["date,weekday,A,B,C", *rows])
    stopped = result_of(tmp_path, content, ", wide: depots").stopped or ""
    assert '; demand.source.ignore: ["weekday"] would leave out columns without readings' in stopped
    assert result_of(tmp_path, content, ", wide: depots, ignore: [weekday]").accepted == 180


def test_days_as_text_of_a_parquet_file_are_reported(tmp_path: Path) -> None:
    table = {"depot_id": ["A"] * 60, "date": [f"{day:%d/%m/%Y}" for day in DAYS], "demand": [7] * 60}
    pq.write_table(pa.table(table), tmp_path / "demand.parquet")
    text = f"name: t\nstate: {tmp_path}/var\ndemand: {{source: {{kind: parquet, path: demand.parquet}}}}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    stopped = ingest(load(tmp_path / "pipeline.yaml"), now=NOW).stopped or ""
    assert "; they look like '%d/%m/%Y': make them dates, or text such as 2024-03-05" in stopped


@pytest.mark.parametrize(
    ("content", "german"),
    [
        (long([f"{day:%d.%m.%y}" for day in DAYS]), "lesbar mit demand.source.date_format: '%d.%m.%y': alle davon"),
        (long([f"{day:%d/%m/%Y}" for day in DAYS[:12]]), "lesbar mit demand.source.date_format: '%d/%m/%Y' oder '%m"),
        (long([f"{day}" for day in DAYS], ["[7]"] * 60), "neben der Zahl steht '[' und ']': nur Zahlen schreiben"),
        (long([f"{day}" for day in DAYS], ["soon", *["n/a"] * 59]), 'null_values: ["n/a"]: 98% davon'),
        ("depot_id,date,demand\n" + "A,2024-01-01,90,5\n" * 60, "Werte enthalten wohl das Trennzeichen ',', wie ein"),
        ("depot_id,date,demand\n" + "A,2024-01-01\n" * 60, "gefunden Felder: 2, verlangt: 3 wie in der Kopfzeile"),
    ],
)
def test_hints_and_errors_are_reported_in_the_language_of_the_reader(tmp_path: Path, content: str, german: str) -> None:
    result = result_of(tmp_path, content)
    with use_language("de"):
        assert german in " ".join(retold(stored(finding.message), finding.message) for finding in result.findings)


def test_thousands_only_on_the_highest_counts_stop_the_batch(tmp_path: Path) -> None:
    counts = ["1,020" if place % 12 == 3 else f"{900 + place}" for place in range(60)]
    stopped = result_of(tmp_path, long([f"{day}" for day in DAYS], counts)).stopped or ""
    assert 'all at one end of the counts of depot A; demand.source.thousands: "," would read all of them' in stopped
    among = [f"1,{place:03}" if place % 12 == 3 else f"{1100 - place * 3}" for place in range(60)]
    assert result_of(tmp_path, long([f"{day}" for day in DAYS], among), " ").stopped is None
