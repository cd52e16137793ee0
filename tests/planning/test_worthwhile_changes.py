"""A published day is rostered again only if that is worthwhile: overrides, later runs, and what-if."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forecaster.config import load
from forecaster.planning import service
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, PROPOSED, STAFFING, THURSDAY, current, day, publish_as_of, publish_nights


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet with enough vans, in which changing a crew costs as much as three missing drivers."""
    staffing = STAFFING.replace("vans: {total: 30}", "vans: {total: 300}, change_cost: 114")
    return publish_nights(tmp_path_factory.mktemp("costly"), fleets.counts("ABCD"), staffing=staffing)


def test_override_changes_a_crew_only_if_that_saves_more_than_it_costs(costly: Fleet) -> None:
    published = day(current(costly.spec))
    assert published.drivers is not None
    assert published.roster is not None
    assert (published.roster.left, published.roster.changed_at) == (None, None)
    middle = current(costly.spec).levels.index(0.5)
    orders = round(published.quantiles[middle]) + 15  # worth a driver and a half
    some_more = replace(PROPOSED, orders=orders)
    answer = Questions.of(costly.spec.paths.folder, current(costly.spec)).ask(
        Supposition("A", THURSDAY, "orders", orders)
    )
    saved = service.save(costly.spec, some_more)
    shown = day(current(costly.spec))
    assert (shown.quantiles[middle], shown.drivers) == (orders, published.drivers)
    assert answer.after.drivers == shown.drivers
    assert shown.roster is not None
    assert shown.roster.left is not None
    assert shown.roster.left.drivers > published.drivers
    assert 0 < shown.roster.left.saving <= 114
    assert shown.roster.left.change_cost == 114
    service.save(costly.spec, replace(PROPOSED, orders=orders + 100))  # ten drivers
    changed = day(current(costly.spec))
    assert changed.drivers is not None
    assert changed.roster is not None
    assert changed.drivers >= published.drivers + 10
    assert changed.roster.left is None
    assert changed.roster.changed_at is not None
    for override in (saved.override.id, saved.override.id + 1):
        service.withdraw(costly.spec, override, by="Ana")
    assert day(current(costly.spec)).drivers == published.drivers


def test_rerun_keeps_crews_not_worth_changing_and_the_next_day_replans(
    costly: Fleet,
) -> None:
    first = current(costly.spec)
    before = {(depot.depot_id, there.target_date): there for depot in first.depots for there in depot.days}
    cheaper = costly.file.with_name("cheaper.yaml")
    cheaper.write_text(costly.file.read_text("utf-8").replace("cost_short: 38", "cost_short: 99"), "utf-8")
    spec = load(cheaper)  # all depots want more drivers, but save less than a change costs
    publish_as_of(spec, AS_OF + timedelta(hours=2))
    later = current(spec)
    assert later.run_id != first.run_id or later.published_at > first.published_at
    left = [there for depot in later.depots for there in depot.days if there.roster and there.roster.left]
    assert left
    for depot in later.depots:
        for there in depot.days:
            if there.open and (depot.depot_id, there.target_date) in before:
                assert there.drivers == before[depot.depot_id, there.target_date].drivers
    fleets.fill(spec, fleets.counts("ABCD", 101, 100), fleets.CITIES, now=AS_OF + DAY)
    publish_as_of(spec, AS_OF + DAY)
    assert not [there for depot in current(spec).depots for there in depot.days if there.roster and there.roster.left]
