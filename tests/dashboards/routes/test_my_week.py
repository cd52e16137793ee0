"""A person's own week, after a real run: their link, their answers, and the resulting plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from icalendar import Calendar

from dashboards.ops.views.shifts.week import depot_week
from forecaster.config import Spec
from forecaster.ledger import access, plan_rows
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules
from forecaster.planning.people import shift_edits
from forecaster.planning.people.shift_edits import ShiftEdit
from tests import fleets
from tests.calls import Call
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.visitor import text
from tests.fleets import Fleet
from tests.planning.nights import DAY, THURSDAY, current, day, publish_nights
from tests.planning.test_shift_edits import STAFFING, plan, shift_of

NOW = datetime(2024, 4, 10, 12, tzinfo=UTC)  # a Wednesday
PAGE = (
    'page: {access: {sign_in: header, url: "https://depots.example", proxies: [10.0.0.5], secret: "${PAGE_SECRET}"}}\n'
)
PEOPLE = f"person,depot_id,contract,first,not\nAna,A,full-time,{THURSDAY + DAY},\nBo,A,full-time,,late\n"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING + PAGE, people=PEOPLE)


def addresses(call: Call, fleet: Fleet, *options: str) -> dict[str, str]:
    code, out, err = call("link", fleet.file, "--view", "person", "--depot", "A", *options)
    assert (code, err) == (0, "")
    return dict(line.split(": ", 1) for line in out.splitlines())


def guest(spec: Spec, address: str, now: datetime = NOW) -> Guest:
    browser = Guest(house(spec.ledger_url, declared(), now, spec, spec.name), address="192.0.2.30")
    entered = browser(address.removeprefix("https://depots.example"))
    assert (entered.status_code, entered.headers["location"]) == (303, "/my-week")
    return browser


def token(browser: Guest) -> str:
    return browser("/my-week").text.partition('name="csrf" value="')[2].partition('"')[0]


def reply(browser: Guest, answer: str, shift: str, day: object = THURSDAY, csrf: str | None = None) -> int:
    form = {"answer": answer, "shift": shift, "day": str(day), "csrf": token(browser) if csrf is None else csrf}
    return browser("/my-week", "POST", data=form).status_code


def marks(browser: Guest, person: str = "Bo") -> list[tuple[str, str]]:
    """Return a person's answers as a planner sees them, by day."""
    edition = browser.app.state.access_context.store.edition()
    week = depot_week(edition, edition.depot("A"))
    assert week is not None
    return list(next(who.answers for who in week.people if who.name == person))


def audit(spec: Spec) -> list[str]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return [entry.what for entry in access.entries(connection, spec.name) if entry.method == "POST"]


def test_a_persons_link_opens_only_their_week(call: Call, fleet: Fleet) -> None:
    links = addresses(call, fleet)
    assert list(links)[:2] == ["Ana", "Bo"]
    assert len(links) == 11
    bo = guest(fleet.spec, links["Bo"])
    page = text(bo("/my-week"))
    assert "Bo · A" in page
    assert "Thu 11 Apr early 06:00–14:00 Confirm Offer to colleagues Decline" in page
    assert "Ana" not in page
    events = Calendar.from_ical(bo("/my-week/calendar").content).walk("VEVENT")
    assert len(events) == len(next(who for who in plan(fleet.spec).positions if who.name == "Bo").duties)
    others = ("/", "/depot/A", "/roster?depot=A&format=ics&person=Bo", "/api/v1/shifts", "/api/v1/me", "/overrides")
    assert {bo(path).status_code for path in others} == {403}
    assert {bo(path, "POST").status_code for path in ("/accepted", "/overrides", "/subscribe")} == {403}
    assert Guest(bo.app)("/my-week").status_code == 401
    assert signed_in(bo.app, "vic")("/my-week").status_code == 404
    ana = Guest(bo.app)
    ana(links["Ana"])
    assert "Fri 12 Apr Day off" in text(ana("/my-week"))
    assert ana("/my-week/calendar").content != bo("/my-week/calendar").content


def test_planners_see_a_confirmation_and_it_can_be_withdrawn(call: Call, fleet: Fleet) -> None:
    bo = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    assert [reply(bo, "confirmed", "early") for _ in range(2)] == [303, 303]
    assert "Thu 11 Apr early 06:00–14:00 · Confirmed Offer to colleagues Decline Withdraw answer" in text(
        bo("/my-week")
    )
    assert marks(bo) == [("", ""), ("✓", "confirmed"), ("", "")]
    assert audit(fleet.spec) == ["confirmed early of 2024-04-11 at A"]
    assert reply(bo, "withdrawn", "early") == 303
    assert "06:00–14:00 Confirm Offer to colleagues Decline" in text(bo("/my-week"))


def test_a_declined_shift_changes_the_plan_until_it_is_withdrawn(call: Call, fleet: Fleet) -> None:
    bo = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    planner = signed_in(bo.app, "vic")
    before = planner("/depot/A")
    assert [reply(bo, "declined", "early") for _ in range(2)] == [303, 303]
    assert shift_of(fleet.spec, "Bo") == ""
    assert "Thu 11 Apr You cannot work on this day. Withdraw answer" in text(bo("/my-week"))
    assert marks(bo) == [("", ""), ("✗", "declined early"), ("", "")]
    tag = before.headers["etag"]
    assert planner("/depot/A", headers={"If-None-Match": tag}).status_code == 200
    assert reply(bo, "withdrawn", "") == 303
    bo_plan = next(who for who in plan(fleet.spec).positions if who.name == "Bo")
    assert bo_plan.assigned == ()


def test_a_wish_for_a_free_day_is_granted_if_another_person_can_work(call: Call, tmp_path: Path, fleet: Fleet) -> None:
    no_wishes = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    assert "I would like this day off" not in text(no_wishes("/my-week"))
    staffing = STAFFING.replace("staffing: {", "staffing: {spread_weight: 5, ")
    wishing = publish_nights(tmp_path / "wishing", fleets.counts("AB"), staffing=staffing + PAGE, people=PEOPLE)
    bo = guest(wishing.spec, addresses(call, wishing, "--person", "Bo")["Bo"])
    assert "Offer to colleagues Decline I would like this day off" in text(bo("/my-week"))
    on_the_day = guest(wishing.spec, addresses(call, wishing, "--person", "Bo")["Bo"], NOW + timedelta(days=1))
    shown_days = text(on_the_day("/my-week"))
    assert shown_days.count("I would like this day off") == text(bo("/my-week")).count("I would like this day off") - 1
    assert [reply(bo, "wished", "early") for _ in range(2)] == [303, 303]
    assert shift_of(wishing.spec, "Bo") == ""
    assert "You asked for this day off. I cannot work on this day Withdraw wish" in text(bo("/my-week"))
    assert ("♡", "would like the day off") in marks(bo)
    assert audit(wishing.spec) == ["wished a free day of 2024-04-11 at A"]
    shift_edits.save(wishing.spec, "A", [ShiftEdit("Bo", THURSDAY, "early")], by="vic")
    assert "You asked for this day off, but you are needed." in text(bo("/my-week"))
    assert reply(bo, "unwished", "early") == 303
    assert "asked for this day off" not in text(bo("/my-week"))


def test_withdrawing_an_answer_keeps_a_planners_edit(call: Call, fleet: Fleet) -> None:
    bo = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    shift_edits.save(fleet.spec, "A", [ShiftEdit("Bo", THURSDAY, "early")], by="vic")
    assert reply(bo, "confirmed", "early") == 303
    assert reply(bo, "declined", "early") == 303
    assert shift_of(fleet.spec, "Bo") == ""
    assert reply(bo, "withdrawn", "") == 303
    assert shift_of(fleet.spec, "Bo") == "early"
    shift_edits.save(fleet.spec, "A", [ShiftEdit("Bo", THURSDAY, "early")], by="vic")
    assert reply(bo, "confirmed", "early") == 303
    assert "Confirmed" in text(bo("/my-week"))


def test_a_free_day_can_be_declined(call: Call, fleet: Fleet) -> None:
    free = next(who.name for who in plan(fleet.spec).positions if THURSDAY not in {duty.date for duty in who.duties})
    browser = guest(fleet.spec, addresses(call, fleet, "--person", free)[free])
    assert "Thu 11 Apr No shift I cannot work on this day" in text(browser("/my-week"))
    assert reply(browser, "declined", "") == 303
    assert "Thu 11 Apr You cannot work on this day." in text(browser("/my-week"))
    assert marks(browser, free)[1] == ("✗", "cannot work")


def test_an_uncovered_shift_stays_open_in_a_published_week(call: Call, tmp_path: Path) -> None:
    """The schedule covers wanted crews: it changes, and costs a premium, only if these do."""
    noticed = STAFFING.replace("cost_idle: 22", "cost_idle: 22, notice_days: 2, change_premium: [{removed: 9}]")
    few = noticed.replace("per_depot: 9", "per_depot: 0") + PAGE
    spec = publish_nights(tmp_path / "few", fleets.counts("AB"), staffing=few, people=PEOPLE).spec
    bo = guest(spec, addresses(call, fleets.found(tmp_path / "few"), "--person", "Bo")["Bo"])
    assert spec.staffing is not None
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        whole, week = current(spec), (THURSDAY, THURSDAY)
        schedules.publish_days(connection, spec.name, whole.depots, week, spec.staffing, by="vic", at=datetime.now(UTC))
        told = schedules.read_told(connection, spec.name, THURSDAY)
    before, _ = day(whole).roster, reply(bo, "declined", "early")
    after = day(current(spec)).roster
    assert before is not None
    assert after is not None
    assert (dict(before.missing)["early"], dict(after.missing)["early"]) == (3, 4)
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert schedules.read_told(connection, spec.name, THURSDAY) == told


def test_rejects_invalid_answers_without_changes(call: Call, fleet: Fleet) -> None:
    link = addresses(call, fleet, "--person", "Bo")["Bo"]
    bo = guest(fleet.spec, link)
    before = plan(fleet.spec)
    assert reply(bo, "confirmed", "late") == 422  # the shift has changed
    assert reply(bo, "confirmed", "early", THURSDAY + 30 * DAY) == 422
    assert reply(bo, "sworn", "early") == 422
    assert reply(bo, "declined", "early", csrf="x") == 403
    anas = guest(fleet.spec, addresses(call, fleet, "--person", "Ana")["Ana"])
    assert reply(bo, "declined", "early", csrf=token(anas)) == 403
    late = guest(fleet.spec, link, NOW + timedelta(days=2))
    assert "11 Apr" not in text(late("/my-week"))
    assert reply(late, "declined", "early") == 422  # the day is over
    assert plan(fleet.spec) == before
    assert audit(fleet.spec) == []


def test_a_persons_link_requires_a_planned_person(call: Call, fleet: Fleet) -> None:
    for options, why in (
        (("person", "--depot", "A", "--person", "Cy"), "--person: found 'Cy', wanted one of Ana, Bo, full-time 1"),
        (("person", "--person", "Bo"), "--depot: found None, wanted a depot whose people are planned"),
        (("wall", "--person", "Bo"), "--person: found 'Bo', wanted it with the view person alone"),
    ):
        code, _, err = call("link", fleet.file, "--view", *options)
        assert (code, why in err) == (2, True), err
    app = house(fleet.spec.ledger_url, declared(), NOW, fleet.spec, fleet.spec.name)
    assert signed_in(app, "ada").writes("/api/v1/links", json={"view": "person"}).status_code == 422
    addresses(call, fleet, "--person", "Bo")
    assert "person, A, Bo" in call("links", fleet.file)[1]


def test_a_persons_revoked_link_opens_nothing(call: Call, fleet: Fleet) -> None:
    bo = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    number = call("links", fleet.file)[1].split()[0]
    assert call("links", fleet.file, "--revoke", number)[0] == 0
    assert bo("/my-week").status_code == 401


def test_explains_that_a_person_is_no_longer_planned(call: Call, fleet: Fleet) -> None:
    bo = guest(fleet.spec, addresses(call, fleet, "--person", "Bo")["Bo"])
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert plan_rows.forget_person(connection, fleet.spec.name, "A", "Bo") == 2
    answer = bo("/my-week")
    assert (answer.status_code, "You are no longer in the plan of A" in text(answer)) == (404, True)
    assert bo("/my-week/calendar").status_code == 404


def take(browser: Guest, shift: str, day: object = THURSDAY) -> int:
    return browser("/my-week", "POST", data={"take": shift, "day": str(day), "csrf": token(browser)}).status_code


def test_an_offered_shift_stays_until_a_colleague_takes_it(call: Call, fleet: Fleet) -> None:
    free = next(who.name for who in plan(fleet.spec).positions if THURSDAY not in {duty.date for duty in who.duties})
    links = addresses(call, fleet)
    bo, other = guest(fleet.spec, links["Bo"]), guest(fleet.spec, links[free])
    assert reply(bo, "offered", "early") == 303
    assert shift_of(fleet.spec, "Bo") == "early"
    assert "Offered to colleagues; it is yours until one takes it. Decline Withdraw answer" in text(bo("/my-week"))
    assert marks(bo)[1] == ("⇄", "offered to colleagues")
    page = text(other("/my-week"))
    assert "Take early, 06:00–14:00, which a colleague offers" in page
    assert "Bo" not in page
    crew = day(current(fleet.spec)).drivers
    assert take(other, "early") == 303
    assert (shift_of(fleet.spec, "Bo"), shift_of(fleet.spec, free)) == ("", "early")
    assert day(current(fleet.spec)).drivers == crew
    assert take(other, "early") == 422  # no longer offered
    assert "Take early" not in text(guest(fleet.spec, links["full-time 9"])("/my-week"))
    assert audit(fleet.spec) == ["took over early of 2024-04-11 at A", "offered early of 2024-04-11 at A"]


def test_only_eligible_people_see_an_offer(call: Call, fleet: Fleet) -> None:
    """Bo cannot work late, and people who already work on that day get no offers."""
    late = next(who.name for who in plan(fleet.spec).positions if shift_of(fleet.spec, who.name) == "late")
    links = addresses(call, fleet)
    assert reply(guest(fleet.spec, links["Bo"]), "declined", "early") == 303
    assert reply(guest(fleet.spec, links["Bo"]), "withdrawn", "") == 303
    shift_edits.save(fleet.spec, "A", [ShiftEdit("Bo", THURSDAY, "")], by="vic")
    assert reply(guest(fleet.spec, links[late]), "offered", "late") == 303
    bo, early = (
        guest(fleet.spec, links["Bo"]),
        next(who.name for who in plan(fleet.spec).positions if shift_of(fleet.spec, who.name) == "early"),
    )
    assert "Take" not in text(bo("/my-week"))
    assert take(bo, "late") == 422
    assert "Take" not in text(guest(fleet.spec, links[early])("/my-week"))
    assert take(guest(fleet.spec, links[early]), "late") == 422
    assert shift_of(fleet.spec, late) == "late"


def test_a_planner_makes_a_link_for_a_person_on_the_page(fleet: Fleet) -> None:
    app = house(fleet.spec.ledger_url, declared(), NOW, fleet.spec, fleet.spec.name)
    pat = signed_in(app, "pat", "planners")
    csrf = pat("/shifts?depot=A").text.partition('name="csrf" value="')[2].partition('"')[0]

    def made(person: str, who: Guest = pat) -> httpx.Response:
        return who("/shifts/links", "POST", data={"depot": "A", "person": person, "csrf": csrf})

    answer = made("Bo")
    assert answer.status_code == 200
    address = answer.text.partition('<code class="address">')[2].partition("</code>")[0]
    bo = guest(fleet.spec, "https://depots.example/link/" + address.rpartition("/link/")[2])
    assert "Bo · A" in text(bo("/my-week"))
    assert address not in pat("/shifts?depot=A").text  # shown once
    assert made("Nobody").status_code == 422
    assert made("Bo", signed_in(app, "vic")).status_code == 403
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        [link] = access.links(connection, fleet.spec.name)
    assert (link.view, link.depot_id, link.person, link.made_by) == ("person", "A", "Bo", "pat")
