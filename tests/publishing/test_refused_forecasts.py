"""Forecasts that are not published: by an unusable named bundle, and for past days."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.serving import bundle_archive
from forecaster.serving.bundle import WEIGHTS
from tests.calls import Call
from tests.fleets import AS_OF, Fleet


@pytest.mark.parametrize("fault", ["absent", "renamed", "tampered", "tampered file"])
def test_unusable_named_bundle_exits_with_2_and_publishes_nothing(
    fault: str, fleet: Fleet, call: Call, tmp_path: Path
) -> None:
    assert call("predict", fleet.file, "--as-of", AS_OF.isoformat())[0] == 0  # a champion exists
    rows = Lake(fleet.spec.lake_url).read("forecasts").num_rows
    bad = tmp_path / (fleet.bundle.name if fault.startswith("tampered") else "nope")
    if fault != "absent":
        shutil.copytree(fleet.bundle, bad)
    if fault.startswith("tampered"):
        (bad / WEIGHTS).write_bytes(b"damaged")
    if fault == "tampered file":
        bad = bundle_archive.pack(bad)
    code, out, err = call("predict", fleet.file, "--as-of", AS_OF.isoformat(), "--bundle", bad)
    assert (code, out) == (2, "")
    assert f"--bundle: bundle {bad}" in err
    assert "nothing was published" in err
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        head, run = ledger.current("small"), ledger.runs("small", limit=1)[0]
    assert (head and head.publication_id, run.outcome, run.exit_code) == (1, "failed", 2)
    assert Lake(fleet.spec.lake_url).read("forecasts").num_rows == rows


def test_forecast_of_past_days_never_replaces_a_current_one(fleet: Fleet, call: Call) -> None:
    assert call("predict", fleet.file, "--as-of", AS_OF.isoformat())[0] == 0
    rows = Lake(fleet.spec.lake_url).read("forecasts").num_rows
    text = re.sub(r"max_age_days: \d+", "max_age_days: 999", fleet.file.read_text("utf-8"))
    fleet.file.write_text(text, "utf-8")
    for days in (9, 400):  # a feed that has stopped, and a wrong clock
        code, out, _ = call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=days)).isoformat())
        assert code == 3
        assert "all days of the new forecast are over, and publication 1 stays" in out
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        head, run = ledger.current("small"), ledger.runs("small", limit=1)[0]
    assert (head and head.publication_id, run.outcome, run.exit_code) == (1, "degraded", 3)
    assert Lake(fleet.spec.lake_url).read("forecasts").num_rows == rows
