"""Every package has a reason and a license, and the bill of materials contains all of them."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from docs import dependencies
from docs.dependencies import LOCK, PYPROJECT, Dependency, LockedPackage

PROJECT = """\
[project]
dependencies = [
    "numpy>=2", # arrays
    "pandas[excel]>=3",
]

[project.optional-dependencies]
page = [
    # A comment above is for readers of the file.
    "numpy>=2", # charts
]
"""


def test_every_direct_dependency_has_a_reason() -> None:
    asked = list(dependencies.dependencies(PYPROJECT.read_text("utf-8")))
    assert len(asked) > 50
    assert [package.name for package in asked if not package.reason] == []


def test_a_package_without_a_comment_has_no_reason() -> None:
    assert list(dependencies.dependencies(PROJECT)) == [
        Dependency("numpy", "", "arrays"),
        Dependency("pandas", "", ""),
        Dependency("numpy", "page", "charts"),
    ]


def test_a_package_locked_with_and_without_extras_counts_once() -> None:
    with_extras = "sqlalchemy[asyncio]==2.0.50 \\\n    --hash=sha256:ab \\\n    --hash=sha256:cd\n"
    lock = f"# no\n{with_extras}sqlalchemy==2.0.50 --hash=sha256:ab\n"
    assert list(dependencies.locked_packages(lock)) == [LockedPackage("sqlalchemy", "2.0.50", ("ab", "cd"))]


def test_every_installed_package_of_the_lock_has_a_license() -> None:
    installed = {
        distribution.name.lower().replace("_", "-").replace(".", "-") for distribution in metadata.distributions()
    }
    names = [package.name for package in dependencies.locked_packages(LOCK.read_text("utf-8"))]
    assert len(installed.intersection(names)) > 250
    assert [name for name in names if name in installed and not dependencies.licence(name)] == []


@pytest.mark.parametrize(
    ("expression", "is_permissive"),
    [
        ("MIT", True),
        ("BSD", True),
        ("MPL-2.0", False),
        ("LGPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
        ("", False),
    ],
)
def test_a_choice_of_licenses_is_permissive_if_one_of_them_is(expression: str, is_permissive: bool) -> None:
    assert dependencies.is_permissive(expression) is is_permissive


def test_runtime_dependencies_are_permissive_except_psycopg() -> None:
    asked = dependencies.dependencies(PYPROJECT.read_text("utf-8"))
    demanding = {
        package.name
        for package in asked
        if package.extra not in ("docs", "dev") and not dependencies.is_permissive(dependencies.licence(package.name))
    }
    assert demanding == {"psycopg"}


def test_the_bill_of_materials_is_valid_and_contains_every_locked_package_with_hashes() -> None:
    text = JsonV1Dot6(dependencies.bill_of_materials()).output_as_string()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    listed = {(part["name"], part["version"]): part for part in bill["components"]}
    locked = {(each.name, each.version): each for each in dependencies.locked_packages(LOCK.read_text("utf-8"))}
    assert listed.keys() == locked.keys()
    for key, part in listed.items():
        assert part["licenses"]
        digests = {value["content"] for file in part["externalReferences"] for value in file["hashes"]}
        assert digests == set(locked[key].hashes)
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    version = next(each.version for each in locked.values() if each.name == "pandas")
    assert f"pkg:pypi/pandas@{version}" in needs["harbor-forecaster"]
    assert any(need.startswith("pkg:pypi/numpy@") for need in needs[f"pkg:pypi/pandas@{version}"])
