"""The page of a depot's day: the choices, and answers in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from dashboards.ops.views.planning.override_text import planners_number
from dashboards.ops.views.planning.plan_day import (
    PlanOptions,
    kind_and_value,
    moved_vans,
    plan_page,
    scenario_text,
    together,
    what_if_sheet,
)
from forecaster.ledger.publication import PublishedOverride
from forecaster.planning.scenario import MovedVans, Side, SupposedDay, Supposition, WhatIfAnswer
from tests.dashboards.seed import LEVELS as SEED_LEVELS
from tests.dashboards.seed import depot
from tests.panels import LEVELS

WEDNESDAY, THURSDAY = date(2025, 6, 18), date(2025, 6, 19)
SIDE = Side(True, 80, 100, 130, 2, 2, 10.0, 90.0)
DAYS = (
    SupposedDay(WEDNESDAY, 200, 250, 4, 5, 90.0, 120.0),
    SupposedDay(THURSDAY, 210, 210, 4, 4, 95.0, 95.0),
)
VANS = (
    MovedVans(WEDNESDAY, "BOS-01", 2, 3),
    MovedVans(WEDNESDAY, "BOS-02", 3, 2),
    MovedVans(WEDNESDAY, "BOS-03", 5, 4),
)
ANSWER = WhatIfAnswer(
    Supposition("BOS-01", WEDNESDAY, "promo", 1, ("BOS-02",), THURSDAY),
    SIDE,
    replace(SIDE, orders=150),
    ((WEDNESDAY, 100, 150), (THURSDAY, 105, 105)),
    None,
    DAYS,
    VANS,
)
OPTIONS = PlanOptions(("promo", "degrees", "orders", "closed"), {"promo"}, ("weather",), ("BOS-02",), "Boston", 2)


def test_binary_covariates_have_two_options_and_others_need_a_number() -> None:
    day = depot(0).days[1]
    page = plan_page(depot(0), day, SEED_LEVELS, OPTIONS, None, ANSWER)
    assert [(option.value, option.text, option.chosen) for option in page.kinds] == [
        ("promo:1", "promo: yes", True),
        ("promo:0", "promo: no", False),
        ("degrees", "degrees", False),
        ("orders", "this many orders", False),
        ("closed", "the depot is closed", False),
    ]
    assert [option.text for option in page.scopes] == ["BOS-01", "all 2 depots of Boston"]
    assert [(option.value, option.chosen) for option in page.others] == [("BOS-02", True)]
    assert [option.value for option in page.last_days if option.chosen] == [THURSDAY.isoformat()]
    assert page.last_days[0].value == WEDNESDAY.isoformat()  # no end before the start
    assert kind_and_value("promo:0", 7) == ("promo", 0)
    assert kind_and_value("orders", 7) == ("orders", 7)


@pytest.mark.parametrize(
    ("supposed", "text"),
    [
        (ANSWER.supposed, "promo is on at 2 depots, Wed 18 Jun – Thu 19 Jun"),
        (Supposition("BOS-01", WEDNESDAY, "promo", 0), "promo is off"),
        (Supposition("BOS-01", WEDNESDAY, "degrees", 21.5), "degrees is 21.5"),
        (Supposition("BOS-01", WEDNESDAY, "orders", 1200), "1,200 orders"),
        (
            Supposition("BOS-01", WEDNESDAY, "percent", 10),
            "orders are 10\N{NO-BREAK SPACE}% more than the model’s",
        ),
        (
            Supposition("BOS-01", WEDNESDAY, "percent", -5),
            "orders are 5\N{NO-BREAK SPACE}% fewer than the model’s",
        ),
    ],
)
def test_a_what_if_is_described_in_words(supposed: Supposition, text: str) -> None:
    assert scenario_text(replace(ANSWER, supposed=supposed)) == text


def test_reports_depots_that_lose_or_get_a_van() -> None:
    assert moved_vans(ANSWER) == (
        "Wed 18 Jun, lose a van: BOS-02 (3 → 2), BOS-03 (5 → 4).",
        "Wed 18 Jun, get a van: BOS-01 (2 → 3).",
    )
    many = tuple(MovedVans(THURSDAY, f"D{i:02}", 4, 2) for i in range(15))
    [sentence] = moved_vans(replace(ANSWER, moved_vans=many))
    assert sentence.startswith("Thu 19 Jun, lose vans: D00 (4 → 2),")
    assert sentence.endswith("D11 (4 → 2) and 3 more.")


def test_sums_are_shown_only_for_several_depots_or_days() -> None:
    rows = together(ANSWER, some=True)
    assert [(row.name, row.before, row.after, row.moved) for row in rows[:3]] == [
        ("Orders, Wed 18 Jun", "200", "250", "+50"),
        ("Drivers, Wed 18 Jun", "4", "5", "+1"),
        ("Cost of all your depots, Wed 18 Jun", "90", "120", "+30"),
    ]
    assert len(rows) == 6
    alone = replace(ANSWER, supposed=Supposition("BOS-01", WEDNESDAY, "promo", 1), days=DAYS[:1])
    assert together(alone) == ()
    cells = [row[5] for row in what_if_sheet(ANSWER).rows]
    assert cells[-3:] == ["vans of BOS-01", "vans of BOS-02", "vans of BOS-03"]
    assert cells.count("orders_together") == 2
    assert "orders_together" not in [row[5] for row in what_if_sheet(alone).rows]


def test_the_number_in_front_names_its_planner() -> None:
    override = PublishedOverride(
        3, 140, (80, 103, 130), "weather", "", "Ana", datetime(2025, 6, 17, tzinfo=UTC), WEDNESDAY
    )
    assert planners_number(override, LEVELS) == "Ana’s number; the model says 103"
    assert planners_number(None, LEVELS) == ""
