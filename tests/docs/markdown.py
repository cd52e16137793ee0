"""Helpers to read Markdown pages in the tests: code blocks, links, anchors."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
EVERYWHERE = [
    ROOT / "README.md",
    ROOT / "data" / "README.md",
    ROOT / "data" / "harbor_fleet" / "README.md",
    *sorted((ROOT / "dashboards" / "runbooks").glob("*.md")),
    *PAGES,
]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$", re.S | re.M)


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks in a language, including those inside lists, dedented."""
    return [textwrap.dedent(fence["code"]) for fence in _FENCE.finditer(text) if fence["language"] == language]


def prose(text: str) -> str:
    """Return the page without its code blocks."""
    return _FENCE.sub("", text)


def inline(text: str) -> list[str]:
    """Return the inline code of the prose, each on one line."""
    return [re.sub(r"\s+", " ", code) for code in re.findall(r"`([^`]+)`", prose(text))]


def links(text: str) -> list[str]:
    """Return the relative targets of a page's links and pictures."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(text)))
    return [link for link in targets if not re.match(r"[a-z]+:", link)]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings on a code host and on the site; a repeated heading gets
    -1."""
    result: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.*)$", prose(text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number, anchor = 0, slug
        while anchor in result:
            number += 1
            anchor = f"{slug}-{number}"
        result.add(anchor)
    return result
