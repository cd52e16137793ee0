"""Users' own files, each from `init --from` to a published forecast."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.errors import DEGRADED, PUBLISHED
from forecaster.ledger.store import Ledger
from tests import prefect_home
from tests.calls import Call
from tests.onboarding import made_up_files


@pytest.mark.e2e
@pytest.mark.parametrize("shape", made_up_files.SHAPES, ids=lambda shape: shape.__name__)
def test_any_file_leads_to_a_published_forecast(
    shape: Callable[[Path, date], Path], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = shape(tmp_path, date.today() - timedelta(days=1))
    code, out, err = call("init", "my-fleet", "--from", file.name, "--country", "DE")
    assert code == 0, err
    assert "check     usable" in out
    commands = [shlex.split(line.split("   ")[0]) for line in out.split("Next:\n")[1].splitlines()]
    assert [command[1] for command in commands] == ["check", "run", "serve"]
    code, out, _ = call(*commands[0][1:])
    assert code == 0, out
    prefect_home.put_into(tmp_path / "my-fleet" / "var")
    # the fallback forecasts: training takes minutes
    code, _, err = call("predict-only", "--plain", *commands[1][2:])
    assert code in (PUBLISHED, DEGRADED), err
    spec = load(tmp_path / "my-fleet" / "pipeline.yaml")
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        depots = ledger.depots(head.publication_id)
    assert {depot.depot_id for depot in depots} == {*made_up_files.DEPOTS}
