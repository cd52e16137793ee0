"""Somebody's own files, each from `init --from` to a published forecast."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.errors import DEGRADED, PUBLISHED
from forecaster.ledger.store import Ledger
from tests.onboarding import made_up_files


def forecaster(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forecaster", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.e2e
@pytest.mark.parametrize("shape", made_up_files.SHAPES, ids=lambda shape: shape.__name__)
def test_any_file_leads_to_a_published_forecast(shape: Callable[[Path, date], Path], tmp_path: Path) -> None:
    file = shape(tmp_path, date.today() - timedelta(days=1))
    written = forecaster(tmp_path, "init", "my-fleet", "--from", file.name, "--country", "DE")
    assert written.returncode == 0, written.stderr
    assert "check     usable" in written.stdout
    commands = [shlex.split(line.split("   ")[0]) for line in written.stdout.split("Next:\n")[1].splitlines()]
    assert [command[1] for command in commands] == ["check", "run", "serve"]
    checked = forecaster(tmp_path, *commands[0][1:])
    assert checked.returncode == 0, checked.stdout
    # the fallback forecasts: to train takes minutes
    published = forecaster(tmp_path, "predict-only", "--plain", *commands[1][2:])
    assert published.returncode in (PUBLISHED, DEGRADED), published.stderr
    spec = load(tmp_path / "my-fleet" / "pipeline.yaml")
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        depots = ledger.depots(head.publication_id)
    assert {depot.depot_id for depot in depots} == {*made_up_files.DEPOTS}
