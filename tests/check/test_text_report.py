"""The dry run on one screen."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console
from rich.table import Table

from forecaster.check.dry_run import DryRun, SourceCheck, check
from forecaster.check.profile import Gap, Profile, profile
from forecaster.check.text_report import render, verdict
from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.demand.ingest import IngestResult
from tests.check.test_dry_run import FILES, NOW
from tests.panels import NAN, bare

LONG = "x" * 10_000


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return load(tmp_path / "pipeline.yaml")


def screen(trial: DryRun, *, terminal: bool = False, width: int = 100) -> list[str]:
    """Lines of the screen, which breaks text that is too long."""
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    for part in [*render(trial, tables=terminal, width=width), verdict(trial)]:
        console.print(part, markup=False, soft_wrap=isinstance(part, str))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue().splitlines()
    return [text[start : start + width] for text in printed for start in range(0, max(len(text), 1), width)]


def trial_of(spec: Spec, summary: Profile, *findings: Finding) -> DryRun:
    ingested = IngestResult("b", "demand.csv", 5, 4, 0, 1, findings, {})
    return DryRun(spec, (SourceCheck("demand.source", "demand.csv", 5),), ingested, summary)


def line(trial: DryRun, label: str, *, ascii_only: bool = False) -> str:
    lines = [part for part in render(trial, tables=True, ascii_only=ascii_only) if isinstance(part, str)]
    return next(text.removeprefix(f"{label:10}") for text in lines if text.startswith(f"{label:10}"))


def test_dry_run_renders_as_plain_lines(spec: Spec) -> None:
    trial = check(spec, now=NOW)
    assert [*render(trial, tables=False), verdict(trial)] == [
        f"pipeline  t: the file is valid (digest {spec.digest[:12]})",
        "source    depots.source: depots.csv, 3 rows",
        "source    calendar.events.source: events.csv, 1 row",
        "source    demand.source: demand.csv, 5 rows",
        "contract  5 rows read = 4 accepted + 0 unchanged + 1 quarantined",
        "suspect   count_negative 1",
        "finding   count_negative (quarantine, 1): demand.csv:6: depot B on 2024-03-04, column 'demand': found '-2', "
        "wanted 0 or more (demand.negative)",
        "depots    3, 1 of them without any count; attributes: city",
        "days      3, 2024-03-03 to 2024-03-05: 9 depot days",
        "states    ███████00····!!!!!!!  █ observed 33.3%  0 zero 11.1%  · closed 22.2%  ! missing 33.3%",
        "gaps      3 open depot days without a count, in 2 gaps; the longest 2 days: B from 2024-03-03",
        "counts    median 5 a day on 7 open depot days",
        "busiest   B 6, A 4",
        "ahead     known covariates: promo",
        "forecast  from cutoff 2024-03-05, for 2024-03-06 to 2024-03-12",
        "usable, but 1 of 5 rows (20%) do not count; nothing else was changed",
    ]


def test_terminal_shows_findings_as_a_table(spec: Spec) -> None:
    (table,) = (part for part in render(check(spec, now=NOW), tables=True) if isinstance(part, Table))
    assert table.row_count == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_worst_case_fits_on_one_screen(spec: Spec, terminal: bool) -> None:
    summary = profile(bare([[4.0] * 40, [NAN] * 40]))
    wild = replace(
        summary,
        longest=Gap(LONG, date(2024, 1, 1), 40),
        busiest=((LONG, 1e9), (LONG, 1e9), (LONG, 1e9)),
        quietest=((LONG, 1e9), (LONG, 1e9), (LONG, 1e9)),
        covariates=(LONG, LONG),
        statics=(LONG,),
        weekly=tuple(float(week) for week in range(400)),
    )
    findings = [Finding(f"recorded_in_future_{n}", "quarantine", 10**6, f"[red]\x1b[31m\n{LONG}") for n in range(25)]
    trial = trial_of(spec, wild, *findings)
    sources = tuple(
        SourceCheck(f"{place}.source", "a.csv", 10**9) for place in ("depots", "aliases", "events", "demand")
    )
    lines = screen(replace(trial, sources=sources), terminal=terminal)
    assert len(lines) < 40  # one is for the location of the page
    assert not any("\x1b" in text for text in lines)
    assert any("[red]" in text for text in lines)
    assert any("18 more findings, which the page shows" in text for text in lines)


def test_findings_are_sorted_by_severity_and_rules_by_count(spec: Spec) -> None:
    findings = [
        Finding("late", "warn", 9, "l"),
        Finding("spike", "quarantine", 2, "s"),
        Finding("thin_feed", "stop", 1, "t"),
    ]
    trial = trial_of(spec, profile(bare([[4.0] * 14])), *findings)
    assert line(trial, "suspect") == "late 9, spike 2, thin_feed 1"
    lines = [str(part) for part in render(trial, tables=False)]
    assert [text.split()[1] for text in lines if text.startswith("finding")] == ["thin_feed", "spike", "late"]


def test_reports_a_stopped_batch(spec: Spec) -> None:
    trial = trial_of(spec, profile(bare([[4.0] * 14])))
    assert trial.ingested is not None
    stopped = replace(trial, ingested=replace(trial.ingested, stopped="thin_feed: found 1 of 9 depots"))
    assert line(stopped, "stopped") == "thin_feed: found 1 of 9 depots: no row of this batch counts"


def test_every_existing_state_is_visible_in_the_bar(spec: Spec) -> None:
    rare = MappingProxyType({"observed": 9997, "zero": 1, "closed": 1, "missing": 1})
    summary = replace(profile(bare([[4.0] * 14])), depots=100, days=100, states=rare)
    assert line(trial_of(spec, summary), "states").startswith("█████████████████0·!  █ observed 100.0%  0 zero <0.1%")
    assert line(trial_of(spec, summary), "states", ascii_only=True).startswith("#################0.!  # observed")


def test_sparkline_ranges_from_the_lowest_to_the_highest_week(spec: Spec) -> None:
    summary = replace(profile(bare([[4.0] * 14])), weekly=(10.0, 80.0, 45.0))
    assert line(trial_of(spec, summary), "demand") == "▁█▄  3 weeks of 10 to 80"
    assert line(trial_of(spec, summary), "demand", ascii_only=True) == "_@=  3 weeks of 10 to 80"
    many = replace(summary, weekly=tuple(float(week) for week in range(96)))
    assert len(line(trial_of(spec, many), "demand").split("  ")[0]) == 48


def test_reports_when_there_are_no_findings(spec: Spec) -> None:
    trial = trial_of(spec, profile(bare([[4.0] * 14])))
    assert line(trial, "suspect") == "nothing"
    assert line(trial, "gaps") == "none: every open depot day has a count"
    assert verdict(DryRun(spec, (), fault="no row was accepted")) == "not usable: no row was accepted"


def test_same_instant_gives_the_same_screen(spec: Spec) -> None:
    instant = datetime(2024, 3, 6, 12, tzinfo=UTC)
    assert screen(check(spec, now=instant)) == screen(check(spec, now=instant))
