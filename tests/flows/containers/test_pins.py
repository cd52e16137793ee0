"""Images install exactly what the lock pins, with hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.dependencies import LOCK, dependencies, locked_packages
from flows.containers.pins import pins_of

FOLDER = Path(__file__).resolve().parents[3] / "flows" / "containers"


@pytest.mark.parametrize("image", ["serve", "night", "build"])
def test_each_package_of_an_image_is_pinned_as_in_the_lock(image: str) -> None:
    names = (FOLDER / f"{image}.txt").read_text("utf-8").split()
    lock = LOCK.read_text("utf-8")
    pinned = list(locked_packages(pins_of(lock, set(names))))
    assert [package.name for package in pinned] == sorted(names)
    assert set(pinned) <= set(locked_packages(lock))
    assert all(package.hashes for package in pinned)


def test_the_night_image_has_all_extras_and_no_test_packages() -> None:
    names = set((FOLDER / "night.txt").read_text("utf-8").split())
    asked = list(dependencies((FOLDER.parents[1] / "pyproject.toml").read_text("utf-8")))
    without = {"dev", "docs"}
    assert {each.name for each in asked if each.extra not in without} <= names
    assert not {"pytest", "ruff", "sphinx", "playwright", "moto"} & names


def test_the_page_s_image_has_no_lake_and_nothing_that_trains() -> None:
    names = set((FOLDER / "serve.txt").read_text("utf-8").split())
    assert not {"jax", "flax", "mlflow", "prefect", "pandas", "pyarrow", "deltalake"} & names


def test_names_packages_missing_from_the_lock() -> None:
    with pytest.raises(ValueError, match="does not pin nothing-like-it"):
        pins_of("numpy==2.4.6 \\\n    --hash=sha256:00\n", {"numpy", "nothing-like-it"})
    assert (
        pins_of("a[b, c]==1 \\\n    --hash=sha256:00\n    # via\n    #   d\n", {"a"})
        == "a==1 \\\n    --hash=sha256:00\n"
    )
