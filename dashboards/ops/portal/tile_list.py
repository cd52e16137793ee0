"""Search and pagination of the front page: the matching tiles, one view at a time, those in trouble
first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.views.tiles import PipelineTile
from forecaster.core.language import _, ngettext

TILES = 48  # per view; fills rows of two, three and four


@dataclass(frozen=True)
class TileQuery:
    """Parameters of the list; invalid values mean the first page of all."""

    search: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> TileQuery:
        page = query.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return cls(query.get("q", "").strip()[:100], max(number, 1))

    def to(self, page: int = 1) -> str:
        """Return the address of another page of the same search."""
        parameters = {"q": self.search} if self.search else {}
        query = urlencode(parameters | ({"page": str(page)} if page > 1 else {}))
        return f"/?{query}#pipelines" if query else "/#pipelines"

    def before_more(self) -> str:
        """Return the query for an address to which another parameter is appended."""
        return urlencode({"q": self.search}) + "&" if self.search else ""


@dataclass(frozen=True)
class TileList:
    """One view of the tiles; `everything` counts those visible to the reader, `matches` those that
    match the search."""

    tiles: tuple[PipelineTile, ...]
    query: TileQuery
    everything: int
    matches: int
    trouble: int  # of the matching ones
    pages: int

    @property
    def is_long(self) -> bool:
        """True if the list needs a search."""
        return self.everything > TILES

    @property
    def summary(self) -> str:
        """Number of matching pipelines, the search, and the number in trouble."""
        number = display.number(self.matches)
        pipelines = ngettext("{n} pipeline", "{n} pipelines", self.matches, n=number)
        if self.query.search:
            pipelines = _("{pipelines} for “{search}”", pipelines=pipelines, search=self.query.search)
        if not self.trouble:
            return _("{pipelines}; none need attention.", pipelines=pipelines)
        return ngettext(
            "{pipelines}; {n} needs attention.",
            "{pipelines}; {n} need attention.",
            self.trouble,
            n=display.number(self.trouble),
            pipelines=pipelines,
        )


def tile_list(tiles: Sequence[PipelineTile], query: TileQuery) -> TileList:
    """Return the requested view of the tiles in their order; a page beyond the end is the last one."""
    matching = [tile for tile in tiles if _is_meant(tile, query)]
    pages = max(-(-len(matching) // TILES), 1)
    page = min(query.page, pages)
    view = tuple(matching[(page - 1) * TILES : page * TILES])
    trouble = sum(not tile.well for tile in matching)
    return TileList(view, TileQuery(query.search, page), len(tiles), len(matching), trouble, pages)


def _is_meant(tile: PipelineTile, query: TileQuery) -> bool:
    """True if each word occurs in a title, a name, a place, a city or a state, in the reader's
    language."""
    text = " ".join((tile.name, tile.title, tile.place, *tile.towns, tile.state_text)).casefold()
    return all(word in text for word in query.search.casefold().split())
