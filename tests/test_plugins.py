"""Plug-ins are optional: a pipeline that does not declare one forecasts without its packages, and
the page shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from forecaster import plugins
from forecaster.config import load
from forecaster.errors import MissingExtra, SpecError
from forecaster.plugins import MODULES, PLUGINS, Plugin, plugin
from tests.flows import tiny

ROOT = Path(__file__).parents[1]
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{package}.") for package in sys.argv[1:]):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import forecaster.cli.app, flows.lines, flows.tasks, dashboards.ops.app, forecaster.training.train
"""
FRONT_PAGE = """
import asyncio, sys, httpx
from dashboards.ops.app import create_app
from forecaster.config import load

async def ask():
    spec = load(sys.argv[1])
    transport = httpx.ASGITransport(create_app(spec.ledger_url, spec=spec))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.get("/")

answer = asyncio.run(ask())
assert answer.status_code == 200 and "D3" in answer.text, answer.text
"""


def python(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a Python that imports the project from `cwd`."""
    environment = {**os.environ, "PYTHONPATH": str(cwd), "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}
    process = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_commands_steps_and_page_can_be_imported_without_any_plugin() -> None:
    python("-c", HIDE, *(package for plugin in PLUGINS.values() for package in plugin.packages))


@pytest.mark.long
@pytest.mark.parametrize(
    "absent",
    [
        pytest.param(tuple(PLUGINS), id="any"),  # an import of any of them fails here; the cases below show which one
        *(pytest.param((name,), id=name, marks=pytest.mark.exhaustive) for name in PLUGINS),
    ],
)
def test_a_night_runs_and_the_page_answers_without_the_plugin(absent: tuple[str, ...], tmp_path: Path) -> None:
    for package in ("forecaster", "flows", "dashboards"):
        shutil.copytree(ROOT / package, tmp_path / package)
    for package in (package for name in absent for package in PLUGINS[name].packages):
        path = tmp_path / package.replace(".", "/")
        shutil.rmtree(path) if path.is_dir() else path.with_suffix(".py").unlink()
    file = tiny.pipeline_that_knows_its_model(tmp_path / "fleet")
    python("-m", "forecaster", "run", file, "--plain", "--as-of", tiny.NIGHT.isoformat(), cwd=tmp_path)
    python("-c", FRONT_PAGE, file, cwd=tmp_path)


def test_a_key_that_declares_an_absent_plugin_is_rejected_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Plugin(("training.when: worthwhile",), "", ("forecaster.absent.worthwhile",))
    monkeypatch.setattr(plugins, "PLUGINS", {"worthwhile": absent})
    file = tiny.pipeline(tmp_path)
    load(file)
    file.write_text(file.read_text("utf-8").replace("training: {", "training: {when: worthwhile, "), "utf-8")
    sentence = "training.when: worthwhile needs forecaster.absent.worthwhile, which this installation does not have"
    with pytest.raises(SpecError, match=sentence):
        load(file)
    with pytest.raises(MissingExtra, match=sentence):
        plugin("worthwhile")


def test_each_plugin_has_a_contract_and_only_its_own_entries() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    of_plugins = {
        contract["name"].removeprefix("Plug-in: "): (contract["protected_modules"], contract["allowed_importers"])
        for contract in contracts
        if contract["type"] == "protected"
    }
    packages = {name: list(plugin.packages) for name, plugin in PLUGINS.items()}
    assert of_plugins == {name: (owned, owned) for name, owned in packages.items()}
    for entry, module in MODULES.items():
        assert module.startswith(PLUGINS[entry.partition(".")[0]].packages)
        assert plugin(entry).__name__ == module
