from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import CsvSource, Spec, load
from forecaster.config.demand import Excluded
from forecaster.errors import SpecError
from forecaster.onboarding import start
from forecaster.onboarding.description.questions import OpenQuestions, TableAnswers
from tests.onboarding import made_up_files

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LAST = date(2026, 3, 1)


def made(folder: Path, *files: Path, country: str | None = None) -> tuple[start.Start, Spec, str]:
    outcome = start.create(files, folder, country=country, ask=None, now=NOW)
    file = folder / start.PIPELINE
    return outcome, load(file), file.read_text("utf-8")


def test_long_file_is_described_in_the_pipeline_file(tmp_path: Path) -> None:
    outcome, spec, text = made(tmp_path / "fleet", made_up_files.long_csv(tmp_path, LAST), country="de")
    source = spec.demand.source
    assert isinstance(source, CsvSource)
    assert (source.path, source.delimiter, source.encoding) == ("../bestellungen.csv", ";", "cp1252")
    assert (source.thousands, source.decimal, source.date_format) == (None, ",", "%d.%m.%Y")
    columns = spec.demand.columns
    assert (columns.depot_id, columns.date, columns.demand) == ("Filiale", "Datum", "Anzahl Aufträge")
    assert (spec.timezone, spec.calendar.country, spec.demand.recorded) == ("Europe/Berlin", "DE", "arrival")
    assert outcome.fault is None
    assert "the format of the dates" in text
    assert "seen      3 depots, 180 days, 2025-09-03 to 2026-03-01, 540 readings" in outcome.lines


def test_pipeline_file_without_a_country_has_a_commented_line(tmp_path: Path) -> None:
    outcome, spec, text = made(tmp_path / "fleet", made_up_files.long_csv(tmp_path, LAST))
    assert spec.calendar.country is None
    assert "  # country: DE" in text
    assert any(line.startswith("country   unknown") for line in outcome.lines)


def test_archive_is_checked_as_of_the_day_after_its_end(tmp_path: Path) -> None:
    outcome, spec, _ = made(tmp_path / "fleet", made_up_files.archive(tmp_path, LAST))
    assert spec.demand.recorded == "next_day"
    assert any("--as-of 2025-03-02" in line for line in outcome.lines)
    assert outcome.fault is None


def test_parts_of_a_day_are_summed(tmp_path: Path) -> None:
    _, spec, _ = made(tmp_path / "fleet", made_up_files.hourly_parquet(tmp_path, LAST))
    assert spec.demand.aggregate == "sum"


def test_file_with_one_series_needs_no_depot(tmp_path: Path) -> None:
    days = [LAST - timedelta(days=back) for back in range(60, -1, -1)]
    file = tmp_path / "shop.csv"
    file.write_text("date,sales\n" + "".join(f"{day},{200 + 9 * day.weekday()}\n" for day in days), "utf-8")
    outcome, spec, _ = made(tmp_path / "fleet", file)
    assert (spec.demand.depot, spec.demand.columns.demand) == ("shop", "sales")
    assert outcome.fault is None


def test_files_of_one_form_are_read_by_a_glob_with_a_file_of_depots(tmp_path: Path) -> None:
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
        ("name,colour\na,red\nb,blue\n", "no date column; searched columns 'name', 'colour'"),
        ("site,day,colour\na,2026-01-01,red\na,2026-01-02,blue\n", "no count column"),
        ("a,2026-01-01,5\na,2026-01-02,6\na,2026-01-03,7\n", "no header"),
        ("", "the file is empty"),
        ("word\nword\n", "found one column"),
    ],
)
def test_unguessable_files_raise_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "odd.csv"
    file.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=message):
        made(tmp_path / "fleet", file)
    assert not (tmp_path / "fleet").exists()


def test_unusable_file_is_written_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "monthly.csv"
    rows = "".join(f"A,{year}-{month:02d}-01,{100 + month}\n" for year in (2023, 2024, 2025) for month in range(1, 13))
    file.write_text(f"site,month,orders\n{rows}", "utf-8")
    outcome, _, text = made(tmp_path / "fleet", file)
    assert any(line.startswith("check     not usable: the batch was stopped: cadence") for line in outcome.lines)
    assert [line.split()[1] for line in outcome.lines[outcome.lines.index("Next:") + 1 :]] == ["check"]
    assert "wanted daily counts" in text


def test_shows_suspicions_of_the_contract(tmp_path: Path) -> None:
    rows = [
        f"{site},{day},{count}"
        for day in two_months()
        for site, count in (
            ("A", 20 + day.day),
            ("B", 50 + day.day % 3),
            ("C", 900 if day == LAST else 70 + day.day % 5),
        )
    ]
    outcome, _, _ = made(tmp_path / "fleet", a_file(tmp_path, "spike.csv", "site,day,n", rows))
    place = outcome.lines.index("check     usable")
    assert outcome.lines[place + 1] == "suspect   spike 1"
    assert outcome.lines[place + 2].startswith("finding   spike (quarantine, 1): spike.csv:181: depot C on 2026-03-01")


def test_rows_of_a_site_that_is_the_sum_of_the_others_do_not_count(tmp_path: Path) -> None:
    rows = [
        f"{site},{day},{count}"
        for day in two_months()
        for site, count in (("A", 20 + day.day), ("B", 50 + day.day % 3), ("All sites", 70 + day.day + day.day % 3))
    ]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "total.csv", "site,day,n", rows))
    excluded = spec.demand.where["site"]
    assert isinstance(excluded, Excluded)
    assert excluded.values == ("All sites",)


def test_pipeline_file_is_never_overwritten(tmp_path: Path) -> None:
    file = made_up_files.archive(tmp_path, LAST)
    made(tmp_path / "fleet", file)
    with pytest.raises(SpecError, match="exists"):
        made(tmp_path / "fleet", file)


def test_rejects_an_unknown_country(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"found 'Germony'; wanted a two-letter code, .*; did you mean 'DE'\?"):
        made(tmp_path / "fleet", made_up_files.archive(tmp_path, LAST), country="Germony")


def test_column_of_counts_named_like_a_depot_is_not_the_depot_column(tmp_path: Path) -> None:
    """`Málaga Centro` has one row per day with varying numbers: its column holds counts."""
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


def a_file(folder: Path, name: str, header: str, rows: list[str]) -> Path:
    file = folder / name
    file.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return file


def two_months() -> list[date]:
    return [LAST - timedelta(days=back) for back in range(59, -1, -1)]


@pytest.mark.parametrize(
    ("column", "first"), [("Receipt", 70_001), ("order", 1), ("Beleg", 30_000), ("customer", 50_000), ("#", 1)]
)
def test_unique_order_number_is_not_a_count(tmp_path: Path, column: str, first: int) -> None:
    """One row per order; twelve per shop and day."""
    places = [(day, shop) for day in two_months() for shop in ("Marina", "Creek") for _ in range(12)]
    rows = [f"{first + 7919 * place % len(places)},{shop},{day} 10:00" for place, (day, shop) in enumerate(places)]
    outcome, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "orders.csv", f"{column},Branch,Time", rows))
    assert (spec.demand.aggregate, spec.demand.columns.depot_id) == ("count", "Branch")
    assert outcome.fault is None
    assert any("each row is one order" in line for line in outcome.lines)


@pytest.mark.parametrize("column", ["passengers", "Anzahl Kunden", "total visitors"])
def test_large_hourly_counts_are_counts_although_few_are_equal(tmp_path: Path, column: str) -> None:
    rows = [
        f"S{site},{day} {hour:02}:00,{4000 + (day.day * 331 + hour * 977 + site * 53) % 5000}"
        for day in two_months()
        for hour in range(0, 24, 6)
        for site in range(2)
    ]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "hours.csv", f"site,time,{column}", rows))
    assert (spec.demand.aggregate, spec.demand.columns.demand) == ("sum", column)


@pytest.mark.parametrize("depot", ["FilialNr", "Store Number", "Dep.", "Kostenstelle", "Warehouse Name"])
@pytest.mark.parametrize("area", ["Region", "City"])
def test_depot_is_not_summed_with_others_of_its_region(tmp_path: Path, area: str, depot: str) -> None:
    areas = {"0101": "North", "0102": "North", "0201": "South"}
    rows = [f"{where},{which},{day},{40 + day.weekday()}" for which, where in areas.items() for day in two_months()]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "f.csv", f"{area},{depot},date,orders", rows))
    assert (spec.demand.columns.depot_id, spec.demand.aggregate) == (depot, "none")


@pytest.mark.parametrize("column", ["throughput", "calls", "lines_picked"])
def test_counts_by_channel_of_equal_length_are_counts(tmp_path: Path, column: str) -> None:
    rows = [
        f"H{hub},{day},{channel},{1100 + (day.toordinal() * 331 + hub * 977 + 53 * len(channel)) % 7900}"
        for day in two_months()
        for hub in range(3)
        for channel in ("web", "phone")
    ]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "h.csv", f"hub,date,channel,{column}", rows))
    assert (spec.demand.aggregate, spec.demand.columns.demand, spec.demand.columns.order_id) == ("sum", column, None)


@pytest.mark.parametrize("column", ["lat", "distance_m", "customer_name", "customer_id", "address", "packed"])
def test_column_that_differs_by_order_is_not_an_order_number(tmp_path: Path, column: str) -> None:
    places = [(day, n) for day in two_months() for n in range(4)]
    values = {"lat": "52.{0:05}", "packed": "1{1}:{2:02}:05"}.get(column, "{0}")
    rows = [
        f"{values.format(70_000 + 7 * row, n, row % 60)},Marina,{day} 1{n}:05" for row, (day, n) in enumerate(places)
    ]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "orders.csv", f"{column},Branch,Time", rows))
    assert spec.demand.columns.order_id is None


def test_rider_is_not_a_depot_within_a_city(tmp_path: Path) -> None:
    riders = {"Ana": "North", "Ben": "North", "Cem": "South"}
    rows = [
        f"{city},{rider},{day},{ord(rider[0]) % 9 + day.weekday()}"
        for rider, city in riders.items()
        for day in two_months()
    ]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "f.csv", "City,Rider,date,orders", rows))
    assert (spec.demand.columns.depot_id, spec.demand.aggregate) == ("City", "sum")


def test_files_of_one_depot_each_are_not_summed(tmp_path: Path) -> None:
    rows = [f"{day},{40 + day.weekday()}" for day in two_months()]
    files = [a_file(tmp_path, f"{name}.csv", "date,parcels", rows) for name in ("north", "south", "west")]
    with pytest.raises(
        SpecError, match=r"north.csv and 2 more: found counts of the same days, .* no column that names the"
    ):
        made(tmp_path / "fleet", *files)


@pytest.mark.parametrize("header", ["order_no,Branch,Time", "ref,Branch,Time"])
def test_order_number_deduplicates_overlapping_exports(tmp_path: Path, header: str) -> None:
    days = two_months()
    rows = [f"R-{10_000 + 100 * place + n},Marina,{day} 1{n}:05" for place, day in enumerate(days) for n in range(4)]
    files = [a_file(tmp_path, "orders-1.csv", header, rows[:140]), a_file(tmp_path, "orders-2.csv", header, rows[120:])]
    outcome, spec, _ = made(tmp_path / "fleet", *files)
    assert (spec.demand.aggregate, spec.demand.columns.order_id) == ("count", header.partition(",")[0])
    assert outcome.fault is None
    assert "suspect   repeated_orders 20" in outcome.lines


def test_row_numbers_and_repeated_order_numbers_are_not_order_ids(tmp_path: Path) -> None:
    places = [(day, n) for day in two_months() for n in range(4)]
    rows = [f"{row},{9000 + row // 2},Marina,{day},{1 + n}" for row, (day, n) in enumerate(places)]
    _, spec, _ = made(tmp_path / "fleet", a_file(tmp_path, "lines.csv", ",order_no,Branch,Day,pieces", rows))
    assert (spec.demand.aggregate, spec.demand.columns.order_id) == ("sum", None)


def test_overlapping_exports_of_one_depot_are_accepted(tmp_path: Path) -> None:
    rows = [f"{day},{40 + day.weekday()}" for day in two_months()]
    files = [a_file(tmp_path, f"export-{n}.csv", "date,orders", part) for n, part in enumerate((rows[:31], rows[30:]))]
    outcome, spec, _ = made(tmp_path / "fleet", *files)
    assert outcome.fault is None
    assert spec.demand.aggregate == "none"
    assert "seen      1 depot, 60 days, 2026-01-01 to 2026-03-01, 61 readings" in outcome.lines


def test_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = a_file(tmp_path, "counts.csv", "date,orders", [f"{day},{40 + day.weekday()}" for day in two_months()])
    outcome, _, _ = made(tmp_path / "fleet", file, tmp_path / "." / file.name)
    assert "seen      1 depot, 60 days, 2026-01-01 to 2026-03-01, 60 readings" in outcome.lines


def test_reports_summed_parts_and_a_total_among_them(tmp_path: Path) -> None:
    rows = [
        f"North,{day},{channel},{number}"
        for day in two_months()
        for channel, number in (("web", 30 + day.day), ("shop", 20), ("all", 50 + day.day))
    ]
    outcome, spec, text = made(tmp_path / "fleet", a_file(tmp_path, "c.csv", "Store,Date,Channel,Orders", rows))
    assert spec.demand.aggregate == "sum"
    notes = [
        "the rows of a depot and day are summed over 'Channel': 'web', 'shop', 'all'",
        "rows with Channel=all are excluded: the sum of the others",
    ]
    for note in notes:
        assert f"note      {note}" in outcome.lines
        assert f"# {note}" in text


def test_reports_alternative_interpretations(tmp_path: Path) -> None:
    """Another column of days, and other counts."""
    rows = [
        f"{shop},{day - timedelta(days=2)},{day},{20 + day.day},{30 + day.day}"
        for shop in ("North", "South")
        for day in two_months()
    ]
    file = a_file(tmp_path, "two.csv", "Store,order_date,delivery_date,milk,bread", rows)
    with pytest.raises(OpenQuestions) as asked:
        made(tmp_path / "fleet", file)
    assert [(question.part, question.choices[1].answer) for question in asked.value.questions] == [("count", "bread")]
    assert asked.value.command.endswith("--rows readings --site Store --day order_date --count milk")
    answers = TableAnswers.of(None, None, None, "bread")
    outcome = start.create([file], tmp_path / "fleet", country=None, ask=None, now=NOW, answers=answers)
    columns = load(tmp_path / "fleet" / start.PIPELINE).demand.columns
    assert (columns.date, columns.demand) == ("order_date", "bread")
    assert "note      'order_date' is the date column; 'delivery_date' also contains dates" in outcome.lines


def test_reports_columns_not_used_as_depots(tmp_path: Path) -> None:
    pairs = [(day, 20 + day.weekday(), 50 + 3 * day.weekday() + day.day % 5) for day in two_months()]
    rows = [f"{day},{north},{oslo},{north + oslo},x" for day, north, oslo in pairs]
    outcome, _, _ = made(tmp_path / "fleet", a_file(tmp_path, "wide.csv", "day,North,NO,Sum,remark", rows))
    assert "note      not used: 'Sum' (the sum of the others), 'remark' (no counts)" in outcome.lines
    assert "note      treated as depots because of their counts, despite their names: 'NO'" in outcome.lines


def test_reports_another_form_that_reads_the_days(tmp_path: Path) -> None:
    rows = [f"{site},{day:02d}/02/2026,{90 + day}" for day in range(1, 13) for site in ("A", "B")]
    (tmp_path / "counts.csv").write_text("site,day,orders\n" + "\n".join(rows) + "\n", "utf-8")
    outcome, spec, text = made(tmp_path / "fleet", tmp_path / "counts.csv", country="DE")
    assert isinstance(spec.demand.source, CsvSource)
    assert spec.demand.source.date_format == "%d/%m/%Y"
    assert "the format of the dates; '%m/%d/%Y' would fit as well" in text
    assert "note      dates are read as '%d/%m/%Y', but '%m/%d/%Y' would fit all of them as well" in outcome.lines


def order_lines(folder: Path, column: str, amount: str, *, numbered: bool = True) -> Path:
    """Thirty orders per day of two stores, each with an amount."""
    rows = [
        f"{'O' + str(1000 * back + n) + ',' if numbered else ''}{LAST - timedelta(days=back)}T1{n % 10}:00,"
        f"{'North' if n % 3 else 'South'},{amount.format(12 + n % 7)}"
        for back in range(90)
        for n in range(30)
    ]
    file = folder / "orders.csv"
    file.write_text("\n".join([f"{'order_id,' if numbered else ''}created_at,store,{column}", *rows, ""]), "utf-8")
    return file


@pytest.mark.parametrize(
    ("column", "amount", "numbered"),
    [
        ("amount_eur", "{}.90", True),
        ("amount_eur", "{}.90", False),
        ("total_price", "{}", True),
        ("Umsatz", "{}", False),
        ("amount", "{}.45", True),
        ("sales", "{}.45", True),
    ],
)
def test_money_in_order_lines_is_not_a_count_and_rows_are_counted(
    tmp_path: Path, column: str, amount: str, numbered: bool
) -> None:
    outcome, spec, _ = made(tmp_path / "fleet", order_lines(tmp_path, column, amount, numbered=numbered))
    assert (spec.demand.aggregate, spec.demand.columns.demand) == ("count", "demand")
    assert spec.demand.columns.order_id == ("order_id" if numbered else None)
    assert any(f"'{column}' is money" in line for line in outcome.lines)


def test_quantity_in_order_lines_is_summed_next_to_money(tmp_path: Path) -> None:
    _, spec, _ = made(tmp_path / "fleet", order_lines(tmp_path, "quantity,amount_eur", "{0},{0}.90"))
    assert (spec.demand.aggregate, spec.demand.columns.demand) == ("sum", "quantity")


def test_daily_money_is_used_if_nothing_else_counts_and_the_reason_states_it(tmp_path: Path) -> None:
    file = tmp_path / "shops.csv"
    rows = [f"{LAST - timedelta(days=back)},{shop},{900 + back % 7}.50" for back in range(60) for shop in "AB"]
    file.write_text("\n".join(["date,shop,umsatz", *rows, ""]), "utf-8")
    outcome, spec, text = made(tmp_path / "fleet", file)
    assert spec.demand.columns.demand == "umsatz"
    assert "it looks like money: rosters need a count of orders" in text
    assert any("it looks like money" in line for line in outcome.lines)
