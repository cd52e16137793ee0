"""Sphinx configuration of `make docs`, which builds a site from this repository's Markdown: no web
fonts, no third-party scripts, no dead links.

The source folder is the whole repository, and `include_patterns` selects the pages, so that a link
such as `../data/README.md` works both here and on a code host.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING

from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs import generate, notebooks

project = "forecaster"
version = release = installed("harbor-forecaster")

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "docs/*.md",
    "docs/notebooks/*.ipynb",
    "data/README.md",
    "data/harbor_fleet/README.md",
    "dashboards/runbooks/*.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "**/.*", "build", "dist", "var", "tests", "forecaster", "flows"]  # not searched
nitpicky = True
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "forecaster"
html_baseurl = ""
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["tables.css"]

RUNBOOKS = [
    "stale-forecast",
    "page-down",
    "page-errors",
    "inference-errors",
    "inference-service",
    "out-of-memory",
    "compile-regression",
    "worse-forecasts",
    "no-model",
    "registry-down",
    "quarantine-flood",
    "postmortem",
]
# A table of contents in index.md would appear as code on a code host, so it is appended here.
NAVIGATION = {
    "Start": ["quickstart"],
    "Use": [
        "pipeline-file",
        "data-quality",
        "planning",
        "value",
        "library",
        "library-reference",
        "notebooks/first-forecast",
        "notebooks/covariates-and-events",
        "notebooks/backtest-and-choose",
        "notebooks/roster-and-cost",
        "page-and-api",
        "inference",
        "operations",
        "monitoring",
        "commands",
    ],
    "Understand": ["model", "results", "data-dictionary", "bundle", "SECURITY", "glossary"],
    "Change": ["architecture", "page-design", "contributing"],
    "Elsewhere in the repository": [
        "README </README>",
        "A team's installation </dashboards/runbooks/production>",
        "From a laptop to a cluster </dashboards/runbooks/cluster>",
        "Incident checklist </dashboards/runbooks/incident>",
        *(f"/dashboards/runbooks/{name}" for name in RUNBOOKS),
        "What is in data/ </data/README>",
        "The sample, Harbor Fleet </data/harbor_fleet/README>",
        "/CHANGELOG",
    ],
}


def navigation(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def add_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    if page == root_doc:
        content[0] += "".join(navigation(caption, pages) for caption, pages in NAVIGATION.items())


def fill(app: Sphinx, page: str, content: list[str]) -> None:
    content[0] = generate.filled_at_build(content[0])


class NotebookParser(MystParser):
    """Parses a notebook as the page that its execution produces; a failing cell ends the build."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: document) -> None:
        super().parse(notebooks.markdown(inputstring), document)


def add_entrance(app: Sphinx, error: Exception | None) -> None:
    """Redirect the site's root to its first page."""
    if error is None:
        way = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">'
        link = f'<title>{project}</title><a href="docs/index.html">The documentation</a>'
        (Path(app.outdir) / "index.html").write_text(f"{way}{link}\n", "utf-8")


def setup(app: Sphinx) -> None:
    app.add_lexer("csv", TextLexer)
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    app.connect("source-read", add_navigation)
    app.connect("source-read", fill)
    app.connect("build-finished", add_entrance)
