"""A run suspended beyond its lease publishes nothing more, reports it in one sentence and leaves no
child processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from forecaster.config import load
from forecaster.ledger import lease, tables
from forecaster.ledger.store import Ledger
from tests.flows.test_interrupted import ROOT, children_left, night
from tests.flows.tiny import NIGHT, pipeline_for_prefect

pytestmark = [pytest.mark.long, pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")]


def test_a_suspended_run_of_another_machine_is_ended_and_does_not_publish(tmp_path: Path) -> None:
    file = pipeline_for_prefect(tmp_path)
    first = night(file, "--plain")
    os.killpg(first.pid, signal.SIGSTOP)
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        current = lease.read_lease(connection, spec.name)
        assert current is not None
        columns = {
            "holder": f"elsewhere {current.holder.partition(' ')[2]}",
            "expires_at": datetime.now(UTC) - timedelta(seconds=1),
        }
        connection.execute(sa.update(tables.lease).values(**columns))
    second = subprocess.run(
        [sys.executable, "-m", "forecaster", "predict-only", "--plain", str(file), "--as-of", NIGHT.isoformat()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert second.returncode == 3, second.stderr  # the fallback: no model yet
    os.killpg(first.pid, signal.SIGCONT)
    # It checks its lease once a minute, and before it promotes or publishes.
    _, stderr = first.communicate(timeout=500)
    assert first.returncode == 1, stderr
    assert "Traceback" not in stderr
    sentences = r"it was inactive for so long that another run took over its lease|not for run .* any more"
    assert len(re.findall(sentences, stderr)) == 1
    assert children_left(file) == []
    with Ledger.open_reader(spec.ledger_url) as ledger:
        later, earlier = ledger.runs()
        assert [head.run_id for head in ledger.publications(spec.name)] == [later.run_id]
    assert str(earlier.message) == f"it was killed, or its machine went down; run {later.run_id} detected it"
