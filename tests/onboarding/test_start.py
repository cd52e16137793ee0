from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import CsvSource, Spec, load
from forecaster.errors import SpecError
from forecaster.onboarding import start
from tests.onboarding import made_up_files

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LAST = date(2026, 3, 1)


def made(folder: Path, *files: Path, country: str | None = None) -> tuple[start.Start, Spec, str]:
    outcome = start.create(files, folder, country=country, ask=None, now=NOW)
    file = folder / start.PIPELINE
    return outcome, load(file), file.read_text("utf-8")


def test_a_long_file_is_written_down_as_it_is(tmp_path: Path) -> None:
    outcome, spec, text = made(tmp_path / "fleet", made_up_files.long_csv(tmp_path, LAST), country="de")
    source = spec.demand.source
    assert isinstance(source, CsvSource)
    assert (source.path, source.delimiter, source.encoding) == ("../bestellungen.csv", ";", "cp1252")
    assert (source.thousands, source.decimal, source.date_format) == (None, ",", "%d.%m.%Y")
    columns = spec.demand.columns
    assert (columns.depot_id, columns.date, columns.demand) == ("Filiale", "Datum", "Anzahl Aufträge")
    assert (spec.timezone, spec.calendar.country, spec.demand.recorded) == ("Europe/Berlin", "DE", "arrival")
    assert outcome.fault is None
    assert "the form that reads the days" in text
    assert "seen      3 depots, 180 days, 2025-09-03 to 2026-03-01, 540 readings" in outcome.lines


def test_without_a_country_the_file_has_a_line_for_it(tmp_path: Path) -> None:
    outcome, spec, text = made(tmp_path / "fleet", made_up_files.long_csv(tmp_path, LAST))
    assert spec.calendar.country is None
    assert "  # country: DE" in text
    assert any(line.startswith("country   not known") for line in outcome.lines)


def test_an_archive_is_worked_as_of_the_day_after_it(tmp_path: Path) -> None:
    outcome, spec, _ = made(tmp_path / "fleet", made_up_files.archive(tmp_path, LAST))
    assert spec.demand.recorded == "next_day"
    assert any("--as-of 2025-03-02" in line for line in outcome.lines)
    assert outcome.fault is None


def test_parts_of_a_day_are_summed(tmp_path: Path) -> None:
    _, spec, _ = made(tmp_path / "fleet", made_up_files.hourly_parquet(tmp_path, LAST))
    assert spec.demand.aggregate == "sum"


def test_a_file_of_one_series_needs_no_depot(tmp_path: Path) -> None:
    days = [LAST - timedelta(days=back) for back in range(60, -1, -1)]
    file = tmp_path / "shop.csv"
    file.write_text("date,sales\n" + "".join(f"{day},{200 + 9 * day.weekday()}\n" for day in days), "utf-8")
    outcome, spec, _ = made(tmp_path / "fleet", file)
    assert spec.demand.source.wide == "depots"
    assert outcome.fault is None


def test_parts_of_one_form_are_read_by_a_pattern_and_a_file_of_depots_describes_them(tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    rows = made_up_files.readings(LAST)
    for year, part in rows.groupby(rows["day"].map(lambda day: day.year)):
        part.to_csv(folder / f"{year}.csv", index=False)
    (tmp_path / "depots.csv").write_text("depot,city\n" + "".join(f"{name},{name}\n" for name in made_up_files.DEPOTS))
    files = [*sorted(folder.glob("*.csv")), tmp_path / "depots.csv"]
    outcome, spec, _ = made(tmp_path / "fleet", *files)
    assert isinstance(spec.demand.source, CsvSource)
    assert spec.demand.source.path == "../exports/202*.csv"
    assert spec.depots is not None
    assert spec.depots.static == ("city",)
    assert outcome.fault is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,colour\na,red\nb,blue\n", "no column of days; looked at the columns 'name', 'colour'"),
        ("site,day,colour\na,2026-01-01,red\na,2026-01-02,blue\n", "no column of counts"),
        ("a,2026-01-01,5\na,2026-01-02,6\na,2026-01-03,7\n", "no header"),
        ("", "the file is empty"),
        ("word\nword\n", "found one column"),
    ],
)
def test_what_cannot_be_guessed_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "odd.csv"
    file.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=message):
        made(tmp_path / "fleet", file)
    assert not (tmp_path / "fleet").exists()


def test_a_file_that_is_not_usable_is_written_and_told(tmp_path: Path) -> None:
    file = tmp_path / "monthly.csv"
    rows = "".join(f"A,{year}-{month:02d}-01,{100 + month}\n" for year in (2023, 2024, 2025) for month in range(1, 13))
    file.write_text(f"site,month,orders\n{rows}", "utf-8")
    outcome, _, text = made(tmp_path / "fleet", file)
    assert any(line.startswith("check     ") for line in outcome.lines)
    assert "daily counts are wanted" in text


def test_a_pipeline_file_is_never_overwritten(tmp_path: Path) -> None:
    file = made_up_files.archive(tmp_path, LAST)
    made(tmp_path / "fleet", file)
    with pytest.raises(SpecError, match="exists"):
        made(tmp_path / "fleet", file)


def test_a_country_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"found 'Germony', wanted its two letters, .*; did you mean 'DE'\?"):
        made(tmp_path / "fleet", made_up_files.archive(tmp_path, LAST), country="Germony")


def test_a_site_called_as_depots_are_is_no_column_that_names_the_depot(tmp_path: Path) -> None:
    """`Málaga Centro` has a row a day and another number on each: its column holds counts."""
    first = date(2026, 1, 1)
    rows = [
        f"{first + timedelta(day):%d/%m/%Y};1.{200 + day * 37 % 90};{800 + day * 29 % 120};1.{500 + day * 13 % 400}"
        for day in range(200)
    ]
    file = tmp_path / "ventas.csv"
    file.write_text("\n".join(["Fecha;Málaga Centro;Sevilla;Lager Nord", *rows]) + "\n", "utf-8")
    _, spec, _ = made(tmp_path / "new", file, country="ES")
    assert isinstance(spec.demand.source, CsvSource)
    assert (spec.demand.source.wide, spec.demand.columns.date) == ("depots", "Fecha")


def test_another_form_that_reads_the_days_is_named(tmp_path: Path) -> None:
    rows = [f"{site},{day:02d}/02/2026,{90 + day}" for day in range(1, 13) for site in ("A", "B")]
    (tmp_path / "counts.csv").write_text("site,day,orders\n" + "\n".join(rows) + "\n", "utf-8")
    outcome, spec, text = made(tmp_path / "fleet", tmp_path / "counts.csv", country="DE")
    assert isinstance(spec.demand.source, CsvSource)
    assert spec.demand.source.date_format == "%d/%m/%Y"
    assert "the form that reads the days; '%m/%d/%Y' would read them too" in text
    assert "note      days are read as '%d/%m/%Y', and '%m/%d/%Y' would read them all as well" in outcome.lines
