"""The structure stays readable: few files per folder, short modules and functions, meaningful
names."""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.names import ROOT, bare_share, bound_names, is_bare, python_files

PACKAGES = ("forecaster", "flows", "dashboards")
MOST_BARE = 0.015  # share of bound names
MOST_LINES = 400  # of a module
MOST_FILES = {"forecaster": 5, "flows": 23, "forecaster/ledger/migrations/versions": 99}  # of code in a folder
MOST_FILES_ELSEWHERE = 17


TOP = {"data", "dashboards", "docs", "flows", "forecaster", "tests", ".ci"}
TOP |= {"README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "pyproject.toml", "requirements.lock"}
TOP |= {".editorconfig", ".gitattributes", ".gitignore"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to the project is known from its Git alone")
def test_the_top_folder_has_only_known_entries() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {path.split("/")[0] for path in listed.split("\0") if path} == TOP


def test_no_folder_has_too_many_files() -> None:
    files: dict[Path, int] = defaultdict(int)
    for package in PACKAGES:
        for file in python_files(package):
            files[file.parent.relative_to(ROOT)] += 1
    crowded = {
        str(folder): count
        for folder, count in files.items()
        if count > MOST_FILES.get(str(folder), MOST_FILES_ELSEWHERE)
    }
    assert crowded == {}


def test_no_module_is_too_long() -> None:
    lines = {
        str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines())
        for folder in (*PACKAGES, "tests")
        for file in python_files(folder)
    }
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize("folder", [*PACKAGES, "tests"])
def test_few_names_are_bare_participles_or_pronouns(folder: str) -> None:
    share, places = bare_share(folder)
    assert share <= MOST_BARE, f"{share:.1%} of the bound names in {folder} are bare participles or pronouns: {places}"


def test_bare_names_are_counted_in_every_kind_of_binding() -> None:
    code = "def told(given):\n    for each in given:\n        _found = [one for one in each]\n    return _found\n"
    bare = [name for name, _ in bound_names(ast.parse(code)) if is_bare(name)]
    assert sorted(bare) == ["_found", "each", "given", "one", "told"]


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for file in python_files(package):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_folders_of_tests_mirror_the_code() -> None:
    """Test folders have the name and place of a package, except for a few that test no package."""
    of_no_package = {
        "benchmarks",
        "benchmarks/game_day",
        "benchmarks/history",
        "benchmarks/published",
        "docs",
        "e2e",
        "vendor",
        "vendor/axe-core",
        "vendor/odcs",
    }
    folders = {
        file.parent.relative_to(ROOT / "tests").as_posix()
        for file in (ROOT / "tests").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    packages = {file.parent.relative_to(ROOT / "forecaster").as_posix() for file in python_files("forecaster")}
    pages = {
        f"dashboards/{file.parent.relative_to(ROOT / 'dashboards/ops').as_posix()}".removesuffix("/.")
        for file in python_files("dashboards/ops")
    }
    others = (*python_files("dashboards/inference"), *python_files("dashboards/start"))
    pages |= {file.parent.relative_to(ROOT).as_posix() for file in others}
    flows = {file.parent.relative_to(ROOT).as_posix() for file in python_files("flows")}
    assert folders - packages - pages - flows - of_no_package - {"."} == set()
