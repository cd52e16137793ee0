"""A reader of some cities gets what-if answers as if their depots were the only ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.ledger import soundness, tables
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs, service
from tests import fleets
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.fleets import AS_OF, CITIES, Fleet
from tests.planning.nights import PROPOSED, STAFFING, THURSDAY, current, day, publish_nights

# vans would be shared by all depots
WITHOUT_VANS = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22}\n"
KINDS = ("orders", "closed", "open", "promo")
VALUES = ("0", "1", "90")
ALL_COSTS = "The same, of all your depots that day"


@dataclass(frozen=True)
class Readers:
    """Readers of the same cities: of the whole fleet's page, and of a fleet with only these cities'
    depots."""

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
    """Section of a plan's page with the answer; the rest contains the publication's instant and the
    reader's token."""
    found_section = re.search(r'<h3 id="answer">.*?</table>', body, re.S)
    return found_section[0] if found_section else ""


def test_every_answer_equals_that_of_a_fleet_with_only_their_depots(readers: Readers) -> None:
    answered = 0
    for depot, kind, value in product("ABCD", KINDS, VALUES):
        asked = f"kind={kind}&value={value}"
        for path in (f"/api/v1/what-if?date={THURSDAY}&depot={depot}&{asked}", f"/day/{THURSDAY}/{depot}?{asked}"):
            for suffix in ("", "&format=csv"):
                whole, alone = readers.whole(path + suffix), readers.alone(path + suffix)
                read: Callable[[str], str] = _answer if path.startswith("/day") else str
                assert (whole.status_code, read(whole.text)) == (alone.status_code, read(alone.text)), path
                assert (whole.status_code != 404) == (depot in readers.depots), path
                answered += whole.status_code == 200
                if path.startswith("/day") and whole.status_code == 200:
                    assert ALL_COSTS in whole.text
    assert answered == len(readers.depots) * len(KINDS) * len(VALUES) * 4


@pytest.mark.parametrize("cities", [["Ulm"], ["Bonn"], ["Ulm", "Bonn"], ["*"]])
def test_cost_of_all_covers_only_the_rosters_that_the_reader_sees(
    fleet: Fleet, cities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For readers of all depots, also after an override is saved, with vans shared by all cities."""
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
    if len(visible) == len(CITIES):
        assert answer["after"]["cost_of_all"] == pytest.approx(published_costs())


def _triple_bonn(spec: Spec) -> None:
    """Triple the expected orders of the depots of Bonn, and leave those of Ulm as published."""
    publication = current(spec)
    others = [depot for depot, city in CITIES.items() if city == "Bonn"]
    inputs = saved_inputs.read(spec.paths.saved_inputs, publication.desk)
    is_other = np.isin(inputs.panel.depot_ids, others)
    demand = np.where(is_other[:, None], 3 * inputs.panel.demand, inputs.panel.demand)
    desk = saved_inputs.write(
        spec.paths.saved_inputs, replace(inputs, panel=replace(inputs.panel, demand=demand.astype(np.float32)))
    )
    table = tables.published
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        connection.execute(tables.publications.update().values(desk=desk))
        for row in connection.execute(sa.select(table).where(table.c.depot_id.in_(others))).mappings().all():
            here = [table.c[name] == row[name] for name in ("publication_id", "depot_id", "target_date")]
            tripled = [3 * orders for orders in row["quantiles"]]
            connection.execute(table.update().where(*here).values(quantiles=tripled))
        for number in connection.execute(sa.select(tables.publications.c.publication_id)).scalars().all():
            soundness.write_digest(connection, number)


@pytest.mark.parametrize("vans", [12, 30])  # too few on that day, and enough
def test_answers_are_independent_of_other_cities_needs(
    tmp_path: Path, vans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    staffing = STAFFING.replace("total: 30", f"total: {vans}")
    fleet = publish_nights(tmp_path, fleets.counts("ABCD"), CITIES, staffing)
    lack = day(current(fleet.spec)).roster
    assert lack is not None
    assert (lack.shortage is not None) == (vans == 12)
    paths = [
        f"/api/v1/what-if?date={THURSDAY}&depot={depot}&kind={kind}&value={value}&format={form}"
        for depot, (kind, value), form in product("AC", (("orders", 9), ("orders", 900), ("promo", 1)), ("json", "csv"))
    ]
    before = [*map(_reader(fleet, ["Ulm"]), paths)]
    whole = _reader(fleet, ["*"])(paths[2]).json()
    _triple_bonn(fleet.spec)
    after = [*map(_reader(fleet, ["Ulm"]), paths)]
    assert [answer.status_code for answer in before] == [200] * len(paths)
    assert [answer.content for answer in after] == [answer.content for answer in before]
    assert _reader(fleet, ["*"])(paths[2]).json() != whole


def test_reader_without_cities_gets_no_answer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    reader = _reader(fleet, [])
    for path in (f"/api/v1/what-if?date={THURSDAY}&depot=A&kind=closed", f"/day/{THURSDAY}/A"):
        assert reader(path).status_code == 403
