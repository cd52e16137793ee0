"""The front page of hundreds of pipelines: each is in one view, all can be searched, and a view
stays small."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from dashboards.ops.app import templates
from dashboards.ops.formatting import locale
from dashboards.ops.portal.tile_list import TILES, TileQuery, tile_list
from dashboards.ops.views.tiles import DepotCount, PipelineTile, in_order
from tests.dashboards.visitor import Balanced

STATIC = Path(__file__).parents[3] / "dashboards/ops/static"
WELL = PipelineTile(
    "fleet-0", "/p/fleet-0/", "Harbor Fleet of the North", "Boston, New York, Philadelphia and 3 more", "fresh", "",
    when="tomorrow, Wed 18 Jun", target_date=date(2025, 6, 18), orders="12,345", number=12345, range="11,111–13,333",
    depots=DepotCount(64, 64, 3, 12345.0), towns=("Boston", "New York", "Philadelphia", "Salem"),
)  # fmt: skip
AWAY = (
    "The database of the forecasts has not answered since Wed 18 Jun, 05:12 EDT. These were published Wed 18 Jun, "
    "03:24 EDT; nothing can be changed until it answers again. The ledger at postgresql+psycopg://forecaster:***@ledger:"
    '5432/forecaster: connection failed: connection to server at "10.0.0.7", port 5432 failed: Connection refused.'
)


def tiles(count: int, state: str = "fresh") -> list[PipelineTile]:
    return in_order(
        [
            replace(WELL, name=f"fleet-{n}", href=f"/p/fleet-{n}/", title=f"Fleet {n:03}", state=state, sentence=AWAY)
            for n in range(count)
        ]
    )


def test_each_pipeline_is_in_one_view_those_in_trouble_first() -> None:
    late = replace(WELL, name="z", title="Zeta", state="late")
    every = in_order([*tiles(200), late])
    views = [tile_list(every, TileQuery(page=page)) for page in range(1, 6)]
    assert [len(view.tiles) for view in views] == [TILES] * 4 + [201 - 4 * TILES]
    assert [tile for view in views for tile in view.tiles] == every
    assert views[0].tiles[0] is late
    assert {(view.pages, view.everything, view.matches, view.trouble) for view in views} == {(5, 201, 201, 1)}
    assert tile_list(every, TileQuery(page=99)) == views[4]


def test_a_search_matches_titles_cities_and_states_and_keeps_its_pages() -> None:
    every = in_order([*tiles(200), replace(WELL, name="z", title="Zeta", state="late", towns=("Zürich",))])
    assert [tile.name for tile in tile_list(every, TileQuery("fleet 017")).tiles] == ["fleet-17"]
    assert [tile.name for tile in tile_list(every, TileQuery("zürich LATE")).tiles] == ["z"]
    assert tile_list(every, TileQuery("salem")).matches == 200
    nothing = tile_list(every, TileQuery("nowhere", 3))
    assert (nothing.tiles, nothing.pages, nothing.query.page) == ((), 1, 1)
    query = TileQuery.of({"q": " salem & co ", "page": "2"})
    assert query == TileQuery("salem & co", 2)
    assert (query.to(3), query.to(1)) == ("/?q=salem+%26+co&page=3#pipelines", "/?q=salem+%26+co#pipelines")
    assert [TileQuery.of({"page": page}).page for page in ("0", "-1", "²", "1234567", "x", "")] == [1] * 6


@pytest.mark.parametrize("state", ["fresh", "away"])
@pytest.mark.parametrize("language", ["en", "ar"])
def test_the_first_view_of_hundreds_of_pipelines_is_small(state: str, language: str) -> None:
    with locale.active(locale.reader_locale(language, "", "en")):
        page = templates(prefix="", signs_out=True, plans_days=False, portal=True)
        body = page("portal.html", title="Depot forecasts", list=tile_list(tiles(1000, state), TileQuery("fleet", 2)))
    beside = [(STATIC / name).read_bytes() for name in ("style.css", "page.js", "icon.svg")]
    assert sum(len(gzip.compress(part)) for part in (body, *beside)) < 20_000
    markup = Balanced()
    markup.feed(body.decode())
    assert (markup.wrong, len(markup.ids), len(set(markup.ids))) == ([], len(markup.ids), len(markup.ids))
    assert body.count(b"<h2><a href=") == TILES
    for link in (b'href="/?q=fleet#pipelines" rel="prev"', b'href="/?q=fleet&amp;page=3#pipelines" rel="next"'):
        assert link in body
    assert b'role="search"' in body
    assert b'href="?q=fleet&amp;language=de"' in body


def test_a_few_pipelines_need_no_search() -> None:
    page = templates(prefix="", signs_out=False, plans_days=False, portal=True)
    body = page("portal.html", title="Depot forecasts", list=tile_list(tiles(3), TileQuery()))
    assert (b'role="search"' in body, b'class="turn"' in body, body.count(b"<h2><a href=")) == (False, False, 3)
