"""Output and exit codes of `forecaster status` if nothing is up."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from tests.calls import Call


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: tiny\ntimezone: UTC\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    return load(file)


def test_status_succeeds_before_the_first_run(call: Call, spec: Spec) -> None:
    code, out, err = call("status", spec.folder / "pipeline.yaml")
    assert (code, err) == (0, "")
    assert "last run   none: there is no ledger at " in out
    Ledger.open(spec.ledger_url).close()
    code, out, err = call("status", spec.folder / "pipeline.yaml")
    assert (code, err) == (0, "")
    assert "last run   none\npublished  nothing\n" in out


def test_a_damaged_ledger_is_an_error_after_the_other_lines(call: Call, spec: Spec) -> None:
    ledger = Path(spec.ledger_url.removeprefix("sqlite:///"))
    ledger.parent.mkdir(parents=True, exist_ok=True)
    ledger.write_text("orders\n" * 200, "utf-8")
    code, out, err = call("status", spec.folder / "pipeline.yaml")
    assert code == 1
    assert out.startswith("parts      nothing is up; ")
    assert err.startswith(f"forecaster: the ledger at sqlite:///{ledger} is damaged: ")
    assert "file is not a database" in err
