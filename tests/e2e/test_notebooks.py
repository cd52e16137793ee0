"""The notebooks of the documentation run from a wheel that was built and unpacked as by an
installer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from docs import notebooks

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the installed content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [file] = (folder / "dist").glob("*.whl")
    zipfile.ZipFile(file).extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.e2e
@pytest.mark.long
def test_notebooks_run_from_the_wheel_and_every_cell_has_output(wheel: Path) -> None:
    # The documentation shows their results and runs them unchanged; here a small network and a
    # short training suffice, and the boosted trees of one notebook.
    quick = r"preset=\"quick\""
    brief = quick + r", options={\"model\": {\"layers\": 1}, \"training\": {\"epochs\": 2, \"members\": 1}}"
    plain = brief.replace(r"\"layers\": 1", r"\"layers\": 1, \"boosted\": False")
    texts = [
        file.read_text("utf-8").replace(quick, brief if file.stem == "first-forecast" else plain) for file in NOTEBOOKS
    ]
    every = notebooks.outputs(texts, {**os.environ, "PYTHONPATH": str(wheel)})
    silent = [
        (file.stem, number)
        for file, shown in zip(NOTEBOOKS, every, strict=True)
        for number, output in enumerate(shown)
        if not output
    ]
    assert silent == []
    assert len(NOTEBOOKS) == 4


def test_wheel_is_typed_and_contains_three_packages_and_no_tests(wheel: Path) -> None:
    assert {path.name for path in wheel.iterdir()} == {
        "forecaster",
        "flows",
        "dashboards",
        f"harbor_forecaster-{version()}.dist-info",
    }
    assert (wheel / "forecaster/py.typed").exists()
    assert (wheel / "forecaster/__init__.pyi").exists()
    where = subprocess.run(
        [sys.executable, "-c", "import forecaster; print(forecaster.__file__, forecaster.__version__)"],
        env={**os.environ, "PYTHONPATH": str(wheel)},
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert where == [str(wheel / "forecaster/__init__.py"), version()]


def test_citation_names_the_built_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version()
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["license"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook_is_committed_without_outputs_and_linked(notebook: Path) -> None:
    code = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert f'"notebooks/{notebook.stem}"' in (ROOT / "docs/conf.py").read_text("utf-8")
    assert f"](notebooks/{notebook.name})" in (ROOT / "docs/library.md").read_text("utf-8")


def test_cell_output_contains_printed_text_and_last_value() -> None:
    names: dict[str, object] = {}
    assert notebooks.execute("x = 2\nx = x + 1", names) == ""
    assert notebooks.execute("print('a')\nx", names) == "```text\na\n```\n\n```text\n3\n```"
    failing = json.dumps({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        notebooks.outputs([failing])


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])
