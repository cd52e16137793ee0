"""The distribution is `harbor-forecaster`: no install line names another one, and a conflicting
module is reported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forecaster.operations import doctor
from tests.names import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FOLDERS = ("forecaster", "flows", "dashboards", "docs", "data", "tests/benchmarks", ".ci")
KINDS = {".py", ".md", ".ipynb", ".in", ".yaml", ".txt", ".html", ".po", "", ".json"}
TEXTS = [ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "CITATION.cff"]
TEXTS += [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")) if file.suffix in KINDS]


def wanted(line: str) -> list[str]:
    """Return the distributions that an install line requests, without options, files and
    placeholders.

    "pip install 'harbor-forecaster[train]' numpy==2" requests harbor-forecaster and numpy.
    """
    words = line.replace("'", " ").replace('"', " ").split()
    return [match[0] for word in words if (match := re.match(r"[a-z][a-z0-9-]+(?=[\[=<>{]|$)", word))]


def stranger(folder: Path, name: str = "forecaster") -> Path:
    """Return a folder as pip installs another distribution with a module `forecaster`."""
    (folder / "forecaster").mkdir(parents=True)
    (folder / "forecaster" / "__init__.py").write_text("class Forecaster: ...\n", "utf-8")
    metadata = folder / f"{name}-0.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2\n", "utf-8")
    (metadata / "RECORD").write_text(f"forecaster/__init__.py,,\n{name}-0.2.dist-info/METADATA,,\n", "utf-8")
    return folder


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_no_install_line_names_a_foreign_distribution() -> None:
    lines = {
        (str(file.relative_to(ROOT)), line)
        for file in TEXTS
        if file.is_file()
        for line in re.findall(r"pip install ([^`\n;]+)", file.read_text("utf-8"))
    }
    assert len(lines) > 30
    assert {(file, line) for file, line in lines if "forecaster" in wanted(line)} == set()
    bare = re.compile(r"(?<![\w-])forecaster(\[[a-z{]|==)")
    assert [str(file) for file in TEXTS if file.is_file() and bare.search(file.read_text("utf-8"))] == []


def test_an_install_line_is_parsed_like_pip() -> None:
    assert wanted("--upgrade 'harbor-forecaster[train,flows]' numpy==2 -r requirements.lock") == [
        "harbor-forecaster",
        "numpy",
    ]
    assert (
        wanted("forecaster[train,flows]") == wanted("'forecaster[{extra}]'") == wanted("forecaster") == ["forecaster"]
    )


def test_the_name_is_declared_once_and_the_module_keeps_its_own() -> None:
    assert PROJECT["name"] == doctor.DISTRIBUTION == "harbor-forecaster"
    assert set(PROJECT["scripts"]) == {"forecaster"}


@pytest.mark.parametrize("name", ["forecaster", "another-name"])
def test_the_import_warns_of_the_path_of_another_module_of_this_name(tmp_path: Path, name: str) -> None:
    folder = stranger(tmp_path / "site", name)
    process = python(f"import sys; sys.path.append({str(folder)!r}); import forecaster; print(forecaster.__version__)")
    assert process.stdout == f"{PROJECT['version']}\n"
    assert f"another module `forecaster` is installed, of which files may replace ours: {folder}" in process.stderr
    assert "RuntimeWarning" not in python("import forecaster").stderr


def test_the_command_names_the_distribution_that_overwrote_the_package(tmp_path: Path) -> None:
    folder = stranger(tmp_path / "site")
    process = python(
        f"import flows, sys; sys.path.insert(0, {str(folder)!r}); sys.modules.pop('forecaster', None); flows.main()"
    )
    assert process.returncode == 1
    assert process.stderr.startswith(
        "The package `forecaster` was overwritten by another distribution: pip uninstall forecaster, then install "
        "harbor-forecaster anew"
    )


@pytest.mark.parametrize("name", ["forecaster", "another-name"])
def test_the_doctor_names_another_distribution_with_a_module_forecaster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(stranger(tmp_path, name))])
    monkeypatch.setattr(doctor, "_devices", lambda: iter(()))
    signs = [sign for sign in doctor.examine(None, now=datetime(2024, 3, 6, tzinfo=UTC)) if sign.state == "broken"]
    assert [sign.text for sign in signs] == [
        f"{name} brings a module `forecaster` too, and each overwrites the other's files: pip uninstall {name}, then "
        "install harbor-forecaster anew"
    ]
