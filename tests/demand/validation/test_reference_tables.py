"""Reading of the reference sources (depots, aliases, events), and findings about invalid rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.demand.panel.events import EVENT
from forecaster.demand.validation import reference_tables
from forecaster.errors import SourceError, SpecError

DEPOTS = "{source: {kind: csv, path: depots.csv}, columns: {timezone: zone}, static: [city, country, subdivision], "
DEPOTS += "aliases: {source: {kind: csv, path: aliases.csv}}}"
NOW = datetime(2024, 3, 6, 4, tzinfo=UTC)


def spec_of(folder: Path, depots: str = DEPOTS, rules: str = "") -> Spec:
    text = f"name: t\ntimezone: Europe/Berlin\ndemand: {{source: {{kind: csv, path: demand.csv}}{rules}}}\n"
    text += f"depots: {depots}\ncalendar: {{country: DE, events: {{source: {{kind: csv, path: events.csv}}}}}}\n"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def events(folder: Path, *lines: str) -> tuple[Any, list[Finding]]:
    write(folder, "events", *lines)
    findings: list[Finding] = []
    return reference_tables.events(spec_of(folder), findings, NOW)[0], findings


def test_event_with_the_original_columns_lasts_one_day(tmp_path: Path) -> None:
    table, findings = events(tmp_path, "date,kind,name", "2024-03-05,promo,sale")
    assert list(table.columns) == EVENT
    assert table["date"].tolist() == [pd.Timestamp("2024-03-05")]
    assert table[["depot_id", "city", "subdivision", "country"]].isna().all(axis=None)
    assert not findings


def test_reads_events_and_depots_in_the_notation_of_their_sources(tmp_path: Path) -> None:
    german = "source: {kind: csv, path: %s.csv, delimiter: ;, date_format: '%%d.%%m.%%Y'}"
    columns = "columns: {date: von, until: bis, kind: Aktion, name: Aktion, depot_id: Filiale}"
    (tmp_path / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n"
        f"depots: {{{german % 'depots'}, columns: {{depot_id: Filiale, opened: seit}}}}\n"
        f"calendar: {{events: {{{german % 'events'}, {columns}}}}}\n",
        "utf-8",
    )
    spec, findings = load(tmp_path / "pipeline.yaml"), list[Finding]()
    write(tmp_path, "depots", "Filiale;seit", "A;05.03.2024", "B;", "C;2024-03-05")
    write(tmp_path, "events", "von;bis;Aktion;Filiale", "28.02.2024;01.03.2024;Prospekt;A", "02.03.2024;;Prospekt;B")
    depots = reference_tables.depots(spec, findings)
    assert depots["opened"].tolist() == [pd.Timestamp("2024-03-05"), pd.NaT, pd.NaT]
    table, _ = reference_tables.events(spec, findings, NOW)
    assert [str(day.date()) for day in table["date"]] == ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]
    assert set(table["kind"]) == set(table["name"]) == {"Prospekt"}
    assert [finding.message for finding in findings] == [
        "depots.csv:4: column 'seit': found '2024-03-05', wanted a date such as 05.03.2024, or nothing; taken as "
        "nothing",
    ]


def test_rejects_a_missing_declared_column_of_events(tmp_path: Path) -> None:
    write(tmp_path, "events", "date,kind,name", "2024-03-05,promo,sale")
    events = "{source: {kind: csv, path: events.csv}, columns: {until: bis}}"
    (tmp_path / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\ncalendar: {{events: {events}}}\n", "utf-8"
    )
    with pytest.raises(SourceError, match="found columns date, kind, name; wanted 'bis'"):
        reference_tables.events(load(tmp_path / "pipeline.yaml"), [], NOW)


@pytest.mark.parametrize("column", ["Until", "UNTIL", "until_"])
def test_rejects_a_column_with_another_spelling(tmp_path: Path, column: str) -> None:
    with pytest.raises(SourceError, match=rf"found column '{column}', which is not read; wanted 'until', or its name"):
        events(tmp_path, f"date,{column},kind,name", "2024-03-05,2024-03-09,closure,rebuild")
    with pytest.raises(SourceError, match="found column 'Depot-ID', which is not read; wanted 'depot_id'"):
        events(tmp_path, "date,kind,name,Depot-ID", "2024-03-05,closure,rebuild,A")
    table, _ = events(tmp_path, "date,until,kind,name,comment,Until then", "2024-03-05,2024-03-05,promo,sale,x,y")
    assert len(table) == 1


@pytest.mark.parametrize(
    ("column", "value", "found", "key"),
    [
        ("depot", "A", "'depot'", "depot_id"),
        ("Store ID", "", "'Store ID'", "depot_id"),
        ("concerns", "BOS-01", "'concerns' of depot ids", "depot_id"),
        ("end_date", "2024-03-09", "'end_date'", "until"),
        ("Town", "Ulm", "'Town'", "city"),
        ("state", "BY", "'state'", "subdivision"),
        ("nation", "DE", "'nation'", "country"),
    ],
)
def test_rejects_an_unread_column_that_probably_states_the_end_or_place_of_an_event(
    tmp_path: Path, column: str, value: str, found: str, key: str
) -> None:
    lines = f"date,kind,name,{column}", f"2024-03-05,closure,rebuild,{value}"
    write(tmp_path, "events", *lines)
    with pytest.raises(SourceError) as refusal:
        reference_tables.events(spec_of(tmp_path), [], NOW, ["BOS-01", "7"])
    assert str(refusal.value) == (
        f"events.csv: found column {found}, which is not read; wanted '{key}', or "
        f"calendar.events.columns.{key}: {column} (null if the column is something else)"
    )
    text = (tmp_path / "pipeline.yaml").read_text("utf-8")
    without = text.replace("path: events.csv}", f"path: events.csv}}, columns: {{{key}: null}}")
    (tmp_path / "pipeline.yaml").write_text(without, "utf-8")
    table, _ = reference_tables.events(load(tmp_path / "pipeline.yaml"), [], NOW, ["BOS-01", "7"])
    assert table["name"].tolist() == ["rebuild"]


def test_further_columns_of_events_may_hold_anything(tmp_path: Path) -> None:
    header = "date,kind,name,depot_id,store,priority,note,note"
    write(
        tmp_path,
        "events",
        "date,kind,name,priority,note,note",
        "2024-03-05,promo,sale,7,BOS-01,",
        "2024-03-06,promo,sale,7,,",
    )
    assert len(reference_tables.events(spec_of(tmp_path), [], NOW, ["BOS-01", "7"])[0]) == 2
    content = f"{header}\n2024-03-05,promo,sale,BOS-01,BOS-01,1,F\xfcr alle,\n"
    (tmp_path / "events.csv").write_bytes(content.encode("cp1252"))
    findings: list[Finding] = []
    assert len(reference_tables.events(spec_of(tmp_path), findings, NOW, ["BOS-01"])[0]) == 1
    assert not findings


def test_until_is_the_last_day_and_leap_days_count(tmp_path: Path) -> None:
    table, findings = events(
        tmp_path,
        "date,until,kind,name,subdivision",
        "2024-02-28,2024-03-01,school_holiday,break,BB",
        "2024-02-28,,promo,one day,",
        "2024-02-28,2024-02-28,promo,one day,",
    )
    assert not findings
    days = [str(day.date()) for day in table["date"]]
    assert days == ["2024-02-28", "2024-02-29", "2024-03-01", "2024-02-28"]
    assert table["kind"].tolist() == ["school_holiday"] * 3 + ["promo"]
    assert table["subdivision"].fillna("").tolist() == ["BB"] * 3 + [""]
    assert table["date"].dtype == "datetime64[s]"


@pytest.mark.parametrize("until", ["2024-03-04", "soon"])
def test_drops_an_event_with_an_invalid_end(tmp_path: Path, until: str) -> None:
    table, (finding,) = events(tmp_path, "date,until,kind,name", f"2024-03-05,{until},promo,sale")
    assert table.empty
    assert (finding.rule, finding.severity, finding.count) == ("event_form", "warn", 1)
    assert finding.message == (
        f"events.csv:2: column 'until': found '{until}', wanted a last day on or after its date; the row is left out"
    )


@pytest.mark.parametrize(
    ("date", "until", "first", "last"),
    [
        ("2024-03-05", "2025-04-08", "2024-03-05", "2025-04-08"),  # 400 days
        ("2024-03-05", "2028-12-31", "2024-03-05", "2025-12-31"),
        ("2024-03-05", "9999-12-31", "2024-03-05", "2025-12-31"),
        ("0001-01-01", "9999-12-31", "1970-01-01", "2025-12-31"),
        ("2014-01-01", "2016-12-31", "2014-01-01", "2016-12-31"),
        ("2028-01-01", "2030-12-31", "2028-01-01", "2029-02-03"),  # 400 days
        ("0001-01-01", "0004-12-31", None, None),
    ],
)
def test_keeps_only_the_relevant_days_of_a_long_event(
    tmp_path: Path, date: str, until: str, first: str | None, last: str | None
) -> None:
    table, findings = events(tmp_path, "date,until,kind,name", f"{date},{until},closure,rebuild")
    assert not findings
    days = pd.date_range(first, last, unit="s") if first else pd.DatetimeIndex([], dtype="datetime64[s]")
    assert table["date"].tolist() == days.tolist()


def test_unknown_zone_is_a_finding_and_becomes_null(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,zone,city,country,subdivision", "A,Asia/Tokyo,,,", "B,,,,", "C,Asia/Tokio,,,")
    findings: list[Finding] = []
    table = reference_tables.depots(spec_of(tmp_path), findings)
    assert table["timezone"].isna().tolist() == [False, True, True]
    assert table["timezone"][0] == "Asia/Tokyo"
    (finding,) = findings
    assert (finding.severity, finding.count) == ("warn", 1)
    assert finding.message.startswith("depots.csv:4: column 'zone': found 'Asia/Tokio', wanted a time zone such as")
    without = "{source: {kind: csv, path: depots.csv}}"
    assert reference_tables.depots(spec_of(tmp_path, without), findings)["timezone"].isna().all()
    with pytest.raises(SpecError, match="has a column 'timezone' of its own"):
        reference_tables.depots(
            spec_of(tmp_path, "{source: {kind: csv, path: depots.csv}, static: [timezone]}"), findings
        )


def test_depot_that_closes_before_it_opens_is_a_finding(tmp_path: Path) -> None:
    rows = ["A,2026-09-01,2016-01-01", "B,2016-01-01,2026-09-01", "C,2016-01-01,2016-01-01", "D,2016-01-01,", "E,,"]
    write(tmp_path, "depots", "depot_id,opened,closed", *rows)
    spec = spec_of(tmp_path, "{source: {kind: csv, path: depots.csv}, columns: {opened: opened, closed: closed}}")
    table = reference_tables.depots(spec, findings := [])
    assert len(table) == 5
    assert [(finding.rule, finding.severity, finding.count, finding.message) for finding in findings] == [
        (
            "depot_span",
            "warn",
            2,
            "depots.csv:2: column 'closed': found '2016-01-01', wanted a first day of business before the first day "
            "out of it; taken as it is (also depots.csv:4)",
        )
    ]


def test_byte_of_another_encoding_drops_an_attribute_or_its_row(tmp_path: Path) -> None:
    rows = ["A,,Köln,,", "B,,,,", "Köln,,,,", "D", "E,,Ulm,,"]
    content = "\n".join(["depot_id,zone,city,country,subdivision", *rows, ""])
    (tmp_path / "depots.csv").write_bytes(content.encode("cp1252"))
    findings: list[Finding] = []
    table = reference_tables.depots(spec_of(tmp_path), findings)
    assert table["depot_id"].tolist() == ["A", "B", "D", "E"]
    assert table["city"].tolist() == ["", "", "", "Ulm"]
    byte = r"found a byte that is not utf-8 text, as in 'K\xf6ln'; wanted the `encoding`, as in cp1252, of its source"
    assert [(finding.rule, finding.message) for finding in findings] == [
        ("row_form", f"depots.csv:2: {byte}; taken as nothing"),
        ("row_form", "depots.csv:5: found 1 fields, wanted 5 as in the header; the row is accepted as it is"),
        ("depot_form", f"depots.csv:4: {byte}; the row is left out"),
    ]


def test_rejects_an_attribute_without_a_name(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city", "A,Bonn")
    with pytest.raises(SourceError, match="found columns depot_id, city; wanted ''"):
        reference_tables.depots(spec_of(tmp_path, "{source: {kind: csv, path: depots.csv}, static: ['']}"), [])


def test_finding_names_the_lines_of_further_rows(tmp_path: Path) -> None:
    odd = ["2024-02-30", "٢٠٢٤-٠٣-٠١", "x" * 5_000]
    table, (finding,) = events(tmp_path, "date,kind,name", "2024-03-05,promo,sale", *(f"{day},promo," for day in odd))
    assert (len(table), finding.count) == (1, 3)
    assert finding.message.startswith("events.csv:3: column 'date': found '2024-02-30', wanted a date such as")
    assert finding.message.endswith("the row is left out (also events.csv:4, events.csv:5)")


def test_follows_aliases_and_reports_invalid_ones(tmp_path: Path) -> None:
    write(
        tmp_path,
        "aliases",
        "alias,depot_id",
        "a,b",
        "b,c",
        " a , b ",  # repeated
        "d,d",
        "e,",
        "f,g",
        "f,h",
        "x,y",
        "y,x",
    )
    findings: list[Finding] = []
    table = reference_tables.aliases(spec_of(tmp_path), findings, ["c"])
    assert table.to_numpy().tolist() == [["a", "c"], ["b", "c"]]
    assert [(finding.rule, finding.count, finding.message.partition(": column")[0]) for finding in findings] == [
        ("alias_form", 2, "aliases.csv:5"),
        ("alias_form", 2, "aliases.csv:7"),
        ("alias_form", 2, "aliases.csv:9"),
    ]


def test_alias_of_no_depot_is_left_out_with_the_depot_that_was_probably_meant(tmp_path: Path) -> None:
    write(tmp_path, "aliases", "alias,depot_id", "OLD-7,BOS-1", "OLD-8,OLD-7", "OLD-9,BOS-01", "NYC-2,NYC-02")
    findings: list[Finding] = []
    table = reference_tables.aliases(spec_of(tmp_path), findings, ["BOS-01", "NYC-2"])
    assert table.to_numpy().tolist() == [["OLD-9", "BOS-01"], ["NYC-2", "NYC-02"]]  # NYC-2 is still listed as such
    assert [(finding.rule, finding.count, finding.message) for finding in findings] == [
        (
            "alias_form",
            2,
            "aliases.csv:2: column 'depot_id': found 'BOS-1', wanted a depot of the depots source; the row is left "
            "out; did you mean 'BOS-01'? (also aliases.csv:3)",
        )
    ]


def test_declared_severity_applies_to_an_invalid_row(tmp_path: Path) -> None:
    write(tmp_path, "aliases", "alias,depot_id", "a,a")
    findings: list[Finding] = []
    reference_tables.aliases(spec_of(tmp_path, rules=", rules: {severity: {alias_form: stop}}"), findings, [])
    assert findings[0].severity == "stop"


LEVELS = "{source: {kind: csv, path: depots.csv}, static: [city], levels: [region, channel]}"


def test_level_is_a_column_of_the_depots_source_that_models_do_not_read(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city,region,channel", "A,Ulm,south,web", "B,Bonn,west,shop")
    spec, findings = spec_of(tmp_path, LEVELS), list[Finding]()
    table = reference_tables.depots(spec, findings)
    assert table[["region", "channel"]].to_numpy().tolist() == [["south", "web"], ["west", "shop"]]
    assert not findings
    assert spec.levels == ("city", "region", "channel")
    assert spec.depots is not None
    assert spec.depots.static == ("city",)


def test_depot_without_a_level_is_reported_with_its_row_and_the_key(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city,region,channel", "A,Ulm,,web", "B,Bonn,west,shop", "C,Bonn, ,shop")
    findings: list[Finding] = []
    reference_tables.depots(spec_of(tmp_path, LEVELS), findings)
    [finding] = findings
    assert (finding.rule, finding.severity, finding.count) == ("level_missing", "warn", 2)
    assert str(finding.message) == (
        "depots.csv:2: column 'region': found '', wanted a value on each depot (depots.levels); the depot is in none "
        "of its totals (also depots.csv:4)"
    )
    findings = []
    reference_tables.depots(spec_of(tmp_path, LEVELS, ", rules: {severity: {level_missing: stop}}"), findings)
    assert findings[0].severity == "stop"


def test_rejects_a_level_without_a_column(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city,area,channel", "A,Ulm,south,web")
    wanted = "depots.levels: depots.csv: found no column 'region', wanted one of the source's"
    with pytest.raises(SpecError, match=wanted):
        reference_tables.depots(spec_of(tmp_path, LEVELS), [])


def test_rejects_a_level_with_a_value_for_nearly_every_depot(tmp_path: Path) -> None:
    rows = [f"D{number},Ulm,{number},web" for number in range(reference_tables.MOST_GROUPS + 1)]
    write(tmp_path, "depots", "depot_id,city,region,channel", *rows)
    with pytest.raises(SpecError) as caught:
        reference_tables.depots(spec_of(tmp_path, LEVELS), [])
    assert str(caught.value) == (
        "depots.levels: depots.csv: column 'region': found 1,001 values, wanted at most 1,000; name a column that has "
        "one value for many depots"
    )
