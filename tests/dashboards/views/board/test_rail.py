"""The rail: the most urgent decisions, by the prices of the run, and depot-days that need none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment

from dashboards.ops.app import HERE, templates
from dashboards.ops.reading.header import Front, front
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.board.prices import Prices
from dashboards.ops.views.board.rail import MOST, RailDecision, decisions
from forecaster.config import Staffing
from forecaster.core.language import use_language
from forecaster.ledger.publication import (
    LeftCrew,
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedOverride,
    Shortage,
)
from forecaster.ledger.records import Head
from forecaster.staffing import newsvendor, rosters
from forecaster.staffing.need import Need
from forecaster.staffing.vans import VanPool
from tests.dashboards.seed import CUTOFF, NOON, PUBLISHED, fill, publication
from tests.panels import LEVELS, forecast
from tests.staffing.shifts.test_shift_crews import EARLY, LATE

TODAY, TOMORROW, LATER = 0, 1, 2
NOBODY: Mapping[tuple[str, date], int] = {}
LACK = Shortage("Boston", 0.88, network=False)


def money(**more: Any) -> Staffing:
    declared = {"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, "currency": "USD", **more}
    return Staffing.model_validate(declared)


def night(
    medians: Sequence[Sequence[float]],
    staffing: Staffing,
    crews: Sequence[Sequence[int | None]] | None = None,
    fleet: VanPool | None = None,
) -> tuple[PublishedDepot, ...]:
    """Return depots as a run publishes them, or with other crews if given, each driver with a van
    if vans are counted."""
    predicted = forecast([[[m * 0.7, m, m * 1.3] for m in days] for days in medians], cutoff=CUTOFF)
    plan = rosters.cheapest(predicted, staffing, fleet)
    if crews is not None:
        need, drivers = Need.of(predicted.quantiles, LEVELS, staffing.orders_per_driver), plan.drivers.copy()
        for row, step in np.ndindex(drivers.shape):
            crew = crews[row][step]
            drivers[row, step] = drivers[row, step] if crew is None else crew
        vans = drivers if staffing.vans else None
        plan = newsvendor.with_crews(drivers, plan.desired, vans, need, predicted.open, staffing)
    rostered = rosters.published_rosters(plan, predicted)
    return tuple(
        PublishedDepot(
            depot_id,
            tuple(
                PublishedDay(
                    day,
                    step + 1,
                    True,
                    tuple(predicted.quantiles[row, step].tolist()),
                    int(plan.drivers[row, step]),
                    rostered[row, step],
                )
                for step, day in enumerate(predicted.target_dates)
            ),
            attributes={"city": "Boston"},
        )
        for row, depot_id in enumerate(predicted.depot_ids)
    )


def header(horizon: int, now: datetime = NOON) -> Front:
    about = ("harbor-fleet", "night-1", PUBLISHED, NOON, CUTOFF, horizon, "fresh", "v3", "America/New_York", LEVELS)
    return front(Head(1, None, PUBLISHED, *about, None, None, None), now)  # type: ignore[arg-type]


def rail(
    depots: Sequence[PublishedDepot],
    staffing: Staffing | None,
    accepted: Mapping[tuple[str, date], int] = NOBODY,
    now: datetime = NOON,
) -> tuple[RailDecision, ...]:
    return decisions(depots, header(len(depots[0].days), now), LEVELS, staffing, accepted)


def told(decision: RailDecision) -> list[str]:
    return [f"{remedy.text}: {remedy.saving}".removesuffix(": ") for remedy in decision.remedies]


def changed(depot: PublishedDepot, step: int, roster: Mapping[str, Any], **day: Any) -> PublishedDepot:
    """Return the depot with another roster, or another day, at one step."""
    before = depot.days[step]
    assert before.roster is not None
    after = replace(before, roster=replace(before.roster, **roster), **day)
    return replace(depot, days=(*depot.days[:step], after, *depot.days[step + 1 :]))


def price(depot: PublishedDepot, step: int, drivers: int, staffing: Staffing) -> float:
    """Return the expected cost of a crew, by the newsvendor formula."""
    need = Need.of(np.array(depot.days[step].quantiles), LEVELS, staffing.orders_per_driver)
    return float(need.cost(np.array(drivers, np.int32), staffing))


# --- which depot-days -------------------------------------------------------------------------------------------------


def test_lists_the_worst_of_tomorrow_then_of_other_days_at_most_ten() -> None:
    medians = [[40 + 3 * row] * 3 for row in range(12)]
    full = night(medians, money())
    short = [[(day.drivers or 0) - 2 for day in depot.days] for depot in full]
    crews = [[crew[TODAY], crew[TOMORROW] + (2 if row % 3 else 1), crew[LATER]] for row, crew in enumerate(short)]
    depots = night(medians, money(), crews)
    shown = rail(depots, money())
    assert len(shown) == MOST
    assert [cell.iso for cell in shown] == ["2025-06-18"] * 4 + [cell.iso for cell in shown[4:]]
    assert {cell.iso for cell in shown[4:]} == {"2025-06-17", "2025-06-19"}
    avoidable = {
        (depot.depot_id, day.target_date.isoformat()): price(depot, step, day.drivers or 0, money())
        - price(depot, step, full[row].days[step].drivers or 0, money())
        for row, depot in enumerate(depots)
        for step, day in enumerate(depot.days)
    }
    costs = [avoidable[cell.depot_id, cell.iso] for cell in shown]
    assert costs[:4] == sorted(costs[:4], reverse=True)
    others = sorted((cost for (_, day), cost in avoidable.items() if day != "2025-06-18"), reverse=True)
    assert costs[4:] == pytest.approx(others[:6])
    assert shown[0].cost == f"${costs[0]:.0f}"
    assert (shown[0].day, shown[0].href) == ("tomorrow", f"/day/2025-06-18/{shown[0].depot_id}")


def test_a_cell_shows_its_crew_and_cause() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    depot = changed(depot, TOMORROW, {"shortage": LACK})
    [cell] = rail([depot], money())
    assert cell.crew == "3 drivers"
    assert cell.cause == "No van left in Boston; vans for 88\N{NO-BREAK SPACE}% of what the city needs."
    plain = changed(depot, TOMORROW, {"shortage": None})
    assert rail([plain], money())[0].cause == "9 chances in 10 of being short."
    moved = changed(plain, TOMORROW, {}, change=PublishedChange(date(2025, 6, 16), 40, (("actuals", 7),)))
    assert rail([moved], money())[0].cause == (
        "7 more than yesterday’s forecast, mostly because of the actual orders since then."
    )


def test_past_distant_closed_overridden_or_unstaffed_days_need_no_decision() -> None:
    [depot] = night([[47.0] * 16], money(), [[3] * 16])
    assert len(rail([depot], money())) == MOST
    assert {cell.iso for cell in rail([depot], money(), now=NOON + timedelta(days=12))} == {"2025-06-29", "2025-06-30"}
    assert rail([depot], money(), now=NOON + timedelta(days=30)) == ()
    bare = replace(depot, days=tuple(replace(day, roster=None, drivers=None) for day in depot.days))
    assert rail([bare], money()) == rail([bare], None) == ()
    override = PublishedOverride(1, 90, (1.0, 2.0, 3.0), "weather", "", "Ana", PUBLISHED, CUTOFF + timedelta(days=9))
    odd = changed(changed(depot, TOMORROW, {}, override=override), LATER, {}, open=False)
    assert not {"2025-06-18", "2025-06-19"} & {cell.iso for cell in rail([odd], money())}


def test_with_vans_for_all_nothing_needs_a_decision() -> None:
    assert rail(night([[40.0, 47.0, 90.0], [10.0, 20.0, 30.0]], money()), money()) == ()


def test_an_accepted_crew_is_hidden_until_the_crew_changes() -> None:
    [three] = night([[47.0] * 3], money(), [[None, 3, None]])
    [two] = night([[47.0] * 3], money(), [[None, 2, None]])
    accepted = {("D0", date(2025, 6, 18)): 3}
    assert [cell.drivers for cell in rail([three], money())] == [3]
    assert rail([three], money(), accepted) == ()
    assert [cell.drivers for cell in rail([two], money(), accepted)] == [2]
    assert rail([three], None, accepted) == ()


def test_a_reader_of_one_city_sees_only_its_decisions_and_lenders(url: str) -> None:
    staffing = money(vans={"total": 99})
    first, second = night([[47.0] * 3, [10.0] * 3], staffing, [[None, 3, None], [None, 5, None]])
    elsewhere = replace(second, attributes={"city": "New York"})
    fill(url, replace(publication(levels=LEVELS, horizon=3), depots=(first, elsewhere)))
    store = PublicationStore(url, "harbor-fleet", lambda: NOON, "1")
    for cities, remedies in ((None, ["Borrow a van from D1: saves $37"]), (frozenset({"Boston"}), [])):
        edition = store.edition(cities)
        [cell] = decisions(edition.outline(), edition.front, edition.head.levels, staffing, NOBODY)
        assert [remedy for remedy in told(cell) if "Borrow" in remedy] == remedies
    edition = store.edition(frozenset({"New York"}))
    assert decisions(edition.outline(), edition.front, edition.head.levels, staffing, NOBODY) == ()
    store.close()


# --- remedies ---------------------------------------------------------------------------------------------------------


def test_one_more_driver_saves_the_published_amount_less_the_cost_of_a_change() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    roster = depot.days[TOMORROW].roster
    assert roster is not None
    assert roster.one_more is not None
    saving = roster.cost - roster.one_more
    assert told(rail([depot], money())[0]) == [f"Raise to 4: saves ${saving:.0f}", "Accept"]
    assert told(rail([depot], None)[0]) == [f"Raise to 4: saves {saving:.0f}", "Accept"]
    assert told(rail([depot], money(change_cost=9))[0]) == [f"Raise to 4: saves ${saving - 9:.0f}", "Accept"]
    assert told(rail([depot], money(change_cost=90))[0]) == ["Accept"]
    assert rail([changed(depot, TOMORROW, {"one_more": None})], money()) == ()  # the limits forbid it


def test_a_kept_crew_can_change_to_the_planned_one_if_it_pays_off() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    saving = price(depot, TOMORROW, 3, money()) - price(depot, TOMORROW, 5, money())
    cheap, dear = (changed(depot, TOMORROW, {"left": LeftCrew(5, saving, cost)}) for cost in (10.0, 90.0))
    [cell] = rail([cheap], money(change_cost=10))
    assert told(cell)[0] == f"Change to 5, as in the new plan: saves ${saving - 10:.0f}"
    assert told(cell)[1].startswith("Raise to 4")
    assert cell.cause.startswith("Left at 3 as published before: 5 would save")
    assert told(rail([cheap], None)[0])[0] == f"Change to 5, as in the new plan: saves {saving - 10:.0f}"
    assert told(rail([dear], money(change_cost=90))[0]) == ["Accept"]


def test_a_van_is_lent_by_the_cheapest_depot_of_the_city_and_one_van_per_lender() -> None:
    staffing = money(vans={"total": 30, "home": "vans"})
    medians = [[47.0] * 3, [45.0] * 3, [40.0] * 3, [20.0] * 3, [10.0] * 3]
    depots = list(night(medians, staffing, [[None, crew, None] for crew in (3, 2, 6, 4, 9)]))
    depots[4] = replace(depots[4], attributes={"city": "New York"})
    depots[0], depots[1] = (changed(depot, TOMORROW, {"shortage": LACK}) for depot in depots[:2])
    by_depot = {cell.depot_id: cell for cell in rail(depots, staffing)}
    assert list(by_depot) == ["D1", "D0"]  # the worse one chooses first
    lender = depots[3].days[TOMORROW].roster
    assert lender is not None
    assert lender.one_fewer is not None
    borrower = by_depot["D1"].remedies[0]
    gain = price(depots[1], TOMORROW, 2, staffing) - price(depots[1], TOMORROW, 3, staffing)
    loss = lender.one_fewer - lender.cost  # below 0: it has a driver too many
    assert told(by_depot["D1"])[0] == f"Borrow a van from D3: saves ${gain - loss:.0f}"
    assert borrower.href == "/day/2025-06-18/D3"
    assert told(by_depot["D0"])[0].startswith("Borrow a van from D2: saves")
    anywhere = money(vans={"total": 30})
    assert told({cell.depot_id: cell for cell in rail(depots, anywhere)}["D1"])[0].startswith("Borrow a van from D4")
    assert [text for text in told(rail(depots, None)[0]) if "Borrow" in text] == []


def test_shows_the_value_of_a_van_if_nobody_can_lend_one() -> None:
    staffing = money(vans={"total": 8, "home": "vans"})
    depots = [
        changed(depot, TOMORROW, {"shortage": LACK})
        for depot in night([[47.0] * 3, [45.0] * 3], staffing, [[None, 4, None], [None, 4, None]])
    ]
    texts = {cell.depot_id: told(cell) for cell in rail(depots, staffing)}
    assert all(re.fullmatch(r"One van more: would save \$\d+", lines[0]) for lines in texts.values())
    assert [lines[1:] for lines in texts.values()] == [["Accept"]] * 2


def test_a_van_without_its_driver_is_free() -> None:
    staffing = money(vans={"total": 9, "home": "vans"}, shifts=[{**EARLY, "name": "day", "share": 1}])
    depots = list(night([[47.0] * 3, [46.0] * 3], money(vans={"total": 9}), [[None, 4, None], [None, 3, None]]))
    depots = [
        replace(
            depot,
            days=tuple(replace(day, roster=replace(day.roster, shifts=(("day", day.drivers),))) for day in depot.days),  # type: ignore[type-var]
        )
        for depot in depots
    ]
    depots[0] = changed(depots[0], TOMORROW, {"shortage": LACK})
    depots[1] = changed(depots[1], TOMORROW, {"vans": 5, "missing": (("day", 2),)})
    by_depot = {cell.depot_id: cell for cell in rail(depots, staffing)}
    gain = price(depots[0], TOMORROW, 4, staffing) - price(depots[0], TOMORROW, 5, staffing)
    assert told(by_depot["D0"])[0] == f"Borrow a van from D1: saves ${gain:.0f}"
    lack = price(depots[1], TOMORROW, 3, staffing) - price(depots[1], TOMORROW, 5, staffing)
    assert told(by_depot["D1"]) == [f"Ask for 2 more drivers for day: saves ${lack:.0f}", "Accept"]
    assert by_depot["D1"].remedies[0].href == "/depot/D1#who"
    assert by_depot["D1"].cause == "2 of 5 drivers missing: the plan of the week has nobody for them."


def test_requests_missing_people_shift_by_shift() -> None:
    staffing = money(shifts=[EARLY, LATE])
    [depot] = night([[100.0] * 3], staffing)
    day = depot.days[TOMORROW]
    assert day.roster is not None
    crews = dict(day.roster.shifts)
    coming = tuple((name, count - 1) for name, count in crews.items())
    cells = Prices(LEVELS, staffing).of([day])
    cost = float(cells.cost(cells.crews - np.int32(1))[0])
    roster = {"shifts": coming, "missing": tuple((name, 1) for name in crews), "cost": cost, "one_more": cost - 9}
    short = changed(depot, TOMORROW, roster, drivers=(day.drivers or 0) - 2)
    [cell] = rail([short], staffing)
    lines = told(cell)
    assert {line.partition(":")[0] for line in lines} == {
        "Ask for 1 more driver for early",
        "Ask for 1 more driver for late",
        "Accept",
    }
    amounts = [int(line.rpartition("$")[2]) for line in lines[:-1]]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) == pytest.approx(cost - day.roster.cost, abs=1)
    assert cell.cost == f"${cost - day.roster.cost:.0f}"
    assert told(rail([short], None)[0]) == ["Accept"]  # with two shifts, their separate values are not published


@pytest.mark.parametrize("shifts", [(), (EARLY, LATE)])
def test_prices_equal_those_of_the_run(shifts: Any) -> None:
    """The cost of the plan, and with vans for all the least cost, equal the published values."""
    staffing = money(shifts=shifts)
    days = [day for depot in night([[33.0, 47.0, 120.0], [8.0, 20.0, 71.0]], staffing) for day in depot.days]
    priced = Prices(LEVELS, staffing).of(days)
    costs = [day.roster.cost for day in days if day.roster is not None]
    assert priced.cost(priced.crews).tolist() == pytest.approx(costs, abs=1e-4)
    assert priced.least_cost.tolist() == pytest.approx(costs, abs=1e-4)


@given(seed=st.integers(0, 10_000), total=st.integers(4, 20), growth=st.sampled_from([0.0, 1.0, 4.0]))
@settings(deadline=None)
def test_the_optimal_plan_leaves_no_van_to_borrow(seed: int, total: int, growth: float) -> None:
    """The plan shares vans optimally, so that moving one saves nothing."""
    random = np.random.default_rng(seed)
    medians, homes = random.gamma(2, 15, (5, 2)), random.multinomial(total, [0.2] * 5)
    cities = np.array([0, 0, 0, 1, 1], np.intp)
    for home in (None, homes.astype(np.int32)):
        vans = {"total": total} | ({} if home is None else {"home": "vans"})
        staffing = money(vans=vans, cost_short_growth=growth)
        depots = night(medians.tolist(), staffing, fleet=VanPool(total, cities, home, city_names=("a", "b")))
        depots = tuple(
            replace(depot, attributes={"city": "ab"[city]}) for depot, city in zip(depots, cities, strict=True)
        )
        assert [line for cell in rail(depots, staffing) for line in told(cell) if "Borrow" in line] == []


def test_a_roster_with_other_shifts_uses_published_prices() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    assert told(rail([depot], money(shifts=[EARLY, LATE]))[0]) == told(rail([depot], money())[0])


def test_finds_the_most_expensive_among_many() -> None:
    """Compare with pricing every cell."""
    random = np.random.default_rng(1)
    medians = random.uniform(20, 200, (300, 3))
    medians[:, TOMORROW] = 40
    full = night(medians.tolist(), money())
    crews = np.array([[day.drivers or 0 for day in depot.days] for depot in full])
    crews[:, [TODAY, LATER]] -= random.integers(0, 4, (300, 2))
    depots = night(medians.tolist(), money(), np.maximum(crews, 0).tolist())
    costs = sorted(
        (
            (price(depot, step, depot.days[step].drivers or 0, money()) - day.roster.cost, depot.depot_id)
            for depot, best in zip(depots, full, strict=True)
            for step, day in enumerate(best.days)
            if day.roster is not None
        ),
        reverse=True,
    )
    assert {cell.depot_id for cell in rail(depots, money())} == {depot_id for _, depot_id in costs[:MOST]}


# --- the page's part --------------------------------------------------------------------------------------------------


def rendered(shown: Sequence[RailDecision], *, plans: bool) -> str:
    page = templates(prefix="/p/x", signs_out=False, plans_days=plans)
    environment: Environment = page.__closure__[0].cell_contents  # type: ignore[attr-defined]
    return str(environment.from_string("{% from 'rail.html' import rail %}{{ rail(d, p) }}").render(d=shown, p=plans))


def test_planners_may_accept_and_readers_may_not() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    shown = rail([replace(depot, depot_id="Pier 9/<b>")], money())
    html = rendered(shown, plans=True)
    assert '<aside class="rail" aria-labelledby="decide">\n<h2 id="decide">Decide today</h2>' in html
    assert 'href="/p/x/day/2025-06-18/Pier%209%2F%3Cb%3E"><b>Pier 9/&lt;b&gt;</b> tomorrow</a>' in html
    assert 'Raise to 4</a> <span class="saving">saves $' in html
    assert 'data-accept="/p/x/accepted"' in html
    assert 'data-drivers="3">Accept</a>' in html
    assert "accept" not in rendered(shown, plans=False)
    assert rendered((), plans=True).strip() == ""
    assert (HERE / "templates" / "rail.html").exists()


def test_the_rail_uses_the_readers_language() -> None:
    [depot] = night([[47.0] * 3], money(), [[None, 3, None]])
    with use_language("de"):
        assert "Heute entscheiden" in rendered(rail([depot], money()), plans=True)
        assert told(rail([depot], money())[0])[0].startswith("Auf 4 erhöhen: spart")
