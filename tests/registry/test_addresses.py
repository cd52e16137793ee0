"""Links into MLflow open the run itself, contain no password, and exist only if MLflow has an
address."""

from __future__ import annotations

import json
from pathlib import Path

from forecaster.config import load
from forecaster.ledger import lease
from forecaster.registry import addresses
from forecaster.registry.addresses import RegisteredRun


def test_links_open_runs_and_versions_if_mlflow_has_an_address(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: t\ndemand: {source: {kind: csv, path: d.csv}}\nstate: var\n", "utf-8")
    spec = load(file)
    assert addresses.base_address(spec) is None
    assert addresses.registered_run(spec, "night-1") is None
    addresses.keep(spec, "night-1", RegisteredRun("7", "ab12", "3"))
    assert addresses.registered_run(spec, "night-1") == RegisteredRun("7", "ab12", "3")
    up = {"holder": lease.this_process(), "health": {"mlflow": "http://127.0.0.1:5000/health"}}
    spec.paths.local_stack.write_text(json.dumps(up), "utf-8")
    assert addresses.base_address(spec) == "http://127.0.0.1:5000"
    gone = up["holder"].rpartition(" ")[0] + " 1"  # of a process that began at another time
    spec.paths.local_stack.write_text(json.dumps({**up, "holder": gone}), "utf-8")
    assert addresses.base_address(spec) is None
    served = spec.model_copy(update={"registry": "https://ada:secret@mlflow.example:8443/tracking/"})
    base = addresses.base_address(served)
    assert base == "https://mlflow.example:8443/tracking"
    assert RegisteredRun("7", "ab12").address(base) == f"{base}/#/experiments/7/runs/ab12?workflowType=machine_learning"
    assert RegisteredRun("7", "ab12").table(base) == f"{base}/#/experiments/7/runs?workflowType=machine_learning"
    assert addresses.version_address(base, "t", "3") == f"{base}/#/models/t/versions/3?workflowType=machine_learning"
