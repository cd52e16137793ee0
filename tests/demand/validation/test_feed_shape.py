from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.core.arrays import Floats
from forecaster.core.language import use_language
from forecaster.core.language.sentences import retold, stored
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.validation import network_shape
from forecaster.errors import SpecError

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
FIRST, DAYS = date(2024, 1, 1), 60
COUNTS = {"A": 90, "B": 1400, "C": 2300}


def spec_of(folder: Path, source: str = "", demand: str = "") -> Spec:
    text = (
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv{source}}}{demand}}}\ncalendar: {{holidays: false}}"
    )
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def result_of(folder: Path, *rows: str, source: str = "", demand: str = "") -> IngestResult:
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    return ingest(spec_of(folder, source, demand), now=NOW)


def depot_days() -> Iterator[tuple[str, date, int]]:
    for day in range(DAYS):
        for depot, level in COUNTS.items():
            yield depot, FIRST + timedelta(day), level + 7 * (day % 7) + 3 * (day % 5)


def stopped_for(result: IngestResult, rule: str) -> str:
    assert result.stopped is not None
    assert result.stopped.startswith(f"{rule}: ")
    assert result.accepted == 0
    return result.stopped


@pytest.mark.parametrize(("city", "encoding"), [("Köln", "cp1252"), ("Łódź", "cp1250"), ("Тула", "cp1251")])
def test_bytes_of_another_encoding_stop_the_batch_and_name_the_correct_one(
    tmp_path: Path, city: str, encoding: str
) -> None:
    rows = [f"{city} {depot}".replace(f"{city} A", "A") + f",{day},{count}" for depot, day, count in depot_days()]
    (tmp_path / "demand.csv").write_bytes("\n".join(["depot_id,date,demand", *rows, ""]).encode(encoding))
    message = stopped_for(ingest(spec_of(tmp_path), now=NOW), "unreadable")
    assert f"found {2 * DAYS} of {3 * DAYS} rows that cannot be read (row_form {2 * DAYS})" in message
    assert f"; demand.source.encoding: {encoding} would read all of them; wanted" in message
    assert ingest(spec_of(tmp_path, f", encoding: {encoding}"), now=NOW).accepted == 3 * DAYS


def test_letter_in_another_encoding_quarantines_its_row(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{count}" for depot, day, count in depot_days()]
    content = "\n".join(["depot_id,date,demand", *rows, "Köln,2024-01-01,7", ""]).encode("cp1252")
    (tmp_path / "demand.csv").write_bytes(content)
    result = ingest(spec_of(tmp_path), now=NOW)
    assert (result.accepted, result.quarantined) == (3 * DAYS, 1)
    sentence = (
        r"found a byte that is not utf-8 text, as in 'K\xf6ln'; wanted the `encoding`, as in cp1252, of its source"
    )
    message = result.findings[0].message
    assert sentence in message
    with use_language("de"):
        assert "gefunden ein Byte, das kein Text in utf-8 ist, wie in „K" in retold(stored(message), message)


@pytest.mark.parametrize(
    ("written", "declared", "wanted"),
    [
        ("%d/%m/%Y", "%m/%d/%Y", "'%d/%m/%Y' would read all of them"),
        ("%m/%d/%Y", "%d/%m/%Y", "'%m/%d/%Y' would read all of them"),
        ("%d.%m.%Y", "%m.%d.%Y", "'%d.%m.%Y' would read all of them"),
        ("%m-%d-%y", "%d-%m-%y", "'%m-%d-%y' would read all of them"),
        ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "'%d/%m/%Y %H:%M' would read all of them"),
    ],
)
def test_days_in_another_order_stop_the_batch_and_name_the_correct_order(
    tmp_path: Path, written: str, declared: str, wanted: str
) -> None:
    rows = [f"{depot},{day:{written}},{count}" for depot, day, count in depot_days()]
    result = result_of(tmp_path, *rows, source=f', date_format: "{declared}"')
    assert f"demand.source.date_format: {wanted}" in stopped_for(result, "unreadable")


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("{:,}", 'demand.source.thousands: ","'),
        ("{:,}.0", 'demand.source.thousands: ","'),
        ("{:_}", 'demand.source.thousands: " "'),
        ("{},50", 'demand.source.decimal: ","'),
    ],
)
def test_numbers_in_another_notation_stop_the_batch_and_name_its_separators(
    tmp_path: Path, written: str, wanted: str
) -> None:
    rows = [f'{depot},{day},"{written.format(count).replace("_", " ")}"' for depot, day, count in depot_days()]
    assert f"{wanted} would read all of them" in stopped_for(result_of(tmp_path, *rows), "unreadable")


def test_depot_without_a_readable_row_stops_the_batch(tmp_path: Path) -> None:
    rows = [f"{depot}{n},{day},{count}" for depot, day, count in depot_days() for n in range(9) if depot == "A"]
    large = [f'B,{day},"{count:,}"' for depot, day, count in depot_days() if depot == "B"]
    assert "and none of depot B;" in stopped_for(result_of(tmp_path, *rows, *large), "unreadable")


def test_tolerates_a_tenth_of_unreadable_rows(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{count}" for depot, day, count in depot_days()]
    rows[::10] = [row + "x" for row in rows[::10]]
    result = result_of(tmp_path, *rows)
    assert (result.stopped, result.quarantined) == (None, 18)
    assert result_of(tmp_path, *rows, demand=", rules: {unreadable_share: 0.05}").stopped is not None


def test_rejects_an_invalid_share(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unreadable_share"):
        spec_of(tmp_path, demand=", rules: {unreadable_share: 2}")


@pytest.mark.parametrize(
    "times", [(" 00:00", " 08:00", " 16:00"), ("", "", "")], ids=["with times of day", "without them"]
)
def test_parts_of_a_day_without_aggregation_stop_the_batch(tmp_path: Path, times: tuple[str, ...]) -> None:
    shares = [0.0, 0.7, 0.3]
    rows = [
        f"{depot},{day}{time},{round(count * share)}"
        for depot, day, count in depot_days()
        for time, share in zip(times, shares, strict=True)
    ]
    result = result_of(tmp_path, *rows)
    assert "found 3 rows with counts from 0 to 63, and several rows on 180 of 180" in stopped_for(
        result, "several_rows"
    )
    assert "demand.aggregate: sum" in str(result.stopped)
    assert result_of(tmp_path, *rows, demand=", aggregate: sum").stopped is None


def test_parts_listed_channel_by_channel_are_parts_as_well(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{round(count * share)}" for share in (0.6, 0.4) for depot, day, count in depot_days()]
    stopped_for(result_of(tmp_path, *rows), "several_rows")


def test_adjacent_halves_of_every_day_are_parts_as_well(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{count + part}" for depot, day, count in depot_days() for part in (0, 4)]
    stopped_for(result_of(tmp_path, *rows), "several_rows")


def test_one_depot_with_days_in_parts_is_enough(tmp_path: Path) -> None:
    rows = [
        f"{depot},{day},{count * part // 3}"
        for depot, day, count in depot_days()
        for part in ((1, 2) if depot == "B" else (3,))
    ]
    message = stopped_for(result_of(tmp_path, *rows), "several_rows")
    assert "depot B on 2024-01-01: found 2 rows with counts from 466 to 933, and several rows on 60 of 60" in message


def test_equal_parts_are_recognized_by_their_times_of_day(tmp_path: Path) -> None:
    rows = [f"{depot},{day} {hour:02}:00,{count}" for depot, day, count in depot_days() for hour in (9, 15)]
    stopped_for(result_of(tmp_path, *rows), "several_rows")


@pytest.mark.parametrize("kind", ["copies", "corrections", "few corrections", "exports that overlap"])
def test_copies_corrections_and_overlapping_exports_are_not_parts(tmp_path: Path, kind: str) -> None:
    rows = [f"{depot},{day},{count}" for depot, day, count in depot_days()]
    corrected = [f"{depot},{day},{count + 2}" for depot, day, count in depot_days()]
    preliminary = [f"{depot},{day},{count // 2}" for depot, day, count in depot_days()]
    given, rules = {
        "copies": ([*rows, *rows], {"duplicate_row"}),
        "corrections": ([*rows, *corrected], {"superseded"}),
        "few corrections": ([*preliminary[:60], *rows], {"superseded"}),
        "exports that overlap": ([*preliminary, *rows, *rows], {"duplicate_row", "superseded"}),
    }[kind]
    result = result_of(tmp_path, *given)
    assert ({finding.rule for finding in result.findings}, result.accepted) == (rules, len(rows))


def test_versions_with_their_own_instants_are_not_parts(tmp_path: Path) -> None:
    rows = [
        f"{depot},{day},{count * (2 + n) // 3},{day + timedelta(1 + n)}T05:00:00+00:00"
        for depot, day, count in list(depot_days())[:120]
        for n in range(2)
    ]
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand,at", *rows]) + "\n", "utf-8")
    result = ingest(spec_of(tmp_path, demand=", columns: {recorded_at: at}"), now=NOW)
    assert (result.stopped, result.accepted) == (None, 240)


def test_numbers_that_all_look_like_thousands_stop_the_batch(tmp_path: Path) -> None:
    rows = [
        f"{depot},{day},{count:,}".replace(f"{count:,}", f"{count:,}".replace(",", "."))
        for depot, day, count in depot_days()
    ]
    message = stopped_for(result_of(tmp_path, *rows), "decimals")
    assert "found three decimals in all 120 counts with a point, as in '1.400'" in message
    assert 'wanted demand.source.thousands: "." and decimal: ","' in message
    assert result_of(tmp_path, *rows, source=', thousands: ".", decimal: ","').stopped is None


def test_one_count_with_fewer_decimals_does_not_hide_thousands(tmp_path: Path) -> None:
    rows = [
        f"{depot},{day},{count:,}".replace(f"{count:,}", f"{count:,}".replace(",", "."))
        for depot, day, count in depot_days()
    ]
    message = stopped_for(result_of(tmp_path, *rows, "D,2024-02-29,112.5"), "decimals")
    assert "found three decimals in 120 of 121 counts with decimals, as in '1.400'" in message


@pytest.mark.parametrize(("end", "is_told"), [("", True), (",5", False)])
def test_reports_a_declared_decimal_comma_that_can_be_a_thousands_separator(
    tmp_path: Path, end: str, is_told: bool
) -> None:
    rows = [f'{depot},{day},"{count if end else format(count, ",")}{end}"' for depot, day, count in depot_days()]
    result = result_of(tmp_path, *rows, source=', decimal: ","')
    messages = [finding.message for finding in result.findings if finding.rule == "decimals"]
    assert (result.stopped, len(messages)) == (None, is_told)
    for message in messages:
        assert "in 120 of 120 counts with decimals, as in '1,400'; wanted demand.source.thousands: \",\"" in message


@pytest.mark.parametrize("form", ["{}.5", "0.{}", "{}.250"])
def test_decimals_are_not_thousands(tmp_path: Path, form: str) -> None:
    rows = [f"{depot},{day},{form.format(100 + count % 900)}" for depot, day, count in depot_days()]
    rows += ["D,2024-02-29,1234.567"]
    assert result_of(tmp_path, *rows).stopped is None


def test_declared_decimals_are_trusted(tmp_path: Path) -> None:
    rows = [f"{depot},{day},12.{100 + count % 900}" for depot, day, count in depot_days()]
    assert result_of(tmp_path, *rows, source=', decimal: "."').stopped is None


@pytest.mark.parametrize(
    ("days", "wanted"),
    [
        ([7 * week for week in range(8)], "every 7 days"),
        ([14 * week for week in range(5)], "every 14 days"),
        ([0, 31, 60, 91, 121], "once a month"),
    ],
)
def test_counts_of_weeks_and_months_stop_the_batch(tmp_path: Path, days: list[int], wanted: str) -> None:
    first = date(2023, 10, 2)
    rows = [f"{depot},{first + timedelta(day)},{level + day}" for day in days for depot, level in COUNTS.items()]
    assert f"found readings {wanted} of 3 depots" in stopped_for(result_of(tmp_path, *rows), "cadence")


@pytest.mark.parametrize("steps", [[1, 6], [3, 4], [2, 9, 5, 12]], ids=str)
def test_days_without_a_weekly_rhythm_are_daily_counts(tmp_path: Path, steps: list[int]) -> None:
    day, rows = date(2023, 10, 2), []
    for n in range(16):
        rows += [f"{depot},{day},{level + n}" for depot, level in COUNTS.items()]
        day += timedelta(steps[n % len(steps)])
    assert result_of(tmp_path, *rows).stopped is None


def test_depot_that_is_the_sum_of_the_others_is_named(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{count}" for depot, day, count in depot_days()]
    sums = [
        f"ALL,{FIRST + timedelta(n)},{sum(int(row.split(',')[2]) for row in rows[3 * n : 3 * n + 3])}"
        for n in range(DAYS)
    ]
    (finding,) = result_of(tmp_path, *rows, *sums).findings
    assert (finding.rule, finding.severity) == ("total_row", "warn")
    assert finding.message.startswith(
        "depot ALL: found the sum of other depots on each of 60 days, wanted each count once"
    )


def daily_counts(depots: int, days: int = 120) -> Floats:
    return np.random.default_rng(5).poisson(100, (depots, days)).astype(np.float32)


def test_subtotals_without_a_total_are_sums_of_other_depots() -> None:
    counts = daily_counts(5)
    sums = np.stack([counts[:2].sum(axis=0), counts[2:4].sum(axis=0)])
    assert network_shape.totals(np.concatenate([sums, counts])) == {0: 120, 1: 120}
    total = np.concatenate([sums, counts, counts.sum(axis=0)[None]])
    assert network_shape.totals(total) == {0: 120, 1: 120, 7: 120}
    counts[0, 30:40] = np.nan  # days with an unknown part are ignored
    assert network_shape.totals(np.concatenate([sums, counts])) == {0: 110, 1: 110}


def test_twins_averages_and_networks_larger_than_their_history_have_no_subtotals() -> None:
    counts = daily_counts(5)
    assert network_shape.totals(np.concatenate([counts, counts[:1], counts[:2].mean(axis=0)[None]])) == {}
    many = daily_counts(109)
    assert network_shape.totals(np.concatenate([many[:2].sum(axis=0)[None], many])) == {}


def test_repeated_count_far_above_all_others_is_a_sentinel(tmp_path: Path) -> None:
    rows = [
        f"{depot},{day},{9999 if depot == 'A' and day.day in (3, 4) else count}" for depot, day, count in depot_days()
    ]
    result = result_of(tmp_path, *rows)
    assert [(f.rule, f.severity, f.count) for f in result.findings] == [("sentinel", "quarantine", 4)]
    assert (result.accepted, result.quarantined) == (176, 4)


def test_accepts_a_busy_day_that_recurs(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{5 * count if day.day in (3, 4) else count}" for depot, day, count in depot_days()]
    assert "sentinel" not in {finding.rule for finding in result_of(tmp_path, *rows).findings}


@pytest.mark.parametrize("first", [[], [3, 5, 4]])
def test_value_of_most_days_is_a_flat_line_and_not_a_sentinel(tmp_path: Path, first: list[int]) -> None:
    counts = [*first, *[120] * (DAYS - len(first))]
    rows = [f"{depot},{day},{count}" for depot, day, count in depot_days()]
    rows += [f"Alder,{FIRST + timedelta(day)},{count}" for day, count in enumerate(counts)]
    result = result_of(tmp_path, *rows)
    assert result.quarantined == 0
    assert "depot Alder: found 120 on each of" in {f.rule: f.message for f in result.findings}["flat_line"]


@pytest.mark.parametrize("kind", ["parquet", "sql"])
def test_text_of_any_source_that_looks_like_thousands_stops_the_batch(tmp_path: Path, kind: str) -> None:
    rows = [(depot, str(day), f"{count:,}".replace(",", ".")) for depot, day, count in depot_days()]
    frame = pd.DataFrame(rows, columns=["depot_id", "date", "demand"])
    if kind == "parquet":
        frame.to_parquet(tmp_path / "demand.parquet")
    else:
        with closing(sqlite3.connect(tmp_path / "demand.db")) as connection:
            connection.execute("create table t (depot_id text, date text, demand text)")
            connection.executemany("insert into t values (?, ?, ?)", rows)
            connection.commit()
    where = "path: demand.parquet" if kind == "parquet" else f"url: 'sqlite:///{tmp_path}/demand.db', table: t"
    text = f"name: t\ndemand: {{source: {{kind: {kind}, {where}}}}}\ncalendar: {{holidays: false}}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    message = stopped_for(ingest(load(tmp_path / "pipeline.yaml"), now=NOW), "decimals")
    assert f"as in '1.400'; wanted numbers instead of text from a source of kind {kind}" in message
    assert "{decimals: warn}" in message


def test_typed_numbers_with_three_decimals_are_used_unchanged(tmp_path: Path) -> None:
    rows = [(depot, str(day), 1 + count / 1000) for depot, day, count in depot_days()]
    pd.DataFrame(rows, columns=["depot_id", "date", "demand"]).to_parquet(tmp_path / "demand.parquet")
    text = "name: t\ndemand: {source: {kind: parquet, path: demand.parquet}}\ncalendar: {holidays: false}\n"
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    assert ingest(load(tmp_path / "pipeline.yaml"), now=NOW).stopped is None


def test_reports_days_written_in_two_forms(tmp_path: Path) -> None:
    rows = [f"{depot},{day if day.month == 1 else f'{day:%d.%m.%Y}'},{count}" for depot, day, count in depot_days()]
    message = stopped_for(result_of(tmp_path, *rows), "unreadable")
    assert "; '%d.%m.%Y' would read all of them, but none of the days that are read now: the days have two" in message


def test_depots_that_always_have_equal_counts_are_not_totals(tmp_path: Path) -> None:
    rows = [f"{depot},{FIRST + timedelta(day)},{50 + day % 7}" for day in range(DAYS) for depot in "ABC"]
    assert "total_row" not in {finding.rule for finding in result_of(tmp_path, *rows).findings}
