"""One module defines the paths in `state`, and they are stable."""

from __future__ import annotations

import ast
from pathlib import Path

from forecaster.core.state_paths import StatePaths

ROOT = Path(__file__).parents[2]
NAMES = {
    "backtest_checkpoints": "backtest/checkpoints",
    "bundles": "bundles",
    "check_report": "check.html",
    "guide_log": "start.log",
    "checkpoints": "checkpoints",
    "graphs": "graphs",
    "groups": "groups",
    "jax_cache": "jax_cache",
    "keys": "keys",
    "lake": "lake",
    "ledger": "ledger.db",
    "local_stack": "up.json",
    "logs": "logs",
    "mlflow": "mlflow.db",
    "mlflow_artifacts": "mlflow_artifacts",
    "page_answers": "page_answers",
    "plan": "plan.json",
    "prefect": "prefect",
    "profiles": "profiles",
    "registry_outbox": "registry_waiting",
    "reports": "reports",
    "restoring": "restoring",
    "run_report": "report.html",
    "saved_inputs": "desks",
    "specs": "specs",
    "up_artifacts": "artifacts",
}


def test_names_in_the_state_folder_are_stable() -> None:
    paths = StatePaths(Path("state"))
    properties = [name for name, member in vars(StatePaths).items() if isinstance(member, property)]
    assert {name: getattr(paths, name).relative_to("state").as_posix() for name in properties} == NAMES
    assert paths.bundle("abc") == Path("state/bundles/abc")
    assert paths.report_of("night-1") == Path("state/reports/night-1/report.html")
    assert paths.registered_run("night-1") == Path("state/reports/night-1/mlflow.json")


def test_no_other_module_builds_paths_in_the_state_folder() -> None:
    joined = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for package in ("forecaster", "flows", "dashboards")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant)
        if ast.unparse(node.left) in ("state", "spec.paths.folder", "self.paths.folder", "StatePaths(state).folder")
    ]
    assert joined == []
