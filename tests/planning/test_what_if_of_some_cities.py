"""Who sees some cities is answered a what-if as if theirs were all depots that there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from forecaster.planning import service
from tests import fleets
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.fleets import AS_OF, CITIES, Fleet
from tests.planning.nights import PROPOSED, THURSDAY, current, day, publish_nights

WITHOUT_VANS = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22}\n"  # which all depots share
KINDS = ("orders", "closed", "open", "promo")
VALUES = ("0", "1", "90")
ALL_COSTS = "The same, of all your depots that day"


@dataclass(frozen=True)
class Readers:
    """Readers of the same cities, of the whole fleet's page and of one that has the depots of these cities alone."""

    whole: Guest
    alone: Guest
    depots: str


def _reader(fleet: Fleet, cities: list[str]) -> Guest:
    return signed_in(house(fleet.spec.ledger_url, declared(cities={"vic": cities}), AS_OF, fleet.spec, "small"), "vic")


def _fleet(folder: Path, depots: str) -> Fleet:
    folder.mkdir()
    cities = {depot: city for depot, city in CITIES.items() if depot in depots}
    return publish_nights(folder, fleets.counts(depots), cities, WITHOUT_VANS)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    folder = tmp_path_factory.mktemp("some")
    whole, alone = _fleet(folder / "whole", "ABCD"), _fleet(folder / "alone", "AC")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        yield Readers(_reader(whole, ["Ulm"]), _reader(alone, ["Ulm"]), "AC")


def _answer(body: str) -> str:
    """The part of a plan's page that answers; the rest names the publication's instant and this reader's token."""
    found_section = re.search(r'<section aria-labelledby="answer">.*?</section>', body, re.S)
    return found_section[0] if found_section else ""


def test_each_what_if_in_each_format_is_that_of_their_depots_alone(readers: Readers) -> None:
    answered = 0
    for depot, kind, value in product("ABCD", KINDS, VALUES):
        asked = f"depot={depot}&kind={kind}&value={value}"
        for path in (f"/api/v1/what-if?date={THURSDAY}&{asked}", f"/plan?day={THURSDAY}&{asked}"):
            for suffix in ("", "&format=csv"):
                whole, alone = readers.whole(path + suffix), readers.alone(path + suffix)
                read: Callable[[str], str] = _answer if path.startswith("/plan") else str
                assert (whole.status_code, read(whole.text)) == (alone.status_code, read(alone.text)), path
                assert (whole.status_code != 404) == (depot in readers.depots), path
                answered += whole.status_code == 200
                if path.startswith("/plan") and whole.status_code == 200:
                    assert ALL_COSTS in whole.text
    assert answered == len(readers.depots) * len(KINDS) * len(VALUES) * 4


@pytest.mark.parametrize("cities", [["Ulm"], ["Bonn"], ["Ulm", "Bonn"], ["*"]])
def test_the_cost_of_all_is_that_of_the_rosters_which_the_reader_sees(
    fleet: Fleet, cities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, and after an override is saved, with vans that all cities share."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    visible = [depot for depot, city in CITIES.items() if city in cities or "*" in cities]
    depot = visible[0]

    def published_costs() -> float:
        rosters = [day(current(fleet.spec), name).roster for name in visible]
        return sum(roster.cost for roster in rosters if roster is not None)

    path = f"/api/v1/what-if?date={THURSDAY}&depot={depot}&kind=orders&value={PROPOSED.orders}"
    answer = _reader(fleet, cities)(path).json()
    assert answer["before"]["cost_of_all"] == pytest.approx(published_costs())
    service.save(fleet.spec, PROPOSED.__class__(depot, THURSDAY, PROPOSED.orders, "weather", "Ana"))
    assert answer["after"]["cost_of_all"] == pytest.approx(published_costs())


def test_who_sees_no_city_is_answered_nothing(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    reader = _reader(fleet, [])
    for path in (f"/api/v1/what-if?date={THURSDAY}&depot=A&kind=closed", "/plan?depot=A"):
        assert reader(path).status_code == 403
