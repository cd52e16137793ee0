"""A pipeline with backfilled nights shows the value of its rosters from the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forecaster.errors import DEGRADED
from tests import small_fleet
from tests.flows.tiny import pipeline, pipeline_for_prefect

MORE = "execution: {cost_per_hour: 3.6}\n"


@pytest.mark.e2e
def test_backfilled_nights_have_a_value_on_the_page_in_the_api_and_on_the_command_line(tmp_path: Path) -> None:
    """Five mornings without a model: the seasonal naive forecasts, equal to last week's rosters."""
    file = pipeline_for_prefect(tmp_path, MORE)
    file.write_text(file.read_text("utf-8").replace("staffing: {", "staffing: {currency: EUR, "), "utf-8")
    small_fleet.well("predict-only", file, "--plain", "--as-of", "2026-04-27", code=DEGRADED)
    assert "no costs are known yet" in small_fleet.well("value", file).out
    small_fleet.well("backfill", file, "--plain", "--from", "2026-05-05", "--to", "2026-05-09", code=DEGRADED)
    published = small_fleet.well("predict-only", file, "--plain", "--as-of", "2026-05-11", code=DEGRADED)
    assert "the cost of rosters is not computed" not in published.out

    account = json.loads(small_fleet.well("value", file, "--weeks", "8", "--json").out)
    assert (account["first"], account["last"], account["currency"]) == ("2026-04-27", "2026-05-10", "EUR")
    # the first week was published once, the fourth of May not at all, and the tenth uses the roster
    # of the day before
    assert (account["days"], account["backfilled"]) == (13, 6)
    ways = {total["way"]: total for total in account["whole"]["ways"]}
    assert ways["our rosters"]["depot_days"] == 13 * 4
    assert ways["our rosters"]["cost"]["amount"] == ways["the model alone"]["cost"]["amount"]
    assert ways["perfect foresight"]["cost"]["amount"] == 0
    text = small_fleet.well("value", file).out
    assert "2026-04-27 to 2026-05-10: 13 days, amounts in EUR" in text
    with small_fleet.page(file) as client:
        page = client.get("/value?weeks=8").text
        assert "Cost of each rostering policy" in page
        assert "The forecasts of 6 of these days were made afterwards" in page
        assert "Cost of the forecasts" in page
        assert client.get("/value").text.count('aria-current="page"') == 1
        rows = client.get("/api/v1/value").json()["rows"]
        assert {row["weeks"] for row in rows} == {8, 26, 52}
        csv = client.get("/api/v1/value?format=csv").text.splitlines()
        assert csv[0].startswith("weeks,part,label,way,depot_days,cost,")
        assert len(csv) == 1 + len(rows)
        assert "per forecast." in client.get("/health").text


@pytest.mark.e2e
def test_value_command_reports_missing_costs_with_an_example(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    file.write_text(file.read_text("utf-8").partition("staffing:")[0], "utf-8")
    refused = small_fleet.well("value", file, code=2)
    assert "found no section staffing, by which rosters have a cost; wanted one, as in staffing:" in refused.err
