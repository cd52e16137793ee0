"""Findings about events, compared with the depots and the days that they affect."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import load
from forecaster.demand.ingest import ingest
from forecaster.demand.validation import reference_tables
from forecaster.demand.validation.event_checks import Period, event_findings, period
from forecaster.demand.validation.known_days import KnownDays

PERIOD = Period(np.datetime64("2024-01-01"), np.datetime64("2024-03-12"))
KNOWN = pd.DataFrame(
    {"depot_id": ["A", "B"], "city": ["Ulm", "Nice"], "country": ["", "FR"], "subdivision": ["BW", ""]}
)
HEADER = "date,until,kind,name,depot_id,city,subdivision,country"


def findings(
    folder: Path, *rows: str, depots: pd.DataFrame = KNOWN, former: tuple[str, ...] = (), known: str = "promo"
) -> list[tuple[str, int, str]]:
    """Rule, count and message of each finding about rows of the events source."""
    (folder / "events.csv").write_text("\n".join([HEADER, *rows, ""]), "utf-8")
    (folder / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n"
        f"calendar: {{country: DE, events: {{source: {{kind: csv, path: events.csv}}}}, known_future: [{known}]}}\n",
        "utf-8",
    )
    spec = load(folder / "pipeline.yaml")
    _, announced = reference_tables.events(spec, unreadable := [], datetime(2024, 3, 6, tzinfo=UTC))
    assert not unreadable
    return [(f.rule, f.count, f.message) for f in event_findings(announced, depots, former, PERIOD, spec)]


def test_event_that_fits_no_depot_is_a_finding_about_the_wrong_attribute(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        "2024-03-05,,promo,1,A,,,DE",
        "2024-03-05,,promo,2,,Ulm,BW,",
        "2024-03-05,,promo,3,,Rome,BW,",
        "2024-03-05,,promo,4,,Ulm,,FR",
        "2024-03-05,,promo,5,,,,GB",
        "2024-03-05,,promo,6,C,,,",
        "2024-03-05,,promo,7,old,,,",
        former=("old",),
    )
    assert [(rule, count, message.partition(", wanted")[0]) for rule, count, message in found] == [
        ("event_place", 1, "events.csv:7: column 'depot_id': found 'C'"),
        ("event_place", 2, "events.csv:4: column 'city': found 'Rome'"),  # and Ulm, which is not in France
        ("event_place", 1, "events.csv:6: column 'country': found 'GB'"),
    ]


@pytest.mark.parametrize("kind", ["closure", " Closure", "CLOSURE ", "Promo", "promo", "ｐｒｏｍｏ"])
def test_kinds_ignore_case_and_spaces(tmp_path: Path, kind: str) -> None:
    assert findings(tmp_path, f"2024-03-05,,{kind},x,,,,") == []


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("closed", "closure"),
        ("Closures", "closure"),
        ("clsoure", "closure"),
        ("shut", "closure"),
        ("geschlossen", "closure"),
        ("Schließung", "closure"),
        ("cerrado", "closure"),
        ("fermé", "closure"),
        ("shut for inventory", "closure"),
        ("休業日", "closure"),
        ("promos", "promo"),
        ("Promotion", "promo"),
    ],
)
def test_unused_kind_is_reported_with_a_suggestion(tmp_path: Path, kind: str, meant: str) -> None:
    [(rule, count, message)] = findings(tmp_path, f"2024-03-05,,{kind},x,,,,")
    assert (rule, count) == ("event_kind", 1)
    assert message == (
        f"events.csv:2: column 'kind': found '{kind}', wanted closure, promo or another kind that "
        f"calendar.known_future names (did you mean '{meant}'?); it changes no forecast"
    )


def test_unknown_kinds_are_one_finding_without_a_suggestion(tmp_path: Path) -> None:
    rows = ["2024-03-05,,festival,x,,,,", "2024-03-06,,marathon,x,,,,", "2024-03-07,,shut,x,,,,"]
    found = findings(tmp_path, *rows)
    assert [(count, "did you mean" in message) for _, count, message in found] == [(1, True), (2, False)]


def test_kind_of_short_days_is_not_a_closure_and_the_finding_suggests_its_key(tmp_path: Path) -> None:
    [(_, _, message)] = findings(tmp_path, "2024-03-05,,early closing,x,,,,")
    assert "names (calendar.known_future: [early closing]); it changes no forecast" in message


def test_events_outside_history_and_horizon_are_ignored(tmp_path: Path) -> None:
    rows = ["2023-12-31,,closed,x,,,,", "2023-05-01,2023-12-31,festival,x,X,,,", "2024-03-13,,closed,x,,Rome,,"]
    assert findings(tmp_path, *rows) == []
    assert len(findings(tmp_path, "2023-05-01,2024-01-01,closed,x,X,,,")) == 2


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        ("a,,,", "did you mean 'A'?"),
        (",ulm,,", "did you mean 'Ulm'?"),
        (",Nize,,", "did you mean 'Nice'?"),
        (",,bw,", "did you mean 'BW'?"),
        ("Z,,,", ""),
    ],
)
def test_unknown_place_is_reported_with_the_nearest_name(tmp_path: Path, row: str, hint: str) -> None:
    [(rule, _, message)] = findings(tmp_path, f"2024-03-05,,promo,x,{row}")
    assert rule == "event_place"
    assert message.endswith(f"of the demand source{f' ({hint})' if hint else ''}; it concerns no depot")


def test_reports_a_place_in_another_unicode_form(tmp_path: Path) -> None:
    depots = KNOWN.assign(city=["Köln", "Nice"])
    [(_, _, message)] = findings(
        tmp_path, f"2024-03-05,,promo,x,,{unicodedata.normalize('NFD', 'Köln')},,", depots=depots
    )
    assert "(it differs from 'Köln' only in its Unicode form)" in message


def test_events_without_a_depots_source_apply_to_depots_with_counts(tmp_path: Path) -> None:
    counted = pd.DataFrame({"depot_id": ["Alder", "Birch"]}, dtype="str")
    rows = ["2024-03-05,,promo,x,Alder,,,", "2024-03-05,,promo,x,alder,,,", "2024-03-05,,promo,x,,Ulm,,"]
    found = [message for _, _, message in findings(tmp_path, *rows, depots=counted)]
    assert "wanted a depot_id of the demand source (did you mean 'Alder'?)" in found[0]
    assert "found 'Ulm', wanted a city of the demand source (no depot has a city: it is an attribute of" in found[1]
    assert findings(tmp_path, *rows, depots=counted[:0]) == []  # no finding while no depot has counts


def test_long_closures_are_reported_with_the_longest_first(tmp_path: Path) -> None:
    [(rule, count, message)] = findings(
        tmp_path,
        "2024-03-05,2024-03-12,closure,ends ahead,A,,,",
        "2024-03-05,2024-03-20,Closure,rebuild,A,,,",
        "2024-03-12,9999-12-31,closure,for good,,Nice,,",
        "2024-03-13,2024-12-31,closure,begins later,A,,,",
        "2024-01-05,2024-12-31,promo,sale,A,,,",
    )
    assert (rule, count) == ("long_closure", 2)
    assert message == (
        "events.csv:4: found Nice closed until 9999-12-31, after 2024-03-12, the last day ahead; also A closed "
        "until 2024-03-20; wanted closures that end by the last day ahead, or are meant to be permanent"
    )


def test_reports_a_closure_of_all_depots_and_ignores_one_of_no_depot(tmp_path: Path) -> None:
    [(_, _, message)] = findings(tmp_path, "2024-03-05,2024-12-31,closure,strike,,,,")
    assert "found every depot closed until 2024-12-31" in message
    [(rule, _, _)] = findings(tmp_path, "2024-03-05,2024-12-31,closure,strike,X,,,")
    assert rule == "event_place"


def test_period_ends_at_the_horizon_after_the_newest_completed_day(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    spec, now = load(tmp_path / "pipeline.yaml"), datetime(2024, 3, 6, 4, tzinfo=UTC)
    known_days = KnownDays(np.array([19_700, 19_750]), np.array([1, 1]), lambda first, last: pd.DataFrame())
    nothing = KnownDays(np.zeros(0, np.int32), np.zeros(0, np.int32), lambda first, last: pd.DataFrame())
    first, last = np.datetime64(19_700, "D"), np.datetime64("2024-03-05")  # 19,787 days since 1970
    batch = pd.DataFrame({"day": np.array([19_740, 19_760], np.int32)})
    assert period(batch, known_days, spec, now) == Period(first, np.datetime64(19_767, "D"))
    ahead = pd.DataFrame({"day": np.array([19_780, 19_794], np.int32)})  # together with values known ahead
    assert period(ahead, known_days, spec, now) == Period(first, last + 7)
    assert period(batch[:0], known_days, spec, now) == Period(first, np.datetime64(19_757, "D"))
    assert period(batch[:0], nothing, spec, now) == Period(last, last + 7)


def test_reads_depots_known_to_the_lake_if_a_batch_has_none(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n"
        "calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}}\n",
        "utf-8",
    )
    spec, header = load(tmp_path / "pipeline.yaml"), "depot_id,date,demand\n"
    (tmp_path / "events.csv").write_text("date,kind,name,depot_id\n2024-03-06,closure,x,A\n", "utf-8")
    (tmp_path / "demand.csv").write_text(header + "A,2024-03-04,1\nB,2024-03-04,1\n", "utf-8")
    assert ingest(spec, now=datetime(2024, 3, 5, 4, tzinfo=UTC)).findings == ()
    (tmp_path / "demand.csv").write_text(header + "B,2024-03-05,1\nC,2024-03-05,1\n", "utf-8")
    assert ingest(spec, now=datetime(2024, 3, 6, 4, tzinfo=UTC)).findings == ()
