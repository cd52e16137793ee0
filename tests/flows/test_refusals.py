"""Runs that cannot begin are reported where people look, and no night before the installation is
awaited."""

from __future__ import annotations

import html
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dashboards.ops.app import create_app
from forecaster.config import load
from forecaster.errors import SpecError
from forecaster.ledger import run_totals
from forecaster.ledger.store import Ledger
from forecaster.operations import plan
from tests.flows.tiny import pipeline


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("wrong", ["name: tiny\nhorizont: 3\n", "name: tiny\ndemand: [\n"])
def test_an_invalid_pipeline_file_is_reported_in_state_log_ledger_and_page(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import prefect_view
    from flows.deadline import deadline
    from flows.nightly import nightly
    from flows.predict_only import predict_only

    monkeypatch.setattr(logging.getLogger("prefect.flow_runs"), "handlers", [caplog.handler])
    file = pipeline(tmp_path)
    spec = load(file)
    plan.save_spec(spec)  # as a deployment does
    file.write_text(wrong, "utf-8")
    with pytest.raises(SpecError) as refused:
        load(file)
    sentence = str(refused.value)
    assert str(file) in sentence
    for flow in (nightly, predict_only, deadline):
        state = flow(str(file), return_state=True)
        assert (state.type.value, state.message, prefect_view.exit_code(state)) == ("FAILED", sentence, 2)
        assert sentence in caplog.messages  # shown by Prefect, and in the worker's log
        caplog.clear()
    with Ledger.open_reader(spec.ledger_url) as ledger:
        runs = ledger.runs("tiny")
    assert {(run.kind, run.outcome, run.exit_code, run.message) for run in runs} == {
        ("night", "failed", 2, sentence),
        ("refresh", "failed", 2, sentence),
    }
    app = create_app(spec.ledger_url, pipeline="tiny", spec=spec)
    page = TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 5))
    assert sentence.splitlines()[0] in html.unescape(page.get("/health").text)


def test_a_deadline_before_the_first_awaited_night_is_not_late(tmp_path: Path) -> None:
    from flows import notify

    file, deployed = pipeline(tmp_path), datetime(2026, 6, 20, 4, 0, tzinfo=UTC)
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        run_totals.open_deploy_window(connection, spec.name, deployed)
    assert notify.late_sentence(str(file), datetime(2026, 6, 20, 5, 30, tzinfo=UTC)) is None
    assert notify.late_sentence(str(file), datetime(2026, 6, 21, 5, 30, tzinfo=UTC)) == (
        "tiny: not published by 05:30 on 2026-06-21; nothing has ever run"
    )
