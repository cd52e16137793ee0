"""A publication by groups is bit-identical to the whole one, including all dependencies between
depots."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.publishing.forecast import ModelChoice
from forecaster.publishing.groups import publish_groups
from forecaster.publishing.groups.group_work import GroupForecast
from forecaster.serving import totals
from tests.publishing.groups import fleet


def test_publication_by_groups_is_bit_identical_to_the_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "CHUNK", fleet.AT_A_TIME)
    spec = fleet.build(tmp_path)
    whole = fleet.whole(spec)
    for name, age in (("killed", 2 * publish_groups.LEFT_SECONDS), ("another", 60)):
        folder = spec.paths.groups / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    grouped = fleet.by_groups(spec)
    fleet.same(whole, grouped)
    published = {(total.level, total.name, total.days) for total in whole[1].totals}
    assert {("city", "", 7), ("city", "Ulm", 1), ("country", "AT", 7), ("region", "north", 1)} <= published
    assert {len(depot.weeks) for depot in whole[1].depots} == {2}
    assert [folder.name for folder in spec.paths.groups.iterdir()] == ["another"]


@pytest.mark.parametrize(
    ("staffing", "reason"),
    [
        ({"vans": {"total": 3}}, "staffing.vans are shared by depots"),
        ({"change_cost": 5}, "staffing.change_cost or change_hour looks at what is published"),
        (
            {"notice_days": 1, "change_premium": [{"added": 5}]},
            "staffing.notice_days looks at the published schedule",
        ),
        ({}, None),
    ],
)
def test_obstacle_names_settings_that_need_all_depots(staffing: dict[str, Any], reason: str | None) -> None:
    declared = {
        "name": "t",
        "demand": {"source": {"kind": "csv", "path": "demand.csv"}},
        "staffing": {"orders_per_driver": 10, "cost_short": 38, "cost_idle": 22, **staffing},
    }
    choice = ModelChoice(Path("bundle"), "t v1", "champion")
    assert publish_groups.obstacle(Spec.model_validate(declared), choice) == reason
    assert publish_groups.obstacle(Spec.model_validate(declared), replace(choice, bundle=None)) == "no bundle forecasts"


def test_findings_of_all_groups_are_combined_by_rule() -> None:
    findings = [Finding("r", "warn", count, f"depot {count}", ((str(count), "2024-01-01"),)) for count in (1, 2, 3)]
    parts = [GroupForecast(1, 1, (), (finding,), ((), 0), ()) for finding in findings]
    [finding] = publish_groups.combined_findings(parts)
    assert (finding.count, finding.message) == (6, "depot 1; likewise in 2 more groups of depots")
    assert [depot for depot, _ in finding.places] == ["1", "2", "3"]
