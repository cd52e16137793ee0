"""Depots with counts before their declared opening or after their declared closing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forecaster.core.knowledge import Finding
from forecaster.core.panel import Panel
from forecaster.demand.panel.build import build
from forecaster.demand.panel.panel_findings import panel_findings
from tests.demand.literal_knowledge import DEPOTS, days, knowledge, spec_of

NEWEST = "2024-03-04"  # 4 March is the last day that is over; 5 and 6 March are ahead


def business(
    folder: Path, opened: str | None, closed: str | None, counted: list[str]
) -> tuple[Panel, tuple[Finding, ...]]:
    """Panel of depot A, which is always open and has counts, and of B, and the findings."""
    dates: dict[str, Any] = {"city": "", "country": ""}
    depots = [
        {"depot_id": "A", **dates, "opened": None, "closed": None},
        {"depot_id": "B", **dates, "opened": opened, "closed": closed},
    ]
    demand = [("A", day, 5.0) for day in days("2024-02-01", NEWEST)] + [("B", day, 7.0) for day in counted]
    known = knowledge(demand, depots=depots)
    spec = spec_of(folder, DEPOTS)
    return (panel := build(known, spec)), panel_findings(known, panel, spec)


@pytest.mark.parametrize(
    ("opened", "closed", "sentence"),
    [
        (
            "2027-01-01",
            None,
            "is not in business before 2027-01-01 but has counts on 33 days before, up to 2024-03-04",
        ),
        (
            None,
            "2016-01-01",
            "is out of business from 2016-01-01 on but has counts on 33 days since, up to 2024-03-04",
        ),
        (
            None,
            "2024-02-20",
            "is out of business from 2024-02-20 on but has counts on 14 days since, up to 2024-03-04",
        ),
        (  # swapped
            "2027-01-01",
            "2016-01-01",
            "is not in business before 2027-01-01 but has counts on 33 days before, up to 2024-03-04, and is out of "
            "business from 2016-01-01 on but has counts on 33 days since, up to 2024-03-04",
        ),
    ],
)
def test_depot_with_counts_on_most_newest_days_is_open_with_a_finding(
    tmp_path: Path, opened: str | None, closed: str | None, sentence: str
) -> None:
    panel, [finding] = business(tmp_path, opened, closed, days("2024-02-01", NEWEST))
    assert panel.open.all()
    assert (finding.rule, finding.severity) == ("out_of_business", "warn")
    assert finding.places == (("B", NEWEST),)
    assert finding.message == (
        f"depot B {sentence}: forecast as open, because it has counts; wanted no counts before `opened` and from "
        f"`closed` on, or other days in the depots source"
    )


@pytest.mark.parametrize(
    ("opened", "closed", "counted", "number"),
    [
        ("2024-02-10", None, days("2024-02-01", NEWEST), 9),  # opened since
        ("2024-03-01", None, days("2024-02-20", NEWEST), 10),
        (None, "2024-02-10", days("2024-02-01", "2024-02-12"), 3),  # a few days after the last day of business
        (None, "2024-02-27", days("2024-02-01", NEWEST), 7),
        (None, "2024-02-28", days("2024-02-01", NEWEST), 6),  # a few days may be leftovers
        ("2024-04-01", None, ["2024-02-20", "2024-02-25", NEWEST], 3),  # not most of the days
    ],
)
def test_declared_day_not_contradicted_by_most_newest_counts_is_followed(
    tmp_path: Path, opened: str | None, closed: str | None, counted: list[str], number: int
) -> None:
    panel, [finding] = business(tmp_path, opened, closed, counted)
    followed = number != 7
    is_open = opened is not None and opened < "2024-03-05"
    assert panel.open[1, panel.history :].tolist() == [is_open or not followed] * 2
    assert finding.count == number
    assert ("forecast as open" in finding.message) is not followed


@pytest.mark.parametrize(
    ("opened", "closed", "counted"),
    [
        ("2024-02-10", None, days("2024-02-10", NEWEST)),
        (None, "2024-02-20", days("2024-02-01", "2024-02-19")),
        (None, "2024-03-06", days("2024-02-01", NEWEST)),
        ("2024-03-06", None, []),
        (None, None, days("2024-02-01", NEWEST)),
    ],
)
def test_counts_only_within_the_days_of_business_give_no_finding(
    tmp_path: Path, opened: str | None, closed: str | None, counted: list[str]
) -> None:
    assert business(tmp_path, opened, closed, counted)[1] == ()


def test_finding_lists_depots_forecast_as_open_first_and_names_five(tmp_path: Path) -> None:
    names = "BCDEFGH"
    depots = [{"depot_id": name, "opened": "2024-03-01", "closed": None, "city": "", "country": ""} for name in names]
    depots[-1]["opened"] = "2124-03-01"
    demand = [(name, day, 7.0) for name in names[:-1] for day in days("2024-02-01", NEWEST)]
    demand += [("H", day, 7.0) for day in days("2024-02-25", NEWEST)]
    known, spec = knowledge(demand, depots=depots), spec_of(tmp_path, DEPOTS)
    [finding] = panel_findings(known, build(known, spec), spec)
    assert finding.message.startswith("depot H is not in business before 2124-03-01 but has counts on 9 days before")
    assert "depot E is not" in finding.message
    assert "depot F" not in finding.message
    assert "; and 2 more depots; wanted" in finding.message
    assert (finding.count, len(finding.places)) == (6 * 29 + 9, 7)
