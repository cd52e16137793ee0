"""Inline SVG of a figure for a page; its colors are the page's own, in light and in dark mode (CSS
variables)."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

NAMES = ("ink", "soft", "line", "came", "band", "found", "shut")
"""The CSS variables, `--ink` and so on, that the page must define."""
COLOURS = tuple(f"#0{i}0{i}0{i}" for i in range(1, 8))  # placeholders for them in a figure
INK, SOFT, LINE, ACTUAL_LINE, BAND, HIGHLIGHT, SHUT = COLOURS
LOOK = {
    "svg.fonttype": "none",
    "svg.hashsalt": "forecaster",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": LINE,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "savefig.transparent": True,
}


@contextmanager
def one_axes(height: float) -> Iterator[tuple[Figure, Axes]]:
    """Yield an empty figure, `height` inches high, and its axes; it is complete after the block."""
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(9, height), layout="constrained")
        yield figure, figure.add_subplot()


def over_days(axes: Axes, unit: str) -> None:
    """Set up dates along the x axis, and grid lines at the ticks of the y axis."""
    locator = AutoDateLocator(minticks=3, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_ylabel(unit)
    axes.margins(x=0.01)
    axes.grid(axis="y", lw=0.6)
    axes.set_axisbelow(True)


def inline(figure: Figure, description: str, name: str) -> ElementTree.Element:
    """Return the figure as an SVG element without namespaces; `description` is its text for those
    who cannot see it, `name` makes its ids unique."""
    out = io.StringIO()
    with mpl.rc_context(LOOK), warnings.catch_warnings():
        # letters missing in this font; the browser's font has them
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(out, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(_in_colours_of_the_page(out.getvalue()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)
    _keep_ids_apart(root, name)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": description}
    return root


def _in_colours_of_the_page(svg: str) -> str:
    return re.sub("|".join(COLOURS), lambda match: f"var(--{NAMES[COLOURS.index(match[0])]})", svg)


def _keep_ids_apart(root: ElementTree.Element, name: str) -> None:
    """Make the ids unique within a page: referenced ids get the picture's name as a prefix, others
    are removed."""
    refers = re.compile(r"(?:url\(|^)#([\w-]+)")
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {reference for value in values for reference in refers.findall(value)}
    for element in root.iter():
        if element.attrib.get("id") not in used:
            element.attrib.pop("id", None)
        for key, value in element.attrib.items():
            if key == "id":
                element.attrib[key] = f"{name}-{value}"
            elif key in ("href", "clip-path", "style", "fill"):
                element.attrib[key] = refers.sub(lambda match: match[0].replace("#", f"#{name}-"), value)
