"""A night says why its forecast changed, takes planners' numbers up, and leaves what a what-if needs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.errors import BundleError, OverrideError
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger, Publication, PublishedDay
from forecaster.model.export import to_onnx
from forecaster.planning import service
from forecaster.planning.overrides import ProposedOverride
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from forecaster.publishing.predict import predict
from forecaster.publishing.publish import PublishedForecast
from forecaster.publishing.replay import replay
from forecaster.serving import bundle, keys, recalibrate
from forecaster.serving.bundle import npz
from forecaster.serving.numpy_model import ReferenceModel
from forecaster.serving.predict import Predictor
from tests import fleets, graphs
from tests.dashboards.signing_in import signing_in
from tests.dashboards.visitor import asked
from tests.e2e.test_browser import CHROMIUM, FLAGS, faults, shot, too_wide
from tests.fleets import AS_OF, Fleet

STAFFING = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, vans: {total: 30}}\n"
THURSDAY = date(2024, 4, 11)
PROPOSED = ProposedOverride("A", THURSDAY, 90, "weather", "Ana", "storm")
DAY = timedelta(days=1)


def publish_as_of(spec: Spec, as_of: datetime, folder: Path | None = None) -> PublishedForecast:
    return predict(spec, as_of=as_of, bundle=folder, run_id=None, note=None)


def write_bundle(spec: Spec, factor: float) -> Path:
    """A bundle whose graph anyone can follow, with the parameters of a network that was never trained."""
    candidate = fleets.untrained(panels.build(read_as_of(spec, as_of=AS_OF), spec))
    about = {**to_onnx.about(candidate), "depots": list("ABCD")}
    graph = graphs.plain(factor, about["lookback"], about["horizon"])
    parent = spec.paths.bundles
    return bundle.write(parent, graph, to_onnx.weights(candidate), about, keys.signer(spec.paths.folder))


@pytest.fixture(scope="module")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet of which two nights were published."""
    file = tmp_path_factory.mktemp("kept") / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + STAFFING, "utf-8")
    spec = load(file)
    fleets.fill(spec, fleets.counts("ABCD"), fleets.CITIES)
    folder = write_bundle(spec, 1.0)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=folder.name, by="test", reason="the first")
    publish_as_of(spec, AS_OF - DAY)
    publish_as_of(spec, AS_OF)
    return Fleet(file, spec, folder)


@pytest.fixture
def fleet(published_fleet: Fleet, tmp_path: Path) -> Fleet:
    """A copy that a test may change."""
    shutil.copytree(published_fleet.file.parent, tmp_path / "fleet")
    file = tmp_path / "fleet" / "pipeline.yaml"
    return Fleet(file, load(file), tmp_path / "fleet" / published_fleet.bundle.relative_to(published_fleet.file.parent))


def current(spec: Spec) -> Publication:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        return ledger.whole(head)


def day(publication: Publication, depot: str = "A", on: date = THURSDAY) -> PublishedDay:
    days = next(published.days for published in publication.depots if published.depot_id == depot)
    return next(published for published in days if published.target_date == on)


def parts(publication: Publication) -> dict[str, int]:
    """The parts of all changes together, by how much they move without regard to sign."""
    moved: dict[str, int] = {}
    for published_day in (
        published_day for depot in publication.depots for published_day in depot.days if published_day.change
    ):
        assert published_day.change is not None
        assert published_day.change.before + published_day.change.total == round(published_day.quantiles[1])
        for name, orders in published_day.change.parts:
            moved[name] = moved.get(name, 0) + abs(orders)
    return moved


# --- why it changed ---------------------------------------------------------------------------------------------------


def test_a_change_is_told_of_the_days_that_were_published_the_day_before(published_fleet: Fleet) -> None:
    tonight = current(published_fleet.spec)
    changes = {published_day.target_date: published_day.change for published_day in tonight.depots[0].days}
    assert [day for day, change in changes.items() if change is None] == [date(2024, 4, 12)]
    assert {change.since for change in changes.values() if change} == {(AS_OF - DAY).date()}
    with Ledger.open_reader(published_fleet.spec.ledger_url) as ledger:
        first = ledger.published_before(published_fleet.spec.name, AS_OF - DAY / 2)
    assert first is not None
    assert {published_day.change for depot in first.depots for published_day in depot.days} == {None}
    assert changes[THURSDAY] is not None
    assert changes[THURSDAY].before == round(day(first).quantiles[1])


def test_with_the_same_model_only_new_counts_move_the_forecast(published_fleet: Fleet) -> None:
    moved = parts(current(published_fleet.spec))
    assert moved.pop("actuals") > 0
    assert set(moved.values()) == {0}


def test_corrected_counts_and_a_promotion_have_parts_of_their_own(fleet: Fleet) -> None:
    corrected = [f"A,{date(2024, 4, 1) + n * DAY},150,0" for n in range(7)]
    fleets.fill(fleet.spec, [*corrected, f"B,{THURSDAY},,1"], fleets.CITIES, now=AS_OF - timedelta(hours=1))
    publish_as_of(fleet.spec, AS_OF)
    tonight = current(fleet.spec)
    of = {depot: dict(change.parts) for depot in "ABC" if (change := day(tonight, depot).change)}
    assert parts(tonight)["model"] == parts(tonight)["calibration"] == 0
    assert (of["A"]["restated"] != 0, of["A"]["calendar"]) == (True, 0)
    assert (of["B"]["restated"], of["B"]["calendar"] != 0) == (0, True)
    assert (of["C"]["restated"], of["C"]["calendar"]) == (0, 0)


def test_another_model_has_a_part_of_its_own(fleet: Fleet) -> None:
    before = current(fleet.spec)
    publish_as_of(fleet.spec, AS_OF, write_bundle(fleet.spec, 1.2))
    tonight = current(fleet.spec)
    change = day(tonight).change
    assert change is not None
    assert dict(change.parts)["model"] == round(day(tonight).quantiles[1]) - round(day(before).quantiles[1])
    assert parts(tonight)["calibration"] == 0


def test_a_model_that_is_gone_leaves_everything_to_the_models_part(fleet: Fleet) -> None:
    shutil.rmtree(fleet.bundle)
    assert publish_as_of(fleet.spec, AS_OF).tier == "fallback"
    moved = parts(current(fleet.spec))
    assert moved.pop("model") > 0
    assert set(moved.values()) == {0}


def test_medians_with_another_share_of_the_anchor_are_those_of_a_bundle_that_has_it(published_fleet: Fleet) -> None:
    panel = panels.build(read_as_of(published_fleet.spec, as_of=AS_OF), published_fleet.spec)
    loaded = bundle.read(published_fleet.bundle, keys.trusted_keys(published_fleet.spec.paths.folder))
    weights = ReferenceModel(loaded.weights, loaded.manifest).weights
    other = replace(loaded, weights=npz({**weights, "blend.anchor": np.float32(0.4)}))
    medians = ReferenceModel(loaded.weights, loaded.manifest)(panel.window(loaded.lookback))[..., 1]
    expected = ReferenceModel(other.weights, other.manifest)(panel.window(loaded.lookback))[..., 1]
    assert np.abs(medians - expected).max() > 0.5
    np.testing.assert_allclose(recalibrate.medians(medians, panel, loaded, other), expected, rtol=1e-5)
    np.testing.assert_allclose(recalibrate.medians(expected, panel, other, loaded), medians, rtol=1e-5)


# --- overrides --------------------------------------------------------------------------------------------------------


def test_an_override_is_shown_at_once_with_totals_and_rosters_and_the_models_number(fleet: Fleet) -> None:
    before = current(fleet.spec)
    service.save(fleet.spec, PROPOSED)
    after = current(fleet.spec)
    unchanged, overridden = day(before), day(after)
    assert overridden.override is not None
    assert (overridden.quantiles[1], overridden.override.orders, overridden.override.quantiles) == (
        90,
        90,
        unchanged.quantiles,
    )
    assert overridden.drivers is not None
    assert unchanged.drivers is not None
    assert overridden.drivers > unchanged.drivers
    network = [[t.quantiles[1] for t in entry.totals if not t.city] for entry in (before, after)]
    assert [round(b - a) for a, b in zip(*network, strict=True)][1] == pytest.approx(90 - unchanged.quantiles[1], abs=3)
    assert network[0][0] == network[1][0]
    assert day(after, on=date(2024, 4, 10)) == day(before, on=date(2024, 4, 10))
    assert unchanged.change is not None
    assert overridden.change is not None
    assert dict(overridden.change.parts)["override"] == 90 - round(unchanged.quantiles[1])
    assert parts(after)
    vans = [sum(entry.drivers or 0 for d in after.depots for entry in d.days if entry.target_date == THURSDAY)]
    assert vans[0] <= 30


def test_a_withdrawn_override_leaves_the_page_as_it_was_and_its_row(fleet: Fleet) -> None:
    before = current(fleet.spec)
    saved = service.save(fleet.spec, PROPOSED)
    service.withdraw(fleet.spec, saved.override.id, by="Ben")
    assert current(fleet.spec) == before
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        [row] = service.list_overrides(ledger, fleet.spec.name)
    assert (row.orders, row.by, row.withdrawn is not None) == (90, "Ana", True)
    with pytest.raises(OverrideError, match=r"was withdrawn on .* already"):
        service.withdraw(fleet.spec, row.id, by="Ben")


def test_withdrawing_what_a_newer_override_had_replaced_changes_nothing_and_says_so(fleet: Fleet) -> None:
    first = service.save(fleet.spec, PROPOSED)
    service.save(fleet.spec, replace(PROPOSED, orders=70))
    before = current(fleet.spec)
    message = service.withdraw(fleet.spec, first.override.id, by="Ben").sentence()
    assert message == "override 1 withdrawn: override 2 had replaced it, A on 2024-04-11 stays as it is"
    assert current(fleet.spec) == before


def test_the_next_night_takes_it_up_until_it_expires(fleet: Fleet) -> None:
    service.save(fleet.spec, replace(PROPOSED, target_date=date(2024, 4, 12), until=date(2024, 4, 11)))
    fleets.fill(fleet.spec, fleets.counts("ABCD", 102, 100), fleets.CITIES, now=AS_OF + 2 * DAY)
    run = publish_as_of(fleet.spec, AS_OF + DAY)
    friday = date(2024, 4, 12)
    override = day(current(fleet.spec), on=friday).override
    assert override is not None
    rows = Lake(fleet.spec.lake_url).read("forecasts").to_pylist()
    mine = {
        row["override"]: row["quantiles"] for row in rows if row["depot_id"] == "A" and row["target_date"] == friday
    }
    assert mine[90] == pytest.approx(list(override.quantiles))
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        last = ledger.current(fleet.spec.name)
    assert last is not None
    assert replay(fleet.spec, last.run_id).differences == ()
    assert run.tier == "champion"
    publish_as_of(fleet.spec, AS_OF + 2 * DAY)
    expired = day(current(fleet.spec), on=friday)
    assert (expired.override, dict(expired.change.parts)["override"] if expired.change else 0) == (
        None,
        round(override.quantiles[1]) - 90,
    )


def test_what_it_was_worth_is_known_when_the_day_is_over(fleet: Fleet) -> None:
    model = day(current(fleet.spec), on=date(2024, 4, 10)).quantiles[1]
    service.save(fleet.spec, replace(PROPOSED, target_date=date(2024, 4, 10)))
    saved = service.save(fleet.spec, PROPOSED)
    service.withdraw(fleet.spec, saved.override.id, by="Ana")
    fleets.fill(fleet.spec, fleets.counts("ABCD", 102, 100), fleets.CITIES, now=AS_OF + 2 * DAY)
    publish_as_of(fleet.spec, AS_OF + 2 * DAY)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        account = service.value_added(ledger, fleet.spec.name, 5)
    actual = 40 + 7 * (100 % 7) + ord("A") % 5
    assert (account.everyone.days, account.everyone.actual, account.planners, account.unnamed) == (1, actual, (), 1)
    assert account.everyone.model_error == pytest.approx(abs(model - actual))
    assert account.everyone.override_error == abs(90 - actual)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depot_id": "X"}, "depot: found 'X', wanted a depot of the published forecasts"),
        ({"target_date": date(2024, 5, 1)}, "wanted a published day, from 2024-04-10 to 2024-04-12"),
        ({"reason": "mood"}, "reason: found 'mood', wanted one of local event"),
    ],
)
def test_an_override_of_what_is_not_published_is_refused(
    published_fleet: Fleet, wrong: Mapping[str, object], message: str
) -> None:
    with pytest.raises(OverrideError, match=message):
        service.save(published_fleet.spec, replace(PROPOSED, **wrong))  # type: ignore[arg-type]
    with Ledger.open_reader(published_fleet.spec.ledger_url) as ledger:
        assert service.list_overrides(ledger, published_fleet.spec.name) == ()


# --- what-if ----------------------------------------------------------------------------------------------------------


def test_what_is_supposed_is_answered_as_the_model_would_with_that_input(published_fleet: Fleet) -> None:
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


def test_a_closure_and_a_number_of_orders_are_answered_in_drivers_and_money(published_fleet: Fleet) -> None:
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


def test_asking_keeps_nothing_and_saving_shows_what_was_answered(fleet: Fleet) -> None:
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


def test_a_bundle_that_is_not_believed_is_told_and_orders_are_answered_still(fleet: Fleet) -> None:
    (fleet.bundle / bundle.SEAL).write_bytes(b"\0" * 96)
    questions = Questions.of(fleet.spec.paths.folder, current(fleet.spec))
    with pytest.raises(BundleError, match=r"the model cannot be asked: bundle .* is not trusted"):
        questions.ask(Supposition("A", THURSDAY, "promo"))
    assert questions.ask(Supposition("A", THURSDAY, "orders", 90)).after.orders == 90
    assert questions.kinds == ("orders", "closed")


def test_the_page_answers_shows_and_saves(fleet: Fleet) -> None:
    app = create_app(fleet.spec.ledger_url, pipeline="small", clock=lambda: AS_OF, spec=fleet.spec)

    def get(path: str) -> httpx.Response:
        return asked(app, "GET", path)

    answer = get("/api/v1/what-if?depot=A&date=2024-04-11&kind=promo&value=1")
    assert answer.status_code == 200
    assert answer.json()["after"]["drivers"] >= 0
    table = get("/api/v1/what-if?depot=A&date=2024-04-11&kind=orders&value=90&format=csv")
    assert table.headers["content-disposition"] == 'attachment; filename="what-if.csv"'
    assert "\r\nA,2024-04-11,orders,90.0,2024-04-11,orders," in table.text
    plan = get("/plan?depot=A&day=2024-04-11&kind=closed").text
    assert "If the depot is closed" in plan
    fields = {"depot_id": "A", "target_date": "2024-04-11", "orders": "90", "reason": "weather", "by": "Ana"}
    tag = get("/api/v1/depots/A").headers["etag"]
    saved = asked(app, "POST", "/overrides", data=fields)
    assert (saved.status_code, saved.headers["location"]) == (303, "/depot/A")
    depot = get("/api/v1/depots/A")
    assert depot.headers["etag"] != tag
    assert [day["override"] and day["override"]["by"] for day in depot.json()["days"]] == [None, "Ana", None]
    assert "90 orders by Ana (weather), until Thu 11 Apr; the model says" in get("/depot/A").text
    assert "planners +" in get("/depot/A").text
    assert "Override this day" in get("/plan?depot=A&day=2024-04-11").text
    assert "1: Ana, weather" in get("/overrides").text
    withdrawal = asked(app, "POST", "/api/v1/overrides/1/withdrawal", json={"by": "Ben"})
    assert withdrawal.json()["said"] == "override 1 withdrawn: A on 2024-04-11 shows the model's number again"


@pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine")
def test_who_signed_in_as_planner_saves_and_withdraws_in_a_browser_without_scripts_and_a_viewer_may_not(
    fleet: Fleet,
) -> None:
    with signing_in(fleet.spec.ledger_url, AS_OF, fleet.spec) as (address, provider), sync_playwright() as playwright:
        provider.signs_in = {"email": "ana@example.com"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(java_script_enabled=False, viewport={"width": 390, "height": 844})
        page.set_default_timeout(60_000)
        main = page.locator("main")
        page.goto(f"{address}depot/A")
        page.get_by_role("button", name="What if, or override").click()
        page.get_by_label("Suppose").select_option("orders")
        page.get_by_label("Number").fill("90")
        page.get_by_role("button", name="Ask").click()
        assert "If 90 orders" in main.inner_text()
        assert not too_wide(page)
        shot(page, "what-if-phone")
        assert page.get_by_label("Your name").count() == 0
        page.get_by_role("button", name="Save").click()
        assert "90 orders by ana@example.com (local event)" in main.inner_text()
        assert not too_wide(page)
        shot(page, "overridden-phone")

        provider.signs_in = {"email": "vic@example.com"}
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="You have signed out").wait_for()
        page.goto(f"{address}overrides")
        assert "1: ana@example.com, local event" in main.inner_text()
        assert page.get_by_role("button", name="Withdraw").count() == 0
        page.goto(f"{address}plan?depot=A&day={THURSDAY}")
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
def test_what_a_planner_sees_is_usable_by_all(fleet: Fleet) -> None:
    with signing_in(fleet.spec.ledger_url, AS_OF, fleet.spec) as (address, provider), sync_playwright() as playwright:
        provider.signs_in = {"email": "ana@example.com"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{address}plan?depot=A&day={THURSDAY}")
        assert not faults(page)
        page.get_by_label("Suppose").select_option("orders")
        page.get_by_label("Number").fill("90")
        page.get_by_role("button", name="Ask").click()
        page.get_by_role("heading", name="If 90 orders").wait_for()
        assert not faults(page)
        page.goto(f"{address}overrides")
        assert not faults(page)
        browser.close()
