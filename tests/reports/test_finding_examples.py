"""The depots and days that a finding affects."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pandas as pd
import pytest

from forecaster.core.knowledge import Finding
from forecaster.lake import Lake
from forecaster.reports.finding_examples import (
    Evidence,
    FindingExample,
    by_severity,
    collect,
    examples,
    findings_per_depot,
    printable,
    rows_of,
)
from tests.panels import bare, spec

NOW = pd.Timestamp(datetime(2024, 1, 20, tzinfo=UTC))
PANEL = bare([[1.0] * 10] * 5)  # D0 to D4, 2024-01-01 to 2024-01-10


def row(
    depot: str, day: str | None, rule: str, content: str = "{}", batch: str = "b", at: pd.Timestamp = NOW
) -> dict[str, object]:
    day_of = None if day is None else date.fromisoformat(day)
    columns = {
        "id": f"{depot}{day}{rule}{batch}",
        "depot_id": depot,
        "date": day_of,
        "source": "demand.csv",
        "batch": batch,
    }
    return columns | {"row": 2, "rule": rule, "message": "m", "content": content, "recorded_at": at}


def evidence(tmp_path: object, *rows: dict[str, object]) -> Evidence:
    lake = Lake(str(tmp_path))
    if rows:
        lake.append("quarantine", pd.DataFrame(list(rows)))
    return collect(PANEL, "b", spec(), lake)


def test_a_quarantined_row_is_a_place_with_its_count(tmp_path: object) -> None:
    collected = evidence(
        tmp_path,
        row("D1", "2024-01-03", "spike", '{"demand": "900"}'),
        row("D1", "2024-01-02", "spike", '{"demand": "many"}'),
        row("D2", "2024-01-02", "count_form", '{"demand": 5}'),
    )
    finding = Finding("spike", "quarantine", 2, "m")
    assert examples(finding, collected) == [FindingExample("D1", {date(2024, 1, 2): None, date(2024, 1, 3): 900.0})]


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"demand": null}', '{"demand": "inf"}', '{"demand": NaN}'])
def test_a_count_that_is_not_a_number_has_no_value(tmp_path: object, content: str) -> None:
    collected = evidence(tmp_path, row("D1", "2024-01-03", "spike", content))
    assert examples(Finding("spike", "quarantine", 1, "m"), collected) == [
        FindingExample("D1", {date(2024, 1, 3): None})
    ]


def test_a_finding_with_places_needs_no_rows(tmp_path: object) -> None:
    places = (("D3", "2024-01-09"), ("D3", ""), ("D3", "2025-01-01"), ("unknown", "2024-01-09"))
    finding = Finding("flat_line", "warn", 1, "m", places)
    assert examples(finding, evidence(tmp_path)) == [FindingExample("D3", {date(2024, 1, 9): None})]


def test_the_three_depots_with_the_most_days_are_shown(tmp_path: object) -> None:
    days = [(f"D{depot}", f"2024-01-0{day}") for depot in range(5) for day in range(1, 2 + depot)]
    shown_examples = examples(Finding("late", "warn", 15, "m", tuple(days)), evidence(tmp_path))
    assert [(example.depot_id, len(example.days)) for example in shown_examples] == [("D4", 5), ("D3", 4), ("D2", 3)]


def test_rows_outside_the_panel_have_no_place(tmp_path: object) -> None:
    rows = (row("D1", "2062-01-03", "spike"), row("X", "2024-01-03", "spike"), row("D1", None, "spike"))
    collected = evidence(tmp_path, *rows)
    assert examples(Finding("spike", "quarantine", 3, "m"), collected) == []
    assert len(rows_of(Finding("spike", "quarantine", 3, "m"), collected)) == 3


def test_the_rows_of_the_batch_come_before_those_of_earlier_nights(tmp_path: object) -> None:
    later = NOW + pd.Timedelta(days=1)
    collected = evidence(
        tmp_path, row("D1", "2024-01-01", "spike", batch="a", at=later), row("D2", "2024-01-01", "spike")
    )
    assert list(rows_of(Finding("spike", "quarantine", 1, "m"), collected)["depot_id"]) == ["D2"]


def test_findings_per_depot_count_rows_and_places(tmp_path: object) -> None:
    collected = evidence(tmp_path, row("D1", "2024-01-01", "spike"), row("X", "2024-01-01", "spike"))
    findings = [
        Finding("spike", "quarantine", 2, "m"),
        Finding("late", "warn", 1, "m", (("D1", "2024-01-02"), ("D4", ""))),
    ]
    assert findings_per_depot(findings, collected) == {"D1": 2}


def test_lateness_is_counted_in_local_days(tmp_path: object) -> None:
    declared = spec().model_copy(update={"timezone": "America/New_York"})
    columns = declared.demand.columns.model_copy(update={"recorded_at": "at"})
    declared = declared.model_copy(update={"demand": declared.demand.model_copy(update={"columns": columns})})
    instants = ["2024-01-02T04:30Z", "2024-01-02T05:30Z"]  # 23:30 of the same day, and 00:30 of the next
    frame = pd.DataFrame(
        {"depot_id": "A", "date": date(2024, 1, 1), "demand": 1.0, "open": None, "source": "s"}, index=[0, 1]
    )
    frame = frame.assign(batch="b", row=[2, 3], recorded_at=pd.to_datetime(instants, utc=True))
    lake = Lake(str(tmp_path))
    lake.append("demand", frame)
    collected = collect(PANEL, "b", declared, lake)
    assert collected.ages is not None
    assert sorted(collected.ages) == [0, 1]


def test_the_most_severe_findings_come_first() -> None:
    findings = [Finding("a", "warn", 9, ""), Finding("b", "quarantine", 1, ""), Finding("c", "quarantine", 2, "")]
    assert [finding.rule for finding in by_severity([*findings, Finding("d", "stop", 1, "")])] == ["d", "c", "b", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Süd 東京", "Süd 東京"),
        ("👩\u200d🚒", "👩\u200d🚒"),
        ("a\nb\x1b[31m\u202e\ud800", "a�b�[31m��"),
        ("x" * 41, "x" * 39 + "…"),
        ("x" * 40, "x" * 40),
    ],
)
def test_words_of_the_data_are_shortened_and_have_no_control_characters(text: str, expected: str) -> None:
    assert printable(text) == expected
