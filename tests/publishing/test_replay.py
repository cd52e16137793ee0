"""Old publications are reproduced, including the longest horizon."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboards.ops.app import create_app
from forecaster.ledger import accuracy
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.calls import Call
from tests.dashboards.visitor import ask_locally
from tests.fleets import AS_OF


def test_replay_what_if_explanations_and_accuracy_cover_a_horizon_of_61_days(tmp_path: Path, call: Call) -> None:
    """The longest horizon, in the queries of planners and operators."""
    legacy = "legacy: {source: {kind: csv, path: legacy.csv}, columns: {made_on: made_on}}\n"
    fleet = fleets.build_fleet(tmp_path, legacy, horizon=61)
    long_ago, tomorrow = AS_OF - timedelta(days=63), AS_OF + timedelta(days=1)
    said = [f"{depot},{long_ago.date() + timedelta(day)},50,{long_ago.date()}" for depot in "ABCD" for day in range(61)]
    (tmp_path / "legacy.csv").write_text("\n".join(["depot_id,date,forecast,made_on", *said, ""]), "utf-8")
    for at in (long_ago, AS_OF, tomorrow):
        code, out, err = call("predict", fleet.file, "--as-of", at.isoformat())
        assert code == 0, out + err
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        head = ledger.current(fleet.spec.name)
        assert head is not None
        days = ledger.depots(head.publication_id)[0].days
        old = ledger.runs(fleet.spec.name, 10)[2]
        with ledger.transaction() as connection:
            counted = accuracy.all_tallies(connection, fleet.spec.name)
    assert [day.horizon for day in days] == [*range(1, 62)]
    assert [day.change.since for day in days if day.change] == [AS_OF.date()] * 61
    assert old.as_of == long_ago
    code, out, err = call("replay", fleet.file, old.run_id)
    assert (code, "all 1,464 values are the published ones" in out) == (0, True), out + err
    assert {(row.model, row.label) for row in counted if row.part == accuracy.HORIZON} == {
        (model, f"{ahead:02d}")
        for model in (accuracy.FORECAST, accuracy.NAIVE, accuracy.LEGACY)
        for ahead in range(1, 62)
    }
    app = create_app(fleet.spec.ledger_url, pipeline=fleet.spec.name, clock=lambda: tomorrow, spec=fleet.spec)
    day = f"/api/v1/what-if?depot=A&date={days[-1].target_date}"
    supposed = ask_locally(app, "GET", f"{day}&kind=orders&value=90").json()
    assert supposed["before"]["orders"] == pytest.approx(days[-1].quantiles[1])
    assert supposed["after"]["orders"] == 90
    assert ask_locally(app, "GET", f"{day}&kind=promo&value=1").json()["after"]["orders"] > 0
