"""A request for several days and depots is stored completely, as an override for each open day, or
not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from typer.testing import CliRunner

from forecaster.cli.app import app
from forecaster.errors import OverrideError
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedMark, PublishedOverride
from forecaster.ledger.store import Ledger
from forecaster.planning import override_groups, service
from forecaster.planning.override_groups import OverrideGroup, share_of_orders
from tests.fleets import AS_OF, CITIES, Fleet
from tests.panels import LEVELS
from tests.planning.nights import THURSDAY, current, day

FRIDAY = date(2024, 4, 12)
TUESDAY, WEDNESDAY = date(2024, 1, 2), date(2024, 1, 3)
GROUP = OverrideGroup(("A",), TUESDAY, WEDNESDAY, "weather", "Ana", orders=50)
DEPOTS = (
    PublishedDepot(
        "A",
        (PublishedDay(TUESDAY, 1, True, (80, 103, 130)), PublishedDay(WEDNESDAY, 2, False, (0, 0, 0))),
        attributes={"city": "Ulm"},
        marks=(PublishedMark(WEDNESDAY, "closed_weekday", ""),),
    ),
    PublishedDepot(
        "B",
        (PublishedDay(TUESDAY, 1, True, (1, 4.5, 9)), PublishedDay(WEDNESDAY, 2, True, (0, 0.4, 2))),
        attributes={"city": "Ulm"},
    ),
    PublishedDepot(
        "C",
        (PublishedDay(TUESDAY, 1, True, (10, 20, 30)), PublishedDay(WEDNESDAY, 2, False, (0, 0, 0))),
        attributes={"city": "Bonn"},
    ),
)


def _cells(group: OverrideGroup) -> tuple[list[tuple[str, date, int]], int]:
    overrides, closed = group.expand(DEPOTS, LEVELS)
    return [(override.depot_id, override.target_date, override.orders) for override in overrides], closed


def test_city_and_range_expand_to_open_days() -> None:
    city = replace(GROUP, depot_ids=(), city="Ulm")
    assert _cells(city) == ([("A", TUESDAY, 50), ("B", TUESDAY, 50), ("B", WEDNESDAY, 50)], 1)
    assert _cells(replace(GROUP, depot_ids=("C", "A", "C"), last=TUESDAY)) == (
        [("C", TUESDAY, 50), ("A", TUESDAY, 50)],
        0,
    )


@pytest.mark.parametrize("period", [(TUESDAY, date(2024, 1, 4)), (date(2024, 1, 1), WEDNESDAY)])
def test_rejects_ranges_with_unpublished_days(period: tuple[date, date]) -> None:
    first, last = period
    wanted = f"date: found {first} to {last}, wanted published days, from 2024-01-02 to 2024-01-03"
    with pytest.raises(OverrideError, match=wanted):
        _cells(replace(GROUP, first=first, last=last))


def test_single_named_day_off_is_opened() -> None:
    assert _cells(replace(GROUP, first=WEDNESDAY)) == ([("A", WEDNESDAY, 50)], 0)
    with pytest.raises(OverrideError, match="A is closed on 2024-01-03; wanted an open day"):
        _cells(replace(GROUP, first=WEDNESDAY, orders=None, percent=10))  # a percentage of nothing
    with pytest.raises(OverrideError, match="C is closed on 2024-01-03; wanted an open day"):
        _cells(replace(GROUP, depot_ids=("C",), first=WEDNESDAY))


def test_percentage_refers_to_the_models_number_even_under_an_override() -> None:
    share = replace(GROUP, depot_ids=("A", "B"), orders=None, percent=10.0)
    assert _cells(share) == ([("A", TUESDAY, 113), ("B", TUESDAY, 5), ("B", WEDNESDAY, 0)], 1)
    override = PublishedOverride(1, 7, (80, 103, 130), "weather", "", "Ana", AS_OF, TUESDAY)
    first = replace(DEPOTS[0].days[0], quantiles=(5, 7, 9), override=override)
    overrides, _ = share.expand((replace(DEPOTS[0], days=(first,)), DEPOTS[1]), LEVELS)
    assert overrides[0].orders == 113
    assert [share_of_orders(103, percent) for percent in (-100, -50, 0, 50.0)] == [0, 52, 103, 155]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"orders": None}, "found neither of orders and percent, wanted one of them"),
        ({"percent": 5.0}, "found both of orders and percent, wanted one of them"),
        ({"orders": None, "percent": -101.0}, "percent: found -101.0, wanted a number from -100 to 1000"),
        ({"orders": None, "percent": float("nan")}, "percent: found nan, wanted a number from -100 to 1000"),
        ({"last": date(2024, 1, 1)}, "last: found 2024-01-01, before the first, 2024-01-02; wanted it or a later day"),
        ({"depot_ids": ()}, "found no depot, or both depots and a city; wanted depots or a city"),
        ({"city": "Ulm"}, "found no depot, or both depots and a city; wanted depots or a city"),
        ({"depot_ids": ("A", "X")}, "depot: found 'X', wanted a depot of the published forecasts"),
        ({"depot_ids": (), "city": "Rom"}, "city: found 'Rom', wanted one of Bonn, Ulm"),
        (
            {"first": date(2024, 2, 1), "last": date(2024, 2, 3)},
            "date: found 2024-02-01 to 2024-02-03, wanted published days, from 2024-01-02 to 2024-01-03",
        ),
        ({"orders": -1}, "orders: found -1, wanted a whole number from 0 to 10,000,000"),
    ],
)
def test_rejects_invalid_groups(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OverrideError, match=sentence):
        _cells(replace(GROUP, **wrong))


def test_rejects_groups_with_too_many_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_groups, "MOST_CELLS", 3)
    with pytest.raises(OverrideError, match="found 4 depots and days, wanted at most 3 in one request"):
        _cells(replace(GROUP, depot_ids=("A", "B")))


def test_group_is_saved_and_shown_atomically(fleet: Fleet) -> None:
    group = OverrideGroup((), THURSDAY, FRIDAY, "weather", "Ana", city="Ulm", percent=50.0, note="storm")
    depots = [depot for depot, city in CITIES.items() if city == "Ulm"]
    before = current(fleet.spec)
    with pytest.raises(OverrideError, match="reason: found 'mood'"):
        service.save_group(fleet.spec, replace(group, reason="mood"))
    assert current(fleet.spec) == before
    sentences = []
    change = service.save_group(fleet.spec, group, audit=lambda _, saved: sentences.append(saved.sentence()))
    after = current(fleet.spec)
    for override in change.overrides:
        model = day(before, override.depot_id, override.target_date).quantiles[1]
        shown = day(after, override.depot_id, override.target_date)
        assert (shown.quantiles[1], override.orders) == (share_of_orders(model, 50), share_of_orders(model, 50))
    assert {override.depot_id for override in change.overrides} == set(depots)
    total = sum(override.orders for override in change.overrides)
    last = len(change.overrides)
    span = f"overrides 1 to {last}: {len(depots)} depots on 2024-04-11 to 2024-04-12, {total:,} orders together"
    assert sentences == [change.sentence()]
    again = service.save_group(fleet.spec, group, audit=lambda _, saved: sentences.append(saved.sentence()))
    assert (again.overrides, len(sentences)) == (change.overrides, 1)
    assert change.sentence().startswith(span)


def test_override_command_accepts_depots_a_range_and_a_percentage(fleet: Fleet) -> None:
    common = ["override", str(fleet.file), "--date", "2024-04-11", "--reason", "weather", "--by", "Ana"]
    options = ["--depot", "A", "--depot", "B", "--to", "2024-04-12", "--percent", "-25"]
    saved = CliRunner().invoke(app, [*common, *options])
    assert saved.exit_code == 0, saved.output
    assert "overrides 1 to 4: 2 depots on 2024-04-11 to 2024-04-12" in saved.stdout
    one = CliRunner().invoke(app, [*common, "--depot", "A", "--orders", "90"])
    assert one.stdout == "override 5: A on 2024-04-11 is 90 orders (weather), until 2024-04-11\n"
    neither = CliRunner().invoke(app, [*common, "--depot", "A"])
    assert isinstance(neither.exception, OverrideError)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        assert len(service.list_overrides(ledger, fleet.spec.name)) == 5
