"""The health page: outcomes, findings and durations of the latest runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboards.ops.reading.last_night import notice
from dashboards.ops.views.health import by_severity, duration
from forecaster.core.knowledge import Finding
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import NOON, PUBLISHED, fill, publication
from tests.dashboards.visitor import text, visitor

BEGAN = datetime(2025, 6, 17, 7, 15, tzinfo=UTC)  # 03:15 in New York
LATE = Finding("late", "warn", 40, "demand.csv:9: depot BOS-01: found a count recorded 9 days after its day")
NEGATIVE = Finding("count_negative", "quarantine", 3, "demand.csv:7: found '-72', wanted 0 or more")
DOUBLE = Finding("duplicate_row", "quarantine", 12, "demand.csv:8: wanted each reading once")
THIN = Finding("thin_feed", "stop", 1, "found 3 of 64 depots, wanted at least 50 %")


def night(
    url: str,
    run_id: str,
    *findings: Finding,
    began: datetime = BEGAN,
    outcome: str | None = "published",
    timings: Mapping[str, float] | None = None,
    message: str | None = None,
    pipeline: str = "harbor-fleet",
) -> None:
    """Write a run of twelve minutes; without an outcome it is still running."""
    with Ledger.open(url) as ledger:
        ledger.start_run(run_id, pipeline=pipeline, as_of=began, spec_digest="5pec", at=began)
        ledger.note(run_id, findings=findings, timings=timings or {"ingest": 2.04, "train": 64.6, "night": 70.0})
        if outcome:
            at = began + timedelta(minutes=12, seconds=5)
            ledger.finish_run(run_id, outcome, 0, message, "fresh", at=at)  # type: ignore[arg-type]


def health_text(url: str, now: datetime = NOON) -> str:
    return text(visitor(url, now)("/health"))


def test_without_a_run_the_page_explains_the_first_step(url: str) -> None:
    Ledger.open(url).close()
    answer = visitor(url)("/health")
    assert answer.status_code == 200
    assert "No night has run yet forecaster run FILE runs one" in text(answer)
    assert visitor(url)("/api/v1/runs").json() == {"runs": []}


def test_shows_the_last_run_with_its_outcome_and_duration(url: str) -> None:
    night(url, "n1", message="the gate said no")
    page = health_text(url)
    assert "The last night began Tue 17 Jun, 07:15 UTC It took 12 min 5 s." in page
    assert "published New forecasts are out. The gate said no As of Tue 17 Jun" in page
    assert "Nothing: all readings passed the checks." in page
    assert "Forecast by new model" in page


def test_reports_that_no_readings_were_read(url: str) -> None:
    night(url, "n1", timings={"predict": 2.0, "night": 2.1})
    assert "No readings were read, so nothing is known about them." in health_text(url)
    night(url, "n2", timings={"ingest": 2.0, "night": 2.1}, began=BEGAN + timedelta(days=1))
    assert "Nothing: all readings passed the checks." in health_text(url)


def test_instants_are_in_the_publications_time_zone(url: str) -> None:
    night(url, "night-1")
    fill(url, publication())
    assert "began Tue 17 Jun, 03:15 EDT" in health_text(url)


def test_findings_are_listed_most_serious_first_with_the_next_step(url: str) -> None:
    night(url, "n1", LATE, NEGATIVE, THIN, DOUBLE)
    page = health_text(url)
    expected = (
        f"thin_feed the whole batch is quarantined 1 {THIN.message} duplicate_row the rows are quarantined 12 "
        f"{DOUBLE.message} count_negative the rows are quarantined 3 {NEGATIVE.message} late the rows are accepted "
        f"40 {LATE.message}"
    )
    assert expected in page
    assert "No row of this batch counts" in page
    assert "forecaster quarantine list FILE" in page


def test_omits_the_quarantine_command_without_quarantined_rows(url: str) -> None:
    night(url, "n1", LATE)
    page = health_text(url)
    assert "need no action" in page
    assert "quarantine" not in page


def test_runs_are_listed_newest_first(url: str) -> None:
    night(url, "n1", began=BEGAN - timedelta(days=2), outcome="failed", message="no space left")
    night(url, "n2", began=BEGAN - timedelta(days=1), outcome="degraded")
    night(url, "n3", outcome="no_data")
    page = health_text(url)
    where = [
        page.index(part) for part in ("Tue 17 Jun, 07:15 UTC no data", "Mon 16 Jun", "Sun 15 Jun, 07:15 UTC failed")
    ]
    assert where == sorted(where)
    assert "UTC degraded" in page
    assert "No space left" in page


def test_a_running_or_killed_run_leaves_the_previous_one_as_the_last(url: str) -> None:
    night(url, "n1", DOUBLE, began=BEGAN - timedelta(days=1))
    night(url, "n2", outcome=None)
    assert "duplicate_row" in health_text(url)
    assert "UTC running new model" not in health_text(url)
    assert "UTC running –" in health_text(url)
    assert "UTC broken off –" in health_text(url, BEGAN + timedelta(hours=37))


def test_stages_are_shown_with_their_usual_duration(url: str) -> None:
    night(url, "n1", began=BEGAN - timedelta(days=1), timings={"ingest": 4.0, "train": 60.0})
    night(url, "n2", timings={"ingest": 2.0, "train": 90.0, "predict": 30.0, "night": 125.0})
    page = health_text(url)
    assert "ingest 2.0 s 3.0 s train 1 min 30 s 1 min 15 s predict 30 s 30 s" in page
    assert "The whole night: 2 min 5 s." in page
    assert 'd="M0 0h33.3v10h-33.3z"' in visitor(url)("/health").text


def test_the_api_has_each_run_with_its_findings(url: str) -> None:
    night(url, "n1", LATE, THIN)
    (run,) = visitor(url)("/api/v1/runs").json()["runs"]
    assert (run["run_id"], run["outcome"], run["tier"], run["exit_code"]) == ("n1", "published", "fresh", 0)
    assert run["started_at"] == "2025-06-17T07:15:00Z"
    assert run["timings"]["train"] == 64.6
    assert [finding["rule"] for finding in run["findings"]] == ["thin_feed", "late"]
    assert "RunsOut" in visitor(url)("/api/v1/openapi.json").text


def test_a_run_without_a_publication_invalidates_cached_pages(url: str) -> None:
    night(url, "night-1")
    fill(url, publication())
    get = visitor(url)
    tags = {path: get(path).headers["etag"] for path in ("/", "/health", "/api/v1/runs", "/depot/BOS-01")}
    night(url, "n2", DOUBLE, began=BEGAN + timedelta(days=1), outcome="failed")
    assert {path: get(path, if_none_match=tag).status_code for path, tag in tags.items()} == dict.fromkeys(tags, 200)
    assert "12 rows" in text(get("/"))


def test_the_front_page_shows_quarantined_rows_and_links_to_them(url: str) -> None:
    night(url, "night-1", NEGATIVE, DOUBLE, LATE)
    fill(url, publication())
    page = visitor(url)("/")
    assert "The last night quarantined 15 rows. Findings, and what to do" in text(page)
    assert '<a href="/health">Findings' in page.text


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        ((), None),
        ((LATE,), None),
        ((NEGATIVE, LATE), "The last night quarantined 3 rows."),
        ((NEGATIVE, THIN), "The last night quarantined its whole batch (thin_feed): none of its rows counts."),
    ],
)
def test_the_notice_is_about_quarantined_data(url: str, findings: Sequence[Finding], sentence: str | None) -> None:
    night(url, "n1", *findings)
    with Ledger.open_reader(url) as ledger:
        (run,) = ledger.runs()
    found = notice(run)
    assert (found.sentence if found else None) == sentence
    assert notice(None) is None


def test_every_page_links_to_the_health_page(url: str) -> None:
    fill(url, publication())
    for path in ("/", "/depot/BOS-01", "/health", "/nowhere"):
        assert '<a class="crumb less" href="/health">Last nights</a>' in visitor(url)(path).text


def test_texts_from_the_data_are_escaped(url: str) -> None:
    evil = "<script>alert(1)</script>\"'"
    night(url, "n1", Finding(evil, "stop", 1, evil), timings={evil: 1.0}, message=evil)
    assert "<script>" not in visitor(url)("/health").text


def test_hides_runs_of_another_pipeline(url: str) -> None:
    night(url, "n1", pipeline="other", message="of another")
    fill(url, publication())
    assert "Of another" not in health_text(url)
    assert "Of another" in text(visitor(url, pipeline="other")("/health"))


def test_ended_runs_can_be_queried_separately(url: str) -> None:
    night(url, "n1")
    night(url, "n2", began=PUBLISHED, outcome=None)
    with Ledger.open_reader(url) as ledger:
        assert [run.run_id for run in ledger.runs()] == ["n2", "n1"]
        assert [run.run_id for run in ledger.runs(ended=True)] == ["n1"]


def test_findings_are_sorted_by_severity_and_then_frequency() -> None:
    findings: list[Mapping[str, Any]] = [
        {"rule": name, "severity": severity, "count": count}
        for name, severity, count in [
            ("a", "warn", 9),
            ("b", "quarantine", 1),
            ("c", "quarantine", 2),
            ("d", "stop", 1),
        ]
    ]
    assert [finding["rule"] for finding in by_severity(findings)] == ["d", "c", "b", "a"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.7, "1 min 0 s"), (725, "12 min 5 s"), (3720, "1 h 2 min")],
)
def test_durations_are_formatted_in_common_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
