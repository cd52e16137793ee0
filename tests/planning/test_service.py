"""A planner's override is shown at once, applied by later runs, and can be withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
import sqlalchemy as sa

from forecaster.errors import LedgerError, OverrideError
from forecaster.lake import Lake
from forecaster.ledger import access
from forecaster.ledger.store import Ledger
from forecaster.planning import refresh, service
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from forecaster.publishing.replay import replay
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, PROPOSED, THURSDAY, current, day, parts, publish_as_of


def test_saved_override_updates_day_totals_and_rosters_at_once(fleet: Fleet) -> None:
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
    network = [[t.quantiles[1] for t in entry.totals if not t.name and t.days == 1] for entry in (before, after)]
    assert [round(b - a) for a, b in zip(*network, strict=True)][1] == pytest.approx(90 - unchanged.quantiles[1], abs=3)
    assert network[0][0] == network[1][0]
    assert day(after, on=date(2024, 4, 10)) == day(before, on=date(2024, 4, 10))
    assert unchanged.change is not None
    assert overridden.change is not None
    assert dict(overridden.change.parts)["override"] == 90 - round(unchanged.quantiles[1])
    assert parts(after)
    vans = [sum(entry.drivers or 0 for d in after.depots for entry in d.days if entry.target_date == THURSDAY)]
    assert vans[0] <= 30


@pytest.mark.parametrize("where", ["the audit", "the publication"])
def test_override_publication_and_audit_are_written_atomically(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    saved = service.save(fleet.spec, PROPOSED, audit=noted)
    before = current(fleet.spec)

    def fails(*_: object) -> None:
        raise LedgerError(f"{where} cannot be written")

    if where == "the publication":
        monkeypatch.setattr(refresh, "_record_results", fails)
    audit = fails if where == "the audit" else noted
    with pytest.raises(LedgerError, match="cannot be written"):
        service.save(fleet.spec, replace(PROPOSED, orders=70), audit=audit)
    with pytest.raises(LedgerError, match="cannot be written"):
        service.withdraw(fleet.spec, saved.override.id, by="Ben", audit=audit)
    assert current(fleet.spec) == before
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        assert service.list_overrides(ledger, fleet.spec.name) == (saved.override,)
        with ledger.transaction() as connection:
            assert [row.what for row in access.entries(connection, fleet.spec.name)] == [saved.sentence()]


def test_saving_the_same_override_again_is_idempotent(fleet: Fleet) -> None:
    first = service.save(fleet.spec, PROPOSED, audit=noted)
    again = service.save(fleet.spec, PROPOSED, audit=noted)
    assert (again.override, again.sentence()) == (first.override, first.sentence())
    other = service.save(fleet.spec, replace(PROPOSED, orders=70), audit=noted)
    back = service.save(fleet.spec, PROPOSED, audit=noted)
    service.withdraw(fleet.spec, back.override.id, by="Ben")
    last = service.save(fleet.spec, PROPOSED, audit=noted)
    assert [change.override.id for change in (first, again, other, back, last)] == [1, 1, 2, 3, 4]
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert len(service.list_overrides(ledger, fleet.spec.name)) == 4
        assert len(access.entries(connection, fleet.spec.name)) == 4


def noted(connection: sa.Connection, change: service.OverrideChange) -> None:
    entry = access.AuditEntry(
        datetime.now(UTC), "small", change.override.by, "planner", "::1", "POST", "/overrides", change.sentence()
    )
    access.note(connection, entry)


def test_withdrawal_restores_the_page_and_keeps_the_row(fleet: Fleet) -> None:
    before = current(fleet.spec)
    saved = service.save(fleet.spec, PROPOSED)
    service.withdraw(fleet.spec, saved.override.id, by="Ben")
    assert current(fleet.spec) == before
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        [row] = service.list_overrides(ledger, fleet.spec.name)
    assert (row.orders, row.by, row.withdrawn is not None) == (90, "Ana", True)
    with pytest.raises(OverrideError, match=r"was withdrawn on .* already"):
        service.withdraw(fleet.spec, row.id, by="Ben")


def test_withdrawing_a_superseded_override_changes_nothing(fleet: Fleet) -> None:
    first = service.save(fleet.spec, PROPOSED)
    service.save(fleet.spec, replace(PROPOSED, orders=70))
    before = current(fleet.spec)
    message = service.withdraw(fleet.spec, first.override.id, by="Ben").sentence()
    assert message == "override 1 withdrawn: override 2 had replaced it, A on 2024-04-11 stays as it is"
    assert current(fleet.spec) == before


def test_later_runs_apply_an_override_until_it_expires(fleet: Fleet) -> None:
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


def test_value_of_an_override_is_known_when_its_day_is_over(fleet: Fleet) -> None:
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
def test_rejects_overrides_of_unpublished_days_and_depots(
    published_fleet: Fleet, wrong: Mapping[str, object], message: str
) -> None:
    with pytest.raises(OverrideError, match=message):
        service.save(published_fleet.spec, replace(PROPOSED, **wrong))  # type: ignore[arg-type]
    with Ledger.open_reader(published_fleet.spec.ledger_url) as ledger:
        assert service.list_overrides(ledger, published_fleet.spec.name) == ()


# --- closed weekdays --------------------------------------------------------------------------------------------------


def test_planner_opens_a_closed_weekday_and_closes_it_again(without_thursdays: Fleet) -> None:
    spec = without_thursdays.spec
    assert current(spec).note is None
    closed = day(current(spec))
    assert (closed.open, set(closed.quantiles), closed.drivers, closed.roster) == (False, {0.0}, 0, None)
    saved = service.save(spec, PROPOSED)
    opened = day(current(spec))
    assert opened.override is not None
    assert (opened.open, opened.quantiles[1], opened.override.quantiles) == (True, 90, closed.quantiles)
    assert opened.quantiles[0] < 90 < opened.quantiles[2]  # as wide as A's other days
    assert opened.drivers is not None
    assert opened.drivers >= 9
    assert parts(current(spec))
    publish_as_of(spec, AS_OF)  # another run of the same morning applies it
    assert (day(current(spec)).open, day(current(spec)).quantiles) == (True, opened.quantiles)
    assert day(current(spec)).drivers == opened.drivers
    service.save(spec, replace(PROPOSED, orders=70))
    assert day(current(spec)).quantiles[1] == 70
    [*rows] = service.list_overrides(Ledger.open_reader(spec.ledger_url), spec.name)
    service.withdraw(spec, rows[-1].id, by="Ben")
    assert day(current(spec)) == replace(closed, change=day(current(spec)).change)
    assert saved.revised.trouble is None


def test_what_if_can_open_a_closed_weekday(without_thursdays: Fleet) -> None:
    spec = without_thursdays.spec
    questions = Questions.of(spec.paths.folder, current(spec))
    answer = questions.ask(Supposition("A", THURSDAY, "orders", 90))
    assert (answer.before.open, answer.before.drivers, answer.after.open, answer.after.orders) == (False, 0, True, 90)
    by_model = questions.ask(Supposition("A", THURSDAY, "open", 1)).after
    assert by_model.open
    assert by_model.orders > 10
    service.save(spec, PROPOSED)
    opened = Questions.of(spec.paths.folder, current(spec))
    closed = opened.ask(Supposition("A", THURSDAY, "closed"))
    assert (closed.before.open, closed.before.orders, closed.after.open, closed.after.orders) == (True, 90, False, 0)
    assert closed.before.drivers == answer.after.drivers
