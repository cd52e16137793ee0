"""What the tests of the documentation read of a page: its code blocks, its links, its anchors."""

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
    """The code blocks in a language, also those inside lists, without their indentation."""
    return [textwrap.dedent(fence["code"]) for fence in _FENCE.finditer(text) if fence["language"] == language]


def prose(text: str) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", text)


def inline(text: str) -> list[str]:
    """What stands between backticks in the prose, on one line."""
    return [re.sub(r"\s+", " ", code) for code in re.findall(r"`([^`]+)`", prose(text))]


def links(text: str) -> list[str]:
    """Where the links and pictures of a page lead, on this site alone."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(text)))
    return [link for link in targets if not re.match(r"[a-z]+:", link)]


def anchors(text: str) -> set[str]:
    """The anchors that a code host and the site give to the headings; of equal ones the second gets -1."""
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
