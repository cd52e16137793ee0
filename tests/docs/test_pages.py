"""The README stays on one page, each documentation page names its readers, and no link is dead."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import DOCS, EVERYWHERE, PAGES, ROOT, anchors, links, name

LINES, WORDS = 150, 900


def test_the_readme_stays_on_one_page() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= LINES
    assert len(text.split()) <= WORDS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_its_readers_below_its_title(page: Path) -> None:
    lines = [line for line in page.read_text("utf-8").splitlines() if line]
    assert lines[0].startswith("# ")
    assert lines[1].startswith("*For ")


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_every_link_points_to_an_existing_file_and_heading(page: Path) -> None:
    wrong = []
    for link in links(page.read_text("utf-8")):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and heading not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_page_is_in_the_navigation_and_in_the_readme(page: Path) -> None:
    if page.stem != "index":
        entries = [entry for part in configuration().NAVIGATION.values() for entry in part]
        assert page.stem in entries
        assert f"](docs/{page.name})" in (ROOT / "README.md").read_text("utf-8")


def test_no_anchor_is_shared_by_two_headings() -> None:
    """A second heading with the same words gets different anchors here and on the site."""
    every = [(page.stem, anchor) for page in PAGES for anchor in anchors(page.read_text("utf-8"))]
    assert [anchor for anchor in every if anchor[1].endswith("-1")] == []


def configuration() -> Any:
    """Return the module that configures the site."""
    specification = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
