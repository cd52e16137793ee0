"""A what-if is answered as the model would with that input, and the page shows and saves it."""

from __future__ import annotations

from dataclasses import replace

import httpx
import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from dashboards.ops.app import create_app
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.errors import BundleError, OverrideError
from forecaster.planning import service
from forecaster.planning.override_groups import share_of_orders
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from forecaster.serving import bundle, keys
from forecaster.serving.predict import Predictor
from tests.dashboards.signing_in import signing_in
from tests.dashboards.visitor import ask_locally
from tests.e2e.browsing import CHROMIUM, FLAGS, faults, too_wide
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, PROPOSED, THURSDAY, current, day


def test_what_if_equals_the_models_forecast_with_that_input(published_fleet: Fleet) -> None:
    published = current(published_fleet.spec)
    questions = Questions.of(published_fleet.spec.paths.folder, published)
    panel = panels.build(read_as_of(published_fleet.spec, as_of=AS_OF), published_fleet.spec)
    covariates = panel.covariates.copy()
    covariates[1, panel.history + 1, 0] = 1 - covariates[1, panel.history + 1, 0]
    predictor = Predictor(bundle.read(published_fleet.bundle, keys.trusted_keys(published_fleet.spec.paths.folder)))
    expected = predictor(replace(panel, covariates=covariates)).median[1]
    answer = questions.ask(Supposition("B", THURSDAY, "promo", float(covariates[1, panel.history + 1, 0])))
    assert answer.before.orders == day(published, "B").quantiles[1]
    assert answer.before.drivers == day(published, "B").drivers
    assert answer.after.orders != answer.before.orders
    np.testing.assert_allclose([after for _, _, after in answer.week], expected, rtol=1e-5)


def test_closure_and_order_count_are_answered_in_drivers_and_cost(published_fleet: Fleet) -> None:
    questions = Questions.of(published_fleet.spec.paths.folder, current(published_fleet.spec))
    closed = questions.ask(Supposition("A", THURSDAY, "closed")).after
    assert (closed.open, closed.orders, closed.drivers, closed.vans, closed.cost) == (False, 0, 0, 0, 0)
    more = questions.ask(Supposition("A", THURSDAY, "orders", 90))
    assert more.after.orders == 90
    assert more.before.drivers is not None
    assert more.after.drivers is not None
    assert more.after.drivers > more.before.drivers
    assert more.before.cost_of_all is not None
    assert more.after.cost_of_all is not None
    assert more.after.cost_of_all > more.before.cost_of_all


def test_several_depots_and_days_can_be_asked_at_once(published_fleet: Fleet) -> None:
    published = current(published_fleet.spec)
    questions = Questions.of(published_fleet.spec.paths.folder, published)
    friday = THURSDAY + DAY
    both = questions.ask(Supposition("A", THURSDAY, "promo", 1, others=("B",), last=friday))
    for place, target in enumerate((THURSDAY, friday)):
        alone = [questions.ask(Supposition(depot, THURSDAY, "promo", 1, last=friday)) for depot in "AB"]
        of_day = both.days[place]
        assert of_day.target_date == target
        assert of_day.orders_before == pytest.approx(sum(day(published, depot, target).quantiles[1] for depot in "AB"))
        assert of_day.orders_after == pytest.approx(sum(answer.days[place].orders_after for answer in alone))
    assert both.before == questions.ask(Supposition("A", THURSDAY, "orders", 5)).before
    share = questions.ask(Supposition("A", THURSDAY, "percent", 50))
    assert share.after.orders == share_of_orders(day(published).quantiles[1], 50)


def test_answer_names_depots_that_lose_a_van(published_fleet: Fleet) -> None:
    published = current(published_fleet.spec)
    questions = Questions.of(published_fleet.spec.paths.folder, published)
    answer = questions.ask(Supposition("A", THURSDAY, "orders", 250))
    moved = {van.depot_id: van.after - van.before for van in answer.moved_vans}
    assert moved["A"] > 0
    lost = [depot for depot, vans in moved.items() if vans < 0]
    assert lost  # thirty vans are fewer than needed by these orders and the other depots
    for van in answer.moved_vans:
        roster = day(published, van.depot_id).roster
        assert roster is not None
        assert van.before == roster.vans
    some = questions.among({"A"}).ask(Supposition("A", THURSDAY, "orders", 250))
    assert [van.depot_id for van in some.moved_vans] == ["A"]


def test_binary_covariates_are_recognized_and_invalid_numbers_rejected(published_fleet: Fleet) -> None:
    questions = Questions.of(published_fleet.spec.paths.folder, current(published_fleet.spec))
    assert questions.yes_or_no == {"promo"}
    with pytest.raises(OverrideError, match=r"percent: found nan, wanted a number from -100 to 1000"):
        questions.ask(Supposition("A", THURSDAY, "percent", float("nan")))
    with pytest.raises(OverrideError, match=r"value: found 1e\+300, wanted a number"):
        questions.ask(Supposition("A", THURSDAY, "promo", 1e300))
    with pytest.raises(OverrideError, match="last: found 2024-04-10, before 2024-04-11; wanted it or a later day"):
        questions.ask(Supposition("A", THURSDAY, "closed", last=THURSDAY - DAY))


def test_asking_stores_nothing_and_saving_matches_the_answer(fleet: Fleet) -> None:
    before = current(fleet.spec)
    answer = Questions.of(fleet.spec.paths.folder, before).ask(Supposition("A", THURSDAY, "orders", 90))
    assert current(fleet.spec) == before
    service.save(fleet.spec, PROPOSED)
    saved = day(current(fleet.spec))
    assert saved.roster is not None
    assert (saved.drivers, saved.roster.vans, saved.roster.cost) == (
        answer.after.drivers,
        answer.after.vans,
        answer.after.cost,
    )


def test_untrusted_bundle_is_reported_and_orders_are_still_answered(fleet: Fleet) -> None:
    (fleet.bundle / bundle.SEAL).write_bytes(b"\0" * 96)
    questions = Questions.of(fleet.spec.paths.folder, current(fleet.spec))
    with pytest.raises(BundleError, match=r"the model cannot be asked: bundle .* is not trusted"):
        questions.ask(Supposition("A", THURSDAY, "promo"))
    assert questions.ask(Supposition("A", THURSDAY, "orders", 90)).after.orders == 90
    assert questions.kinds == ("orders", "percent", "closed")


def test_page_answers_shows_and_saves(fleet: Fleet) -> None:
    app = create_app(fleet.spec.ledger_url, pipeline="small", clock=lambda: AS_OF, spec=fleet.spec)

    def get(path: str) -> httpx.Response:
        return ask_locally(app, "GET", path)

    answer = get("/api/v1/what-if?depot=A&date=2024-04-11&kind=promo&value=1")
    assert answer.status_code == 200
    assert answer.json()["after"]["drivers"] >= 0
    table = get("/api/v1/what-if?depot=A&date=2024-04-11&kind=orders&value=90&format=csv")
    assert table.headers["content-disposition"] == 'attachment; filename="what-if.csv"'
    assert "\r\nA,2024-04-11,orders,90.0,2024-04-11,orders," in table.text
    plan = get("/day/2024-04-11/A?kind=closed").text
    assert "If the depot is closed" in plan
    fields = {"depot_id": "A", "target_date": "2024-04-11", "orders": "90", "reason": "weather", "by": "Ana"}
    tag = get("/api/v1/depots/A").headers["etag"]
    saved = ask_locally(app, "POST", "/overrides", data=fields)
    assert (saved.status_code, saved.headers["location"]) == (303, "/day/2024-04-11/A")
    depot = get("/api/v1/depots/A")
    assert depot.headers["etag"] != tag
    assert [day["override"] and day["override"]["by"] for day in depot.json()["days"]] == [None, "Ana", None]
    assert "90 orders by Ana (weather), until Thu 11 Apr; the model says" in get("/depot/A").text
    assert "planners +" in get("/depot/A").text
    assert "Withdraw it" in get("/day/2024-04-11/A").text
    assert "1: Ana, weather" in get("/overrides").text
    withdrawal = ask_locally(app, "POST", "/api/v1/overrides/1/withdrawal", json={"by": "Ben"})
    assert withdrawal.json()["said"] == "override 1 withdrawn: A on 2024-04-11 shows the model's number again"


@pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine")
def test_planner_saves_and_withdraws_without_javascript_and_a_viewer_may_not(
    fleet: Fleet,
) -> None:
    with signing_in(fleet.spec.ledger_url, AS_OF, fleet.spec) as (address, provider), sync_playwright() as playwright:
        provider.signs_in = {"email": "ana@example.com"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(java_script_enabled=False, viewport={"width": 390, "height": 844})
        page.set_default_timeout(60_000)
        main = page.locator("main")
        page.goto(f"{address}depot/A")
        page.get_by_role("link", name="What if, or override").click()
        page.get_by_label("Suppose").select_option("orders")
        page.get_by_label("Number").fill("90")
        page.get_by_role("button", name="Ask").click()
        assert "If 90 orders" in main.inner_text()
        assert not too_wide(page)
        assert page.get_by_label("Your name").count() == 0
        page.get_by_role("button", name="Save").click()
        assert "90 orders by ana@example.com (local event)" in main.inner_text()
        assert not too_wide(page)

        provider.signs_in = {"email": "vic@example.com"}
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="You have signed out").wait_for()
        page.goto(f"{address}overrides")
        assert "1: ana@example.com, local event" in main.inner_text()
        assert page.get_by_role("button", name="Withdraw").count() == 0
        page.goto(f"{address}day/{THURSDAY}/A")
        assert "Planners save overrides; you are here to read." in main.inner_text()
        written = page.request.post(f"{address}overrides", form={"depot_id": "A"})
        assert (written.status, "here as viewer" in written.text()) == (403, True)

        provider.signs_in = {"email": "ana@example.com"}
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="You have signed out").wait_for()
        page.goto(f"{address}overrides")
        page.get_by_role("button", name="Withdraw override 1").click()
        assert "90 orders by" not in main.inner_text()
        browser.close()


@pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine")
def test_planner_pages_are_accessible(fleet: Fleet) -> None:
    with signing_in(fleet.spec.ledger_url, AS_OF, fleet.spec) as (address, provider), sync_playwright() as playwright:
        provider.signs_in = {"email": "ana@example.com"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{address}day/{THURSDAY}/A")
        assert not faults(page)
        page.get_by_label("Suppose").select_option("orders")
        page.get_by_label("Number").fill("90")
        page.get_by_role("button", name="Ask").click()
        page.get_by_role("heading", name="If 90 orders").wait_for()
        assert not faults(page)
        page.goto(f"{address}overrides")
        assert not faults(page)
        browser.close()
