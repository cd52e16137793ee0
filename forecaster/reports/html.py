"""Self-contained HTML report: one file with embedded style and pictures.

It is built as a tree, so that data always become text and never markup.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Element = ElementTree.Element
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root { color-scheme: light dark; --ground: #f4f6f8; --card: #fff; --ink: #16222e; --soft: #51606f; --line: #dde3e9;
  --came: #33566f; --band: #a9cde0; --found: #b3261e; --shut: #e6eaee; --warn: #6f4700; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e151c; --card: #17212b; --ink: #e8eef4; --soft: #a5b4c2;
  --line: #2b3947; --came: #9cc9e4; --band: #2b5670; --found: #ff9d94; --shut: #26323e; --warn: #f5cf83; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; font-variant-numeric: tabular-nums; }
h1, h2, h3, p, figure, pre { margin: 0; } h1 { font-size: 1.5rem; } h2 { font-size: 1.125rem; } h3 { font-size: 1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem 1.25rem;
  margin-top: 1rem; display: grid; gap: .75rem; } section > * { min-width: 0; }
.soft, figcaption { color: var(--soft); font-size: .875rem; } .said { overflow-wrap: anywhere; }
.verdict { font-weight: 650; } .stop, .quarantine { color: var(--found); } .warn { color: var(--warn); }
pre { overflow-x: auto; font-size: .8125rem; line-height: 1.4; }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 3px solid var(--came); }
ul { margin: 0; padding-left: 1.125rem; display: grid; gap: .25rem; font-size: .9375rem; }
svg { display: block; width: 100%; min-width: 36rem; height: auto; } svg * { stroke-linejoin: round; }
.key { display: inline-block; width: .75rem; height: .75rem; margin: 0 .25rem 0 .75rem; vertical-align: -.0625rem; }
"""


def document(title: str, top: Iterable[Element], sections: Iterable[Element]) -> str:
    """Return the whole page as HTML: a heading with the elements of `top`, then the sections."""
    head = tag("head", tag("meta", charset="utf-8"), tag("title", title))
    head.append(tag("meta", name="viewport", content="width=device-width, initial-scale=1"))
    head.append(tag("meta", http_equiv="Content-Security-Policy", content=POLICY))
    head.append(tag("style", STYLE))
    body = tag("body", tag("header", tag("h1", title), *top), tag("main", *sections))
    return "<!doctype html>\n" + ElementTree.tostring(tag("html", head, body, lang="en"), "unicode", method="html")


def write_atomically(file: Path, text: str) -> None:
    """Write a page atomically: next to its target, then renamed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary_file = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary_file.write_text(text, "utf-8", errors="replace")
        temporary_file.replace(file)
    finally:
        temporary_file.unlink(missing_ok=True)


def figure(picture: Figure, description: str, name: str, caption: Element | None = None) -> Element:
    """Return a picture with a text description for those who cannot see it; `name` makes its ids
    unique."""
    from forecaster.reports.svg import inline

    wide = tag("div", inline(picture, description, name), of="wide", tabindex="0")
    return tag("figure", wide, tag("figcaption", description) if caption is None else caption)


def tag(tag: str, /, *inside: Element | str, of: str | None = None, **attributes: str) -> Element:
    """Return an element with its text and children; `of` is its class."""
    element = Element(tag, {key.replace("_", "-"): value for key, value in attributes.items()})
    if of is not None:
        element.set("class", of)
    for part in inside:
        if isinstance(part, Element):
            element.append(part)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + part
        else:
            element.text = (element.text or "") + part
    return element
