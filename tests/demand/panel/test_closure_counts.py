"""Depots with counts while an event closes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forecaster.core.knowledge import Finding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.panel_findings import panel_findings
from tests.demand.literal_knowledge import EVENTS, days, knowledge, spec_of

NEWEST = "2024-03-04"  # 5 and 6 March are ahead


def found(folder: Path, counted: list[str], closed: list[str], **of: Any) -> tuple[Finding, ...]:
    """Findings about depot A, which is closed on some days; the feed continues with B."""
    demand = [("A", day, 5.0) for day in counted] + [("B", day, 7.0) for day in days("2024-02-01", NEWEST)]
    events = [{"date": day, "kind": "Closure", "name": "", "depot_id": "A", **of} for day in closed]
    known = knowledge(demand, events=events)
    spec = spec_of(folder, calendar=f"holidays: false, {EVENTS}")
    panel = build(known, spec)
    assert panel.open[0, panel.history :].tolist() == [day not in closed for day in ("2024-03-05", "2024-03-06")]
    return panel_findings(known, panel, spec)


def test_depot_with_counts_during_a_closure_is_forecast_as_closed_with_a_finding(tmp_path: Path) -> None:
    [finding] = found(tmp_path, days("2024-02-01", NEWEST), days("2024-03-01", "2024-03-06"))
    assert (finding.rule, finding.severity, finding.count) == ("closure_counts", "warn", 4)
    assert finding.places == (("A", NEWEST),)
    assert finding.message == (
        "depot A is closed by an event but has counts on 4 days of it, up to 2024-03-04: forecast as closed; wanted "
        "no counts while an event closes a depot, or another last day of it"
    )


@pytest.mark.parametrize(
    ("counted", "closed"),
    [
        (days("2024-02-01", "2024-02-29"), days("2024-03-01", "2024-03-06")),
        (days("2024-02-01", "2024-03-01"), days("2024-03-01", "2024-03-06")),  # leftovers of one day
        (days("2024-02-01", "2024-03-01"), days("2024-02-29", "2024-03-06")),  # 2 of 5 days
        (days("2024-02-01", NEWEST), days("2024-03-01", NEWEST)),  # it ends
        (days("2024-02-01", NEWEST), days("2024-03-05", "2024-03-06")),  # it begins
        (days("2024-02-01", NEWEST), []),
    ],
)
def test_closure_contradicted_by_few_counts_or_already_over_gives_no_finding(
    tmp_path: Path, counted: list[str], closed: list[str]
) -> None:
    assert found(tmp_path, counted, closed) == ()
