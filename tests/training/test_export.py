"""A bundle contains the card of its model, which a command prints."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.reports import run_notes
from forecaster.reports.run_notes import MeasuredDrift
from forecaster.serving.bundle import MANIFEST
from forecaster.training import backtest, export
from tests import fleets
from tests.calls import Call
from tests.evaluation.test_segments import judged
from tests.fleets import AS_OF
from tests.panels import quickly


def test_a_bundle_has_its_model_card(tmp_path: Path, call: Call) -> None:
    fleet = fleets.build_fleet(tmp_path / "fleet")
    knowledge = read_as_of(fleet.spec, as_of=AS_OF)
    panel = panels.build(knowledge, fleet.spec)
    candidate, scores = fleets.untrained(panel), {backtest.CANDIDATE: judged(panel)}
    drift = MeasuredDrift(date(2024, 4, 8), {"covariates_drifted": 1})
    with quickly():
        made = export.to_bundle(candidate, panel, scores, knowledge, fleet.spec, quick=True, drift=drift).folder
    code, out, err = call("champions", fleet.file, "--card", made.name[:8])
    assert (code, err) == (0, "")
    assert out == run_notes.card(scores[backtest.CANDIDATE], panel, drift) + "\n"
    assert "| covariates | 1 | 0 |" in out
    assert json.loads((made / MANIFEST).read_text("utf-8"))["card"] == out.removesuffix("\n")
    code, out, _ = call("champions", fleet.file, "--card", fleet.bundle.name)
    assert (code, "measured on" in out) == (0, False)
    assert out.endswith("**Metrics**: not measured.\n")
