"""A missing ledger is reported if lake and models exist, and only then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.run_start import lost_ledger
from tests.calls import Call
from tests.flows.tiny import NIGHT, after_a_night, pipeline


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load(after_a_night(tmp_path))


def message(spec: Spec) -> str:
    return (
        f"Lake and models of earlier nights exist, but no ledger at {spec.paths.ledger}: `forecaster restore` "
        f"restores it from a backup; otherwise a new one is created."
    )


def lose(spec: Spec) -> None:
    for file in spec.paths.folder.glob("ledger.db*"):
        file.unlink()


def test_missing_or_empty_ledger_is_reported_next_to_lake_and_models(spec: Spec) -> None:
    assert lost_ledger(spec) is None
    lose(spec)
    assert lost_ledger(spec) == message(spec)
    spec.paths.ledger.touch()
    assert lost_ledger(spec) == message(spec)
    shutil.rmtree(spec.paths.lake)
    assert lost_ledger(spec) is None


def test_no_ledger_is_expected_before_the_first_night(tmp_path: Path) -> None:
    assert lost_ledger(load(pipeline(tmp_path))) is None


def test_status_and_predict_report_the_lost_ledger(spec: Spec, call: Call) -> None:
    lose(spec)
    file = spec.folder / "pipeline.yaml"
    assert f"last run   none: {message(spec)}\n" in call("status", file)[1]
    code, out, _ = call("predict", file, "--as-of", NIGHT.isoformat())
    assert (code, out.splitlines()[1:]) == (3, [message(spec)])
    assert message(spec) in call("status", file)[1]
    assert lost_ledger(spec) is None
