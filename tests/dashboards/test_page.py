"""The page says what the ledger says, to everyone and in plain words."""

from __future__ import annotations

import asyncio
import gzip
import html
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import httpx
import pytest

from dashboards.ops.charts import Ahead, bars, chart, nice
from dashboards.ops.server import create_app, serve
from dashboards.ops.views.front import MEANING, stale
from forecaster.errors import SpecError
from forecaster.ledger import Ledger, PublishedDay, PublishedDepot, RecentDay
from forecaster.migrations import connect
from tests.dashboards.seed import CUTOFF, NOON, ODD_ID, depot, fill, publication

ROOT = Path(__file__).parents[2]
CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
Get = Callable[..., httpx.Response]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def visitor(url: str, now: datetime = NOON, pipeline: str | None = None, **options: object) -> Get:
    """Asks a page that lives at one instant."""
    app = create_app(url, pipeline=pipeline, clock=lambda: now)

    def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app, **options)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
                return await client.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})

        return asyncio.run(ask())

    return get


@pytest.fixture
def get(url: str) -> Get:
    fill(url, publication())
    return visitor(url)


def text(answer: httpx.Response) -> str:
    """What a reader sees: no tags, single spaces."""
    bare = re.sub(r"<(title|desc|style)\b.*?</\1>", " ", answer.text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())


def simple(depot_id: str, tomorrow: float, city: str = "Boston", drivers: int | None = None) -> PublishedDepot:
    """Closed on the third day; 20 below and above; tomorrow is the second day."""
    days = []
    for step in range(1, 8):
        quantiles = tuple(tomorrow + step - 2 + z for z in (-20, -10, 0, 10, 20)) if step != 3 else (0.0,) * 5
        days.append(PublishedDay(CUTOFF + timedelta(days=step), step, step != 3, quantiles, drivers))
    return PublishedDepot(depot_id, tuple(days), (RecentDay(CUTOFF, 97.0),), {"city": city})


def test_the_network_page_tells_tomorrows_orders_in_all_and_depot_by_depot(url: str) -> None:
    depots = (simple("A1", 1200, drivers=27), simple("A2", 100, drivers=3), simple("B1", 31, "York", drivers=1))
    fill(url, replace(publication(), depots=depots))
    page = text(visitor(url)("/"))
    assert "Orders expected tomorrow, Wed 18 Jun 1,331" in page
    assert "sum of the depots’ medians" in page
    assert "31 drivers · 3 of 3 depots open" in page
    assert "A1 1,200 1,180–1,220 27" in page
    assert "B1 31 11–51 1" in page
    assert "Boston 1,300 orders 2 depots · 30 drivers" in page
    assert "York 31 orders 1 depot · 1 driver" in page


def test_the_network_page_tells_how_good_the_forecasts_are_and_where_they_come_from(get: Get) -> None:
    page = text(get("/"))
    assert f"fresh {MEANING['fresh']}" in page
    assert "Published Tue 17 Jun, 03:24 EDT" in page
    assert "Model harbor-fleet v3" in page
    assert "Newest reading Mon 16 Jun" in page
    assert "stale" not in page


@pytest.mark.parametrize("tier", ["fresh", "champion", "fallback"])
@pytest.mark.parametrize("path", ["/", "/depot/BOS-01"])
def test_each_tier_is_named_and_explained(url: str, tier: str, path: str) -> None:
    fill(url, publication(tier=tier, note="This night's model was 2 % worse."))
    page = text(visitor(url)(path))
    assert f"{tier} {MEANING[tier]}" in page
    assert "This night's model was 2 % worse." in page


def test_a_depots_page_tells_the_same_numbers_as_its_table_and_the_network_page(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 1200, drivers=27),)))
    page = text(visitor(url)("/depot/A1"))
    assert "Orders expected tomorrow, Wed 18 Jun 1,200 80 % range 1,180–1,220 · 27 drivers" in page
    assert "Tue 17 Jun today 1,199 1,179–1,219 27" in page
    assert "Wed 18 Jun tomorrow 1,200 1,180–1,220 27" in page
    assert "Thu 19 Jun closed –" in page
    assert "Mon 16 Jun 97" in page  # what came


def test_a_depots_picture_says_in_words_what_it_shows_and_names_the_days_to_know(get: Get) -> None:
    answer = get("/depot/BOS-01")
    assert answer.text.count('role="img"') == 2
    assert '<title id="wide-t">Orders a day: four weeks behind, 7 days ahead</title>' in answer.text
    assert "Thu 19 Jun closed" in answer.text
    page = text(answer)
    assert "Thu 19 Jun: Juneteenth National Independence Day (holiday)" in page
    assert "Fri 13 Jun: Free delivery weekend (promo)" in page
    assert "Thu 5 Jun not known" in page


def test_without_drivers_no_page_speaks_of_them(url: str) -> None:
    fill(url, replace(publication(), depots=tuple(depot(i, staffed=False) for i in range(3))))
    get = visitor(url)
    assert "river" not in text(get("/"))
    assert "river" not in text(get("/depot/BOS-01"))


def test_without_cities_the_depots_are_one_list(url: str) -> None:
    fill(url, replace(publication(), depots=tuple(replace(depot(i), attributes={}) for i in range(3))))
    answer = visitor(url)("/")
    assert answer.status_code == 200
    assert "Cities" not in text(answer)


@pytest.mark.parametrize(
    "depot_id", [ODD_ID, "a/b/c", "/", "<script>alert(1)</script>", "{{ 7*7 }}", "100 %", "x" * 300]
)
def test_a_depot_is_found_and_shown_harmless_whatever_its_id(url: str, depot_id: str) -> None:
    fill(url, replace(publication(), depots=(depot(0, depot_id), depot(1))))
    get = visitor(url)
    links = re.findall(r'<th scope="row"><a href="([^"]+)">', get("/").text)
    assert f"/depot/{quote(depot_id, safe='')}" in links
    found = get(next(link for link in links if link != "/depot/NYC-01"))
    assert found.status_code == 200
    assert f'<h1 id="headline">{html.escape(depot_id)}</h1>' in found.text.replace("&#34;", "&quot;").replace(
        "&#39;", "&#x27;"
    )
    assert get(f"/api/v1/depots/{quote(depot_id, safe='')}").json()["depot_id"] == depot_id


def test_words_of_the_data_are_never_markup(url: str) -> None:
    evil = "<script>alert(1)</script>\"'"
    first = depot(0)
    marks = tuple(replace(mark, name=evil, kind=evil) for mark in first.marks)
    first = replace(first, attributes={"city": evil, "x": evil}, marks=marks)
    fill(url, replace(publication(title=evil, note=evil, model=evil), depots=(first, depot(1))))
    get = visitor(url)
    for path in ("/", "/depot/BOS-01"):
        assert "<script" not in get(path).text


def test_the_api_tells_the_same_as_the_page(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 1200, drivers=27), simple("A2", 100))))
    get = visitor(url)
    told = get("/api/v1/publication").json()
    assert told["about"]["tier"] == "fresh"
    assert told["about"]["published_at"] == "2025-06-17T07:24:00Z"
    assert told["totals"][1] == {"target_date": "2025-06-18", "sum_of_medians": 1300.0, "drivers": 27}
    expected = {
        "target_date": "2025-06-18",
        "open": True,
        "low": 1180.0,
        "median": 1200.0,
        "high": 1220.0,
        "drivers": 27,
    }
    assert told["depots"][0]["days"][1] == expected
    one = get("/api/v1/depots/A1").json()
    assert one["days"][1]["quantiles"] == [1180.0, 1190.0, 1200.0, 1210.0, 1220.0]
    assert one["recent"] == [{"date": "2025-06-16", "orders": 97.0, "open": True}]
    assert "PublicationOut" in get("/api/v1/openapi.json").text


def test_after_midnight_tomorrow_is_the_next_day_in_the_pipelines_zone(url: str) -> None:
    fill(url, publication())
    assert "tomorrow, Wed 18 Jun" in text(visitor(url, NOON + timedelta(hours=11))("/"))  # 23:00 in New York
    assert "tomorrow, Thu 19 Jun" in text(visitor(url, NOON + timedelta(hours=12))("/"))
    assert "today, Mon 23 Jun" in text(visitor(url, NOON + timedelta(days=6))("/"))
    assert "Orders expected Tue 17 Jun" in text(visitor(url, NOON + timedelta(days=90))("/"))


@pytest.mark.parametrize(
    ("today", "sentence"),
    [
        (date(2025, 6, 18), None),
        (date(2025, 6, 19), "Forecasts made for Tue 17 Jun – Mon 23 Jun; newest reading is 3 days old."),
        (date(2025, 6, 24), "Forecasts made for Tue 17 Jun – Mon 23 Jun; newest reading is 8 days old."),
    ],
)
def test_forecasts_are_stale_when_over_or_when_the_newest_reading_is_over_two_days_old(
    today: date, sentence: str | None
) -> None:
    targets = tuple(CUTOFF + timedelta(days=step) for step in range(1, 8))
    assert stale(targets, CUTOFF, today) == sentence


def test_a_forecast_of_one_day_is_stale_when_that_day_is_over() -> None:
    assert stale((CUTOFF + timedelta(days=1),), CUTOFF, CUTOFF + timedelta(days=2)) is not None


def test_stale_forecasts_say_so_on_every_page(url: str) -> None:
    fill(url, publication())
    get = visitor(url, NOON + timedelta(days=7))
    for path in ("/", "/depot/BOS-01"):
        assert "newest reading is 8 days old." in text(get(path))
    assert "8 days old" in get("/api/v1/publication").json()["about"]["stale"]


def test_a_past_night_run_again_is_no_alarm(url: str) -> None:
    fill(url, publication(published_at=NOON + timedelta(days=7)))
    page = text(visitor(url, NOON + timedelta(days=7))("/"))
    assert "A past night, run again." in page
    assert "These forecasts are stale." not in page


def test_every_answer_carries_the_headers_that_keep_it_to_itself(get: Get, url: str, tmp_path: Path) -> None:
    paths = ["/", "/depot/BOS-01", "/depot/none", "/nowhere", "/static/style.css", "/api/v1/publication", "/healthz"]
    for path in paths:
        answer = get(path)
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_pages_need_no_inline_style_no_script_and_no_other_host(get: Get) -> None:
    for path in ("/", "/depot/BOS-01", "/depot/none"):
        page = get(path).text
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=|javascript:", page)
        assert {link[:1] for link in re.findall(r'(?:href|src)="([^"]*)"', page)} <= {"/", "#"}


def test_what_a_browser_has_already_is_not_sent_again_until_something_changes(url: str) -> None:
    fill(url, publication())
    get = visitor(url)
    for path in ("/", "/depot/BOS-01", "/api/v1/publication"):
        tag = get(path).headers["etag"]
        again = get(path, if_none_match=tag)
        assert (again.status_code, again.content) == (304, b"")
        assert get(path, if_none_match=f'"other", {tag}').status_code == 304
    tag = get("/").headers["etag"]
    assert get("/depot/BOS-01").headers["etag"] != tag
    assert visitor(url, NOON + timedelta(days=1))("/", if_none_match=tag).status_code == 200
    fill(url, publication(tier="champion"))
    changed = get("/", if_none_match=tag)
    assert changed.status_code == 200
    assert "champion" in text(changed)
    with Ledger.open(url) as ledger:
        ledger.rollback("harbor-fleet")
    assert get("/", if_none_match=tag).status_code == 304


def test_an_unknown_depot_has_no_page_even_when_its_tag_is_guessed(get: Get) -> None:
    answer = get("/depot/none")
    assert answer.status_code == 404
    assert "There is no depot “none” in the current forecasts." in text(answer)
    assert get("/api/v1/depots/none").json() == {"detail": "there is no depot “none” in the current forecasts"}
    assert get("/nowhere").status_code == 404
    assert "There is nothing at /nowhere." in text(get("/nowhere"))
    assert get("/depot/none", if_none_match="*").status_code == 404


def test_the_first_view_of_64_depots_is_small(url: str) -> None:
    fill(url, publication(64))
    page = visitor(url)("/", accept_encoding="identity").content
    style = (ROOT / "dashboards/ops/static/style.css").read_bytes()
    assert len(page) + len(style) < 50_000
    assert len(gzip.compress(page)) + len(gzip.compress(style)) < 15_000


def test_pages_are_sent_compressed_where_the_browser_can(get: Get) -> None:
    assert get("/", accept_encoding="gzip").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in get("/", accept_encoding="identity").headers


def test_a_head_request_has_no_body(get: Get) -> None:
    answer = get("/", method="HEAD")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("missing", "there is no ledger at"),
        ("empty", "nothing has been published yet"),
        ("older", "has revision 0000, this program knows"),
        ("broken", "is not a database"),
    ],
)
def test_trouble_with_the_ledger_is_a_plain_sentence(url: str, tmp_path: Path, state: str, sentence: str) -> None:
    file = tmp_path / "ledger.db"
    if state == "broken":
        file.write_text("orders " * 999)
    elif state != "missing":
        Ledger.open(url).close()
    if state == "older":
        _sql(url, "update forecaster_revision set version_num = '0000'")
    get = visitor(url)
    for path in ("/", "/depot/BOS-01", "/api/v1/publication", "/readyz"):
        answer = get(path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "60"
        assert sentence in answer.text.replace("Nothing", "nothing").replace("There", "there")
        assert "Traceback" not in answer.text
    assert get("/healthz").text == "ok\n"
    assert file.exists() == (state != "missing")


def test_the_page_recovers_by_itself_when_the_ledger_comes_goes_and_comes_back(url: str, tmp_path: Path) -> None:
    get = visitor(url)
    assert get("/readyz").status_code == 503
    fill(url, publication())
    assert get("/readyz").text == "publication 1 of harbor-fleet\n"
    for file in tmp_path.glob("ledger.db*"):
        file.rename(tmp_path / f"away-{file.name}")
    assert get("/").status_code == 503
    for file in tmp_path.glob("away-*"):
        file.rename(tmp_path / file.name.removeprefix("away-"))
    assert get("/").status_code == 200


def test_one_page_shows_one_pipeline(url: str) -> None:
    fill(url, publication(), publication(pipeline="other", run_id="other-1", title="Other"))
    assert "name one of harbor-fleet, other" in visitor(url)("/").text
    assert "Harbor Fleet" in visitor(url, pipeline="harbor-fleet")("/").text
    assert "nothing has been published for third yet" in visitor(url, pipeline="third")("/readyz").text


def test_a_fault_of_our_own_is_told_without_its_insides(get: Get, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("dashboards.ops.server.network", fail)
    answer = visitor(url, raise_app_exceptions=False)("/")
    assert answer.status_code == 500
    assert "The page could not be made" in text(answer)
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == CSP


def test_every_element_that_opens_is_closed(get: Get) -> None:
    for path in ("/", "/depot/BOS-01", "/depot/none"):
        checker = Balanced()
        checker.feed(get(path).text)
        assert checker.stack == []
        assert checker.wrong == []
        assert len(checker.ids) == len(set(checker.ids))


class Balanced(HTMLParser):
    """Notes elements that are closed in another order than they were opened, and every id."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in {"meta", "link"}:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.stack.pop() != tag:
            self.wrong.append(tag)


def test_the_axis_ends_on_a_round_number_above_everything() -> None:
    assert nice(163) == (0, 50, 100, 150, 200)
    assert nice(200) == (0, 50, 100, 150, 200)
    assert nice(0) == (0, 1)
    assert nice(0.4) == (0, 1)
    assert nice(23) == (0, 5, 10, 15, 20, 25)
    assert nice(4100) == (0, 1000, 2000, 3000, 4000, 5000)


def test_a_picture_breaks_its_lines_where_a_day_is_closed_or_not_known() -> None:
    first = date(2025, 6, 9)  # a Monday
    past = [RecentDay(first + timedelta(days=i), demand, is_open) for i, (demand, is_open) in enumerate(
        [(50, True), (100, True), (None, True), (80, True), (0, False)]
    )]  # fmt: skip
    ahead = [
        Ahead(date(2025, 6, 14), 90, 60, 100, True),
        Ahead(date(2025, 6, 15), 0, 0, 0, False),
        Ahead(date(2025, 6, 16), 50, 40, 60, True),
        Ahead(date(2025, 6, 17), 50, 40, 60, True),
    ]
    # 9 days of 10 pixels from 44 on; 0 orders at y = 134, 100 orders at y = 34
    drawn = chart(past, ahead, [(date(2025, 6, 15), "Fair")], width=142, height=176, past_days=5)
    assert drawn.came == ("49.0,84.0 59.0,34.0",)
    assert drawn.dots == ((49.0, 84.0), (59.0, 34.0), (79.0, 54.0))
    assert drawn.closed == (84.0, 104.0)
    assert drawn.border == 94.0
    assert drawn.medians == ("119.0,84.0 129.0,84.0",)
    assert drawn.points == ((99.0, 44.0), (119.0, 84.0), (129.0, 84.0))
    assert drawn.bands == (
        "96.0,34.0 102.0,34.0 102.0,74.0 96.0,74.0",
        "119.0,74.0 129.0,74.0 129.0,94.0 119.0,94.0",
    )
    assert drawn.marks == ((109.0, 1, "Fair"),)
    assert [tick.text for tick in drawn.weekdays] == ["M", "T", "W", "T", "F", "S", "S", "M", "T"]
    assert [tick.text for tick in drawn.weeks] == ["9 Jun", "16 Jun"]


def test_small_bars_start_at_zero() -> None:
    drawn = bars([50, 100, 0], 1, width=30, height=20)
    assert drawn.others == "M1 20v-10h8v10zM21 20v-1h8v1z"
    assert drawn.meant == "M11 20v-20h8v20z"


def test_the_page_runs_without_jax_prefect_mlflow_or_pandas() -> None:
    code = (
        "import sys, dashboards.ops.server as s; s.create_app('sqlite:////nowhere/ledger.db');"
        "print(sorted({'jax', 'flax', 'prefect', 'mlflow', 'pandas', 'onnxruntime', 'deltalake'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    spec = SimpleNamespace(name="harbor-fleet", ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}")
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SpecError, match=r"cannot listen on 127\.0\.0\.1"),
    ):
        serve(spec, port=taken.getsockname()[1])  # type: ignore[arg-type]


def _sql(url: str, statement: str) -> None:
    engine = connect.writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
