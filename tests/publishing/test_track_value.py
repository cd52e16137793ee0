"""Costs of rosters are computed run by run from that morning's crews, once, and again if a count
changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.demand.worked_hours import WorkedHours
from forecaster.lake import TABLES, Lake
from forecaster.ledger import value
from forecaster.ledger.records import Kind
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import AS_PLANNED, BUFFER, CITY, FORESIGHT, LAST_WEEK, MODEL, MONTH, PUBLISHED, WORKED
from forecaster.planning import override_table
from forecaster.planning.overrides import ProposedOverride
from forecaster.publishing import publish as publishing
from forecaster.publishing.track_value import track_value
from forecaster.staffing import value_account
from tests.demand.history.test_past_panels import FIRST, LAST, TONIGHT, days, write
from tests.panels import bare
from tests.publishing.test_publish import FALLBACK, one_day_later, published
from tests.publishing.test_track_accuracy import archive
from tests.staffing.test_rosters import spec_of

COSTS = "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10, currency: EUR}"
MONDAY = date(2024, 1, 15)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_of(tmp_path, COSTS)


@pytest.fixture
def panel() -> Panel:
    """Depots A, B from Monday 1 January 2024 on, with 21 known days: 100 a day at A, 10 at B, in
    the last week 110 at A."""
    demand = np.tile(np.array([[100.0], [10.0]], np.float32), (1, 21))
    demand[0, 14:] = 110.0
    return replace(bare(demand), depot_ids=("A", "B"), attributes={"city": ("Town", "Port")})


def run_night(spec: Spec, run_id: str, morning: date, orders: Sequence[float], kind: Kind = "night") -> None:
    """Add a run as of a morning with certain forecasts of A and B for that day."""
    with Ledger.open(spec.ledger_url) as ledger:
        as_of = datetime.combine(morning, datetime.min.time(), UTC) + timedelta(hours=3)
        ledger.start_run(run_id, pipeline=spec.name, as_of=as_of, spec_digest=spec.digest, kind=kind)
        ledger.finish_run(run_id, "published", 0)
    cutoff = morning - timedelta(days=1)
    rows = [(run_id, depot, cutoff, 1, count) for depot, count in zip("AB", orders, strict=True)]
    archive(Lake(spec.lake_url), *rows, width=0.0)


def costs(spec: Spec, part: str = value.ALL, cities: Sequence[str] | None = None) -> dict[tuple[str, str, str], float]:
    """(Monday, label, policy) → cost."""
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        weeks = value.week_costs(connection, spec.name, "EUR", since=date(2024, 1, 1), part=part, cities=cities)
    return {(str(week.week), week.label, week.way): week.cost for week in weeks}


def days_of(spec: Spec) -> list[value.ValuedDay]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return list(value.valued_days(connection, spec.name))


def test_cost_of_a_day_counts_missing_and_idle_drivers_of_its_crews(spec: Spec, panel: Panel) -> None:
    """Twelve drivers at A for a need of eleven, one surplus: 10. Last week's ten were one short:
    30."""
    run_night(spec, "n1", MONDAY, (120.0, 10.0))
    track_value(spec, panel)
    assert costs(spec) == {
        ("2024-01-15", "", PUBLISHED): 10,
        ("2024-01-15", "", MODEL): 10,
        ("2024-01-15", "", BUFFER): 10,
        ("2024-01-15", "", LAST_WEEK): 30,
        ("2024-01-15", "", FORESIGHT): 0,
    }
    assert costs(spec, CITY, ["Port"]) == {("2024-01-15", "Port", way): 0 for way in value.WAYS[:5]}
    assert costs(spec, MONTH)["2024-01-15", "2024-01-01", LAST_WEEK] == 30
    [day] = days_of(spec)
    assert (day.day, day.currency, day.backfilled, day.overridden, day.buffer) == (MONDAY, "EUR", False, 0, "+0%")


def test_worked_hours_are_compared_with_the_plan_where_they_are_known(spec: Spec, panel: Panel) -> None:
    """Eleven drivers were needed at A: nine worked, two short for 60, while the planned twelve cost
    10."""
    run_night(spec, "n1", MONDAY, (120.0, 10.0))
    track_value(spec, panel)
    assert ("2024-01-15", "", WORKED) not in costs(spec)
    nine = WorkedHours({MONDAY: pd.DataFrame({"depot_id": ["A"], "shift": [""], "hours": [9 * 8.0 - 3]})})
    track_value(spec, panel, worked=nine)  # arrived a night later
    assert {way: cost for (_, _, way), cost in costs(spec).items() if way in (WORKED, AS_PLANNED)} == {
        WORKED: 60,
        AS_PLANNED: 10,
    }
    assert costs(spec, CITY, ["Port"]) == {("2024-01-15", "Port", way): 0 for way in value.WAYS[:5]}
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        account = value_account.account(connection, spec.name, 8)
    assert account.deviation == value_account.Amount(50.0, None, None)
    worked = account.whole.of(WORKED)
    assert worked is not None
    assert (worked.drivers, worked.depot_days, worked.dearer.amount) == (9, 1, 50.0)


def test_overrides_affect_our_rosters_but_not_the_models(spec: Spec, panel: Panel) -> None:
    run_night(spec, "n1", MONDAY, (120.0, 10.0))
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        proposed = ProposedOverride("A", MONDAY, 104, "weather", "Ada")
        written = override_table.write(connection, spec.name, proposed, datetime(2024, 1, 14, tzinfo=UTC))
        override_table.record_model_orders(connection, spec.name, [MONDAY], {written.id: 120.0})
    track_value(spec, panel)
    found = costs(spec)
    assert (found["2024-01-15", "", PUBLISHED], found["2024-01-15", "", MODEL]) == (0, 10)
    assert [day.overridden for day in days_of(spec)] == [1]


def test_last_forecast_before_a_day_counts_and_a_backfill_only_without_one(spec: Spec, panel: Panel) -> None:
    run_night(spec, "n1", MONDAY, (120.0, 10.0))
    run_night(spec, "afterwards", MONDAY, (110.0, 10.0), "backfill")
    run_night(spec, "filled", MONDAY + timedelta(days=1), (130.0, 10.0), "backfill")
    track_value(spec, panel)
    assert costs(spec)["2024-01-15", "", PUBLISHED] == 10 + 20
    assert [day.backfilled for day in days_of(spec)] == [False, True]


def test_next_run_adds_a_day_and_updates_corrected_ones(spec: Spec, panel: Panel) -> None:
    for back, run_id in ((0, "n1"), (1, "n2")):
        run_night(spec, run_id, MONDAY + timedelta(days=back), (120.0, 10.0))
    early = replace(bare(panel.demand[:, :15]), depot_ids=("A", "B"), attributes=panel.attributes)
    track_value(spec, early)
    assert [day.day for day in days_of(spec)] == [MONDAY]
    track_value(spec, panel)
    assert costs(spec)["2024-01-15", "", PUBLISHED] == 20
    corrected = panel.demand.copy()
    corrected[0, 14] = 150.0  # three drivers short on Monday, instead of one surplus
    track_value(spec, replace(panel, demand=corrected))
    assert costs(spec)["2024-01-15", "", PUBLISHED] == 90 + 10
    track_value(spec, early)  # a past date run again
    assert len(days_of(spec)) == 2


def test_unchanged_days_are_not_recomputed(spec: Spec, panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    run_night(spec, "n1", MONDAY + timedelta(days=6), (120.0, 10.0))
    track_value(spec, panel)
    newcomer = replace(
        bare(np.vstack([panel.demand, np.full((1, 21), np.nan)])),
        depot_ids=("A", "B", "C"),
        attributes={"city": ("Town", "Port", "Town")},
    )
    monkeypatch.setattr("forecaster.publishing.track_value._read", lambda *_: pytest.fail("the archive was read"))
    track_value(spec, panel)
    track_value(spec, newcomer)


def first_night(tmp_path: Path, costs_declared: str) -> Spec:
    """Publish a first night with 40 orders a day at A and 10 at B, and begin a second run."""
    rows = (f"{depot},{day},{count}" for depot, count in (("A", 40), ("B", 10)) for day in days(FIRST, LAST))
    write(tmp_path, "demand", "depot_id,date,demand", *rows)
    spec = spec_of(tmp_path, costs_declared)
    ingest(spec, now=TONIGHT)
    with Ledger.open(spec.ledger_url) as ledger:
        for day, run in enumerate(("first", "second")):
            ledger.start_run(run, pipeline=spec.name, as_of=TONIGHT + timedelta(days=day), spec_digest=spec.digest)
        publishing.publish(spec, FALLBACK, as_of=TONIGHT, run_id="first")
        ledger.finish_run("first", "published", 0)
    return spec


def test_published_crews_are_billed_even_if_settings_have_changed(tmp_path: Path) -> None:
    """40 orders at A and 10 at B need four drivers and one; a later change to twice as many orders
    per driver does not affect them."""
    spec = first_night(tmp_path, COSTS)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,41", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    assert spec.staffing is not None
    dearer = spec.staffing.model_copy(update={"orders_per_driver": 20.0})
    outcome = one_day_later(spec.model_copy(update={"staffing": dearer}))
    assert (outcome.trouble, outcome.remark) == (None, None)
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        weeks = value.week_costs(connection, spec.name, "EUR", since=date(2024, 1, 1))
    found = {week.way: (week.drivers, week.short, week.idle) for week in weeks}
    assert found[PUBLISHED] == (5, 0, 1)  # 4 and 1 were published; 3 and 1 are needed at 20 orders per driver
    assert found[MODEL] == (3, 1, 0)


def test_published_crews_of_shifts_are_billed_by_shift(tmp_path: Path) -> None:
    """Actuals were 42 and 12 orders: three drivers in each shift of A and one in each of B, with
    forecasts of 40 and 10.

    As whole days these would be five and two, one surplus driver of the six published.
    """
    shifts = (
        "[{name: a, start: '06:00', end: '14:00', share: 0.5}, {name: b, start: '14:00', end: '22:00', share: 0.5}]"
    )
    spec = first_night(tmp_path, COSTS.replace("currency", f"shifts: {shifts}, currency"))
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,42", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    assert one_day_later(spec).remark is None
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        weeks = value.week_costs(connection, spec.name, "EUR", since=date(2024, 1, 1))
        told = value_account.account(connection, spec.name, 8)
    found = {week.way: (week.drivers, week.short, week.idle, week.cost) for week in weeks}
    assert found[PUBLISHED] == found[MODEL] == found[LAST_WEEK] == (6, 2, 0, 60)
    assert found[FORESIGHT] == (8, 0, 0, 0)
    assert told.overrides is None  # nobody planned anything


def test_run_reads_worked_hours_and_reports_invalid_ones(tmp_path: Path) -> None:
    clock = "worked_hours: {source: {kind: csv, path: clock.csv}}, currency"
    write(tmp_path, "clock", "date,depot_id,hours", "2024-03-11,A,24", "2024-03-11,B,lots")
    spec = first_night(tmp_path, COSTS.replace("currency", clock))
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,42", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    assert one_day_later(spec).remark is None
    assert {way: cost for (_, _, way), cost in costs(spec).items() if way in (WORKED, AS_PLANNED)} == {
        WORKED: 60,  # three drivers for a need of five
        AS_PLANNED: 30,
    }
    with Ledger.open_reader(spec.ledger_url) as ledger:
        assert "worked_form" in {finding["rule"] for finding in ledger.run("second").findings}


def test_crews_are_recomputed_if_the_shifts_have_changed(tmp_path: Path) -> None:
    spec = first_night(tmp_path, COSTS)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,42", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    shifts = [
        {"name": name, "start": start, "end": end, "share": 0.5}
        for name, start, end in (("a", "06:00", "14:00"), ("b", "14:00", "22:00"))
    ]
    assert spec.staffing is not None
    changed = type(spec.staffing).model_validate({**spec.staffing.model_dump(exclude_unset=True), "shifts": shifts})
    assert one_day_later(spec.model_copy(update={"staffing": changed})).remark is None
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        weeks = value.week_costs(connection, spec.name, "EUR", since=date(2024, 1, 1))
    found = {week.way: (week.drivers, week.short, week.idle) for week in weeks}
    assert found[PUBLISHED] == found[MODEL] == (6, 2, 0)


def test_renamed_depot_keeps_the_costs_of_its_rosters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new name does not trigger a recomputation; after a correction of a count its published
    crews are found."""
    spec = first_night(tmp_path, COSTS)
    write(tmp_path, "demand", "depot_id,date,demand", "A,2024-03-11,61", "B,2024-03-11,12")
    ingest(spec, now=TONIGHT + timedelta(days=1))
    assert one_day_later(spec).remark is None
    before = costs(spec)
    assert before["2024-03-11", "", PUBLISHED] == (7 - 4 + 2 - 1) * 30

    knowledge = read_as_of(spec, as_of=TONIGHT + timedelta(days=1))
    panel = replace(panels.build(knowledge, spec), depot_ids=("New", "B"))
    row = {"alias": "A", "depot_id": "New", "retracted": False, "recorded_at": TONIGHT}
    Lake.of(spec).append("aliases", pa.Table.from_pylist([row], schema=TABLES["aliases"]))
    with monkeypatch.context() as patched:
        patched.setattr("forecaster.publishing.track_value._read", lambda *_: pytest.fail("the archive was read"))
        track_value(spec, panel)
    assert costs(spec) == before

    corrected = panel.demand.copy()
    corrected[0, -1] = 51
    track_value(spec, replace(panel, demand=corrected))
    assert costs(spec)["2024-03-11", "", PUBLISHED] == (6 - 4 + 2 - 1) * 30


def test_forecast_is_published_even_if_roster_costs_cannot_be_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = published(tmp_path)

    def fails(*_: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("forecaster.publishing.listeners.track_value", fails)
    outcome = publishing.publish(spec, FALLBACK, as_of=TONIGHT + timedelta(days=1), run_id="second")
    assert (outcome.publication_id, outcome.trouble) == (2, None)
    assert outcome.remark == "the cost of rosters is not computed: RuntimeError: no such luck"
    assert outcome.remark in outcome.sentence()


def test_nothing_is_computed_without_declared_costs(tmp_path: Path, panel: Panel) -> None:
    track_value(spec_of(tmp_path, ""), panel)
    assert not (tmp_path / "var" / "ledger.db").exists()
