"""A new version is warmed on one machine; the first run on another, from another path, compiles
nothing, not even for its boosted trees."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_fleet import NIGHT, ROOT, write

# Programs that use a scan compile in a third of the time; test_gru_cpu covers the compiled
# recurrence.
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true", "CXX": ""}
SHARED = "execution: {compile_cache: ../shared}\n"


def checkout(folder: Path) -> Path:
    for package in ("forecaster", "flows", "dashboards"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("tests"))
    return folder


def forecaster(code: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `forecaster …` with the code of a checkout."""
    surroundings = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    process = subprocess.run(
        [sys.executable, "-m", "forecaster", *map(str, arguments)],
        cwd=code,
        env={**surroundings, **QUICK, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def programs(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*-cache")}


@pytest.mark.long
def test_run_of_another_checkout_compiles_nothing_after_warm(tmp_path: Path) -> None:
    for machine in ("one", "two"):
        file = write(tmp_path / machine)
        file.write_text(file.read_text("utf-8").replace(", boosted: false", "") + SHARED, "utf-8")
    known = ("--as-of", str(NIGHT))
    warmed = forecaster(checkout(tmp_path / "old-place"), "warm", tmp_path / "one" / "pipeline.yaml", *known)
    before = programs(tmp_path / "shared")
    assert f"compiled {len(before)} programs in " in warmed.stdout
    assert not list((tmp_path / "one").glob("var/*"))  # no lake, ledger, model or checkpoint was created

    state = tmp_path / "two" / "var"
    forecaster(checkout(tmp_path / "new" / "place"), "run", "--plain", state.with_name("pipeline.yaml"), *known)
    ledger = sqlite3.connect(state / "ledger.db")
    [[content]] = ledger.execute("select measures from runs").fetchall()
    [[bundle]] = ledger.execute("select bundle_digest from runs").fetchall()
    ledger.close()
    measures = json.loads(content)
    hits, misses = measures["compile_hits"], measures["compile_misses"]
    assert misses == 0
    assert hits > 0
    assert hits / (hits + misses) == 1.0
    # Besides training, the run calibrates, exports and compares: nothing was missing for these
    # either.
    assert programs(tmp_path / "shared") == before
    assert not (state / "jax_cache").exists()
    manifest = json.loads((state / "bundles" / bundle[:16] / "manifest.json").read_text("utf-8"))
    assert manifest["training"]["boosted"]["weight"] > 0
