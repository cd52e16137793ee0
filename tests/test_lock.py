"""requirements.lock matches pyproject.toml on every supported machine, with hashes and without
addresses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

MACHINES = [
    {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": platform, "platform_machine": cpu}
    | {"implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": ""}
    for python in ("3.11", "3.12")
    for platform, cpu in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


def requirements_of(pyproject: Mapping[str, Any]) -> Iterator[Requirement]:
    """Yield every requirement of the project: base, all extras, and the build backend, which is
    installed from the lock."""
    project = pyproject["project"]
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        yield from map(Requirement, requirements)
    yield from map(Requirement, pyproject["build-system"]["requires"])


def pins(lock: str) -> Iterator[tuple[Requirement, int]]:
    """Yield every pin of the lock with the number of its hashes."""
    for line in lock.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "--")):
            pin, *hashes = line.split("--hash=sha256:")
            yield Requirement(pin.strip()), len(hashes)


def disagreements(pyproject: Mapping[str, Any], lock: str) -> list[str]:
    """Return the differences between the lock and pyproject.toml; empty if they agree.

    Checked for each of `MACHINES`: a requirement needs one pinned version that it admits, with its
    extras. (A package with extras is pinned twice, with them and without, for older versions of
    pip.)
    """
    wrong = [
        f"an address in the lock: {address}" for address in re.findall(r"https?://\S+|--[a-z-]*(?:index|find)\S*", lock)
    ]
    locked = list(pins(lock))
    for pin, hashes in locked:
        if [s.operator for s in pin.specifier] != ["=="]:
            wrong.append(f"not pinned: {pin}")
        if not hashes:
            wrong.append(f"no hash: {pin}")
    for machine in MACHINES:
        here = [pin for pin, _ in locked if pin.marker is None or pin.marker.evaluate(machine)]
        for want in requirements_of(pyproject):
            if want.marker is not None and not want.marker.evaluate(machine):
                continue
            where = f"{want} on {machine['sys_platform']} with Python {machine['python_version']}"
            address = [pin for pin in here if canonicalize_name(pin.name) == canonicalize_name(want.name)]
            versions = sorted({next(iter(pin.specifier)).version for pin in address})
            extras = set().union(*(pin.extras for pin in address))
            if len(versions) != 1:
                wrong.append(f"{where}: the lock has {' and '.join(versions) or 'no pin'}")
            elif not want.specifier.contains(versions[0], prereleases=True):
                wrong.append(f"{where}: the lock has {versions[0]}")
            elif not want.extras <= extras:
                wrong.append(f"{where}: the lock has the extras {sorted(extras)}")
    return wrong


def test_the_lock_matches_pyproject_with_hashes_and_without_addresses() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    assert not disagreements(pyproject, lock), "run `make lock`"


def test_the_lock_covers_the_supported_python_versions() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    promised = Requirement(f"python{pyproject['project']['requires-python']}").specifier
    versions = [v for v in (f"3.{minor}" for minor in range(9, 20)) if promised.contains(f"{v}.9")]
    assert versions == sorted({machine["python_version"] for machine in MACHINES})


HASH = " --hash=sha256:" + 64 * "0"
TWO_LINES = f" \\\n   {HASH} \\\n   {HASH}"
GOOD = f"numpy==2.4.6{HASH}\npandera==0.35.1{HASH}\npandera[pandas]==0.35.1{TWO_LINES}\nhatchling==1.29.0{HASH}\n"


def project(*dependencies: str, **extras: list[str]) -> dict[str, Any]:
    return {
        "build-system": {"requires": ["hatchling"]},
        "project": {"dependencies": list(dependencies), "optional-dependencies": extras},
    }


def test_a_matching_lock_passes() -> None:
    asking = project("NumPy>=2,<3", "pywin32; sys_platform == 'win32'", checks=["pandera[pandas]>=0.35,<0.36"])
    assert disagreements(asking, "# a comment\n" + GOOD) == []


def test_a_lock_with_one_pin_per_python_passes() -> None:
    lock = GOOD + f"jax==1.0 ; python_full_version < '3.12'{HASH}\njax==1.1 ; python_full_version >= '3.12'{HASH}\n"
    assert disagreements(project("jax>=1"), lock) == []


@pytest.mark.parametrize(
    ("asking", "lock", "complaint"),
    [
        (project("numpy>=3"), GOOD, "numpy>=3 on linux with Python 3.11: the lock has 2.4.6"),
        (project("scipy"), GOOD, "scipy on linux with Python 3.11: the lock has no pin"),
        (project(fast=["scipy"]), GOOD, "scipy on darwin with Python 3.12: the lock has no pin"),
        (project("numpy[fast]"), GOOD, "numpy[fast] on linux with Python 3.11: the lock has the extras []"),
        (
            project("numpy; python_version >= '3.12'"),
            GOOD.replace("2.4.6", "2.4.6 ; python_version < '3.12'"),
            "the lock has no pin",
        ),
        (
            project(),
            GOOD.replace("hatchling", "setuptools"),
            "hatchling on linux with Python 3.11: the lock has no pin",
        ),
        (
            project("jax"),
            GOOD + f"jax==1.0{HASH}\njax==1.1{HASH}\n",
            "jax on linux with Python 3.11: the lock has 1.0 and 1.1",
        ),
        (project(), GOOD + "jax==1.0\n", "no hash: jax==1.0"),
        (project(), GOOD + f"jax>=1.0{HASH}\n", "not pinned: jax>=1.0"),
        (project(), "--index-url internal\n" + GOOD, "an address in the lock: --index-url"),
        (project(), "--find-links wheels\n" + GOOD, "an address in the lock: --find-links"),
        (project(), "# from https://example.org/simple\n" + GOOD, "an address in the lock: https://example.org/simple"),
    ],
)
def test_differences_of_a_lock_are_named(asking: dict[str, Any], lock: str, complaint: str) -> None:
    assert any(complaint in each for each in disagreements(asking, lock))
