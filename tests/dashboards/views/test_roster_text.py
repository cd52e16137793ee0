"""A day's roster as a sentence, on the depot's page and in the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboards.ops.views.roster_text import chance, sentence
from forecaster.ledger.publication import LeftCrew, PublishedDay, PublishedRoster, Shortage
from tests.dashboards.seed import depot, fill, publication
from tests.dashboards.visitor import text, visitor

BOS = depot(0).days[1]
CREW = PublishedRoster(12, 0.125, 60.0, 75.0, 91.2, borrowed=(("NYC-03", 2),))


def day(drivers: int | None = 12, roster: PublishedRoster | None = CREW, **changes: Any) -> PublishedDay:
    return replace(BOS, drivers=drivers, roster=replace(roster, **changes) if roster else None)


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (
            day(),
            "12 drivers, 12 vans (2 lent by NYC-03); 1 chance in 8 of being short; one fewer would cost 31 more",
        ),
        (
            day(1, vans=1, borrowed=(), lent=(("NYC-01", 1), ("NYC-02", 3)), one_fewer=None),
            "1 driver, 1 van (1 lent to NYC-01, 3 lent to NYC-02); 1 chance in 8 of being short; "
            "one more would cost 15 more",
        ),
        (
            day(vans=None, borrowed=(), one_more=20.0),
            "12 drivers; 1 chance in 8 of being short; one more would save 40",
        ),
        (
            day(borrowed=(), one_fewer=60.2),
            "12 drivers, 12 vans; 1 chance in 8 of being short; one fewer would cost as much",
        ),
        (day(vans=None, borrowed=(), one_more=None, one_fewer=None), "12 drivers; 1 chance in 8 of being short"),
        (
            day(vans=12, borrowed=(), shortage=Shortage("New York", 0.884, network=True), one_more=20.0),
            "12 drivers, 12 vans; no van left in New York; vans for 88\N{NO-BREAK SPACE}% of what the network needs; "
            "1 chance in 8 of being short; one more would save 40",
        ),
        (
            day(borrowed=(), shortage=Shortage("Boston", 0.999, network=False)),
            "12 drivers, 12 vans; no van left in Boston; vans for 99\N{NO-BREAK SPACE}% of what the city needs; "
            "1 chance in 8 of being short; one fewer would cost 31 more",
        ),
        (
            day(borrowed=(), shortage=Shortage("", 0.5, network=True)),
            "12 drivers, 12 vans; no van left; vans for 50\N{NO-BREAK SPACE}% of what the network needs; "
            "1 chance in 8 of being short; one fewer would cost 31 more",
        ),
        (
            day(4, vans=None, borrowed=(), left=LeftCrew(5, 12.3, 20)),
            "4 drivers; left at 4 as published before: 5 would save 12, a change costs 20; "
            "1 chance in 8 of being short",
        ),
        (
            day(4, vans=None, borrowed=(), left=LeftCrew(3, -8, 20)),
            "4 drivers; left at 4 as published before: 3 would cost 8 more here, and the savings elsewhere are less "
            "than the cost of the changes; 1 chance in 8 of being short",
        ),
        (
            day(4, vans=None, borrowed=(), left=LeftCrew(5, 12, 0, 14)),
            "4 drivers; left at 4 as published before: 5 would save 12, but from 14:00 on a depot may change only "
            "once a day; 1 chance in 8 of being short",
        ),
        (
            day(
                5,
                vans=None,
                borrowed=(),
                shifts=(("early", 3), ("late", 2)),
                left=LeftCrew(5, 9, 20, None, (("early", 2), ("late", 3))),
            ),
            "5 drivers (3 early, 2 late); left at 3 early, 2 late as published before: 2 early, 3 late would save 9, "
            "a change costs 20; 1 chance in 8 of being short",
        ),
        (
            day(vans=None, borrowed=(), one_more=20.0, shifts=(("day", 12),)),
            "12 drivers; 1 chance in 8 of being short; one more would save 40",
        ),
        (day(roster=None), ""),
        (replace(day(0), open=False), ""),
    ],
)
def test_a_roster_is_one_short_sentence(planned: PublishedDay, expected: str) -> None:
    assert sentence(planned) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0, "less than 1 chance in 100"),
        (0.01, "1 chance in 100"),
        (0.3, "1 chance in 3"),
        (0.4, "1 chance in 2"),
        (0.41, "4 chances in 10"),
        (0.977, "98 chances in 100"),
        (1, "more than 99 chances in 100"),
    ],
)
def test_probabilities_are_expressed_in_whole_numbers(share: float, expected: str) -> None:
    assert chance(share) == expected


def test_the_depots_page_and_the_api_show_the_roster(url: str) -> None:
    first = depot(0)
    days = (first.days[0], day(), *first.days[2:])
    fill(url, replace(publication(), depots=(replace(first, days=days), depot(1))))
    get = visitor(url)
    assert sentence(day()) in text(get("/depot/BOS-01"))
    assert "of being short" not in text(get("/depot/NYC-01"))
    days_out = get("/api/v1/depots/BOS-01").json()["days"]
    assert days_out[0]["roster"] is None
    assert days_out[1]["roster"]["borrowed"] == [["NYC-03", 2]]
    assert days_out[1]["roster"]["one_fewer"] == 91.2


def test_a_lenders_name_is_escaped(url: str) -> None:
    evil = day(borrowed=(("<script>alert(1)</script>", 2),))
    first = depot(0)
    fill(url, replace(publication(), depots=(replace(first, days=(first.days[0], evil, *first.days[2:])),)))
    assert "<script>" not in visitor(url)("/depot/BOS-01").text
