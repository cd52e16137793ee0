"""A run killed at any point is finished by the next one, which repeats no finished training."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.serving import bundle, keys

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc"),
    pytest.mark.timeout(1800),  # three minutes on two idle cores
]


WITHIN = ["within ingest", "within train", "within export", "within promote", "within predict"]
ONCE_PUBLISHED = ["within record", "within register"]


@pytest.mark.parametrize(
    ("points", "failed", "degraded"),
    [
        pytest.param([*WITHIN, *ONCE_PUBLISHED], len(WITHIN), len(ONCE_PUBLISHED), id="within stages"),
        pytest.param([], 16, 5, id="at every boundary and within every stage", marks=pytest.mark.exhaustive),
    ],
)
def test_a_killed_run_is_finished_by_the_next(tmp_path: Path, points: list[str], failed: int, degraded: int) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.flows.killed", str(tmp_path), *points],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout.splitlines()[-1])
    assert set(report["died"].values()) == {-signal.SIGKILL}, (report["died"], process.stderr)
    assert len(report["died"]) == failed + degraded
    assert report["last"] == 0, process.stderr
    # One training was killed with its run and the next one finished; later runs trained nothing.
    assert report["trained"] == ["started", "started", "ended"]
    spec = load(tmp_path / "pipeline.yaml")
    with Ledger.open_reader(spec.ledger_url) as ledger:
        runs = ledger.runs(limit=100)
        head = ledger.current(spec.name)
        promotions = ledger.promotions(spec.name)
    assert head is not None
    assert [run.outcome for run in runs] == ["published"] + ["degraded"] * degraded + ["failed"] * failed
    for run, later in zip(runs[1:], runs, strict=False):
        published = " after it had published" if run.outcome == "degraded" else ""
        message = f"it was killed{published}, or its machine went down; run {later.run_id} detected it"
        assert run.message == message
    assert (head.run_id, head.tier) == (runs[0].run_id, "fresh")
    # A run killed after publishing and repeated by hand is published again, with the same
    # forecasts.
    assert head.publication_id == degraded + 1
    assert {promotion.bundle_digest for promotion in promotions} == {head.bundle_digest}
    assert promotions[-1].model_version == "1"
    bundles = spec.paths.bundles
    assert sorted(path.name for path in bundles.iterdir()) == [head.bundle_digest, f"{head.bundle_digest}.tar.zst"]
    model = bundle.read(bundles / str(head.bundle_digest), keys.trusted_keys(spec.paths.folder))
    assert model.manifest["pipeline"] == "tiny"
    assert list((spec.paths.registry_outbox).iterdir()) == []
    readings = Lake(spec.lake_url).read("demand", columns=["depot_id", "date"]).to_pylist()
    assert len({(row["depot_id"], row["date"]) for row in readings}) == len(readings) == 4 * 130
