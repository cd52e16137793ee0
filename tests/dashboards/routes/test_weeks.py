"""Weekly plans on a depot's page, and the files of /roster, as readers get them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from icalendar import Calendar
from python_calamine import CalamineWorkbook

from forecaster.ledger.publication import PublishedRoster
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import ODD_ID, PUBLISHED, depot, fill, publication, with_plans
from tests.dashboards.visitor import Balanced, Get, text, visitor


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Get:
    url = f"sqlite:///{tmp_path_factory.mktemp('weeks') / 'ledger.db'}"
    depots = (*(depot(i) for i in range(6)), depot(7, ODD_ID))
    fill(url, with_plans(replace(publication(), depots=depots)))
    return visitor(url)


def test_a_depots_week_shows_shifts_open_shifts_and_cost_of_rules(get: Get) -> None:
    """One person for two drivers a day from Tuesday to Monday: five shifts until Sunday, and one on
    the next Monday.

    A second person would leave two drivers open that save 20 each.
    """
    answer = get("/depot/BOS-01")
    page = text(answer)
    assert answer.status_code == 200
    assert "14 drivers needed over the week; 8 of them are not covered, at an expected cost of 170." in page
    assert "E early, 06:00–14:00" in page
    assert "x 1 48 h" in page
    assert "Tue 17 Jun, early (06:00–14:00): 1 of 2 drivers missing, at an expected cost of 20" in page
    assert "One more x driver in addition to the 1 would save 130." in page
    html = Balanced()
    html.feed(answer.text)
    assert (html.wrong, len(html.ids)) == ([], len(set(html.ids)))


def test_the_board_offers_the_plans_of_every_depot_or_of_a_city_as_files(url: str) -> None:
    first = depot(0)
    crew = PublishedRoster(None, 0.1, 9.0, None, None, shifts=(("early", 2),))
    fill(url, replace(publication(), depots=(replace(first, days=tuple(replace(d, roster=crew) for d in first.days)),)))
    shifted = visitor(url)
    assert '<a href="/roster?city=&amp;format=xlsx" download>Excel</a>' in shifted("/").text
    assert "/roster?city=Boston&amp;format=ics" in shifted("/?city=Boston").text


def test_files_cover_a_depot_a_city_a_person_or_all(get: Get) -> None:
    def rows(path: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(get(path).text)))

    assert len(rows("/roster?depot=BOS-01&format=csv")) == 14
    assert {row["city"] for row in rows("/roster?city=Boston&format=csv")} == {"Boston"}
    assert len(rows("/roster?format=csv")) == 7 * 14
    answer = get("/roster?depot=BOS-01&person=x+1&format=ics")
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert len(Calendar.from_ical(answer.content).walk("VEVENT")) == 6
    book = CalamineWorkbook.from_filelike(io.BytesIO(get("/roster?format=xlsx").content))
    assert len(book.get_sheet_by_name("Shifts").to_python()) == 1 + 7 * 6
    odd = get(f"/roster?depot={quote(ODD_ID, safe='')}&format=ics")
    assert odd.headers["content-disposition"].startswith('attachment; filename="roster-Pier_9_b_S_d_b_')


def test_named_people_have_days_off_and_no_name_in_addresses(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, with_plans(publication(depots=2), named=True))
    read = visitor(url)
    answer = read("/depot/BOS-01")
    page = text(answer)
    assert "Ana of BOS-01 48 h off" in page
    assert "2 of 2 drivers missing, at an expected cost of 50; off that day: Ana of BOS-01" in page
    addresses = re.findall(r'href="([^"]*person=[^"]*)"', answer.text)
    assert len(addresses) == 1
    assert "Ana" not in addresses[0]
    calendar = read(addresses[0].replace("&amp;", "&"))
    assert len(Calendar.from_ical(calendar.content).walk("VEVENT")) == 6
    book = CalamineWorkbook.from_filelike(io.BytesIO(read("/roster?depot=BOS-01&format=xlsx").content))
    assert book.get_sheet_by_name("Week").to_python()[1][:3] == ["BOS-01", "Ana of BOS-01", "off"]


def test_files_are_revalidated(get: Get) -> None:
    answer = get("/roster?depot=BOS-01&format=ics")
    again = get("/roster?depot=BOS-01&format=ics", if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/roster?format=pdf", 422, "Format: found 'pdf', wanted xlsx, ics, csv."),
        ("/roster?depot=Nowhere&format=csv", 404, "There is no depot “Nowhere” in the current forecasts."),
        ("/roster?city=Nowhere&format=csv", 404, "There is no city “Nowhere” in the current forecasts."),
        ("/roster?person=Nobody&format=ics", 404, "Person: found 'Nobody', wanted one of those that are planned."),
        ("/roster?person=x-1&format=ics", 404, "wanted one of those that are planned; did you mean 'x 1'? "),
    ],
)
def test_reports_missing_plans_in_a_sentence(get: Get, path: str, status: int, sentence: str) -> None:
    answer = get(path)
    assert answer.status_code == status
    assert sentence in text(answer)


def test_without_people_there_are_no_plans_and_no_files(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    get = visitor(url)
    assert "Who works when" not in text(get("/depot/BOS-01"))
    assert "/roster?" not in get("/").text
    assert get("/roster?format=csv").status_code == 404
    with Ledger.open_reader(url) as ledger:
        head = ledger.current()
        assert head is not None
        assert (head.published_at, ledger.plans(head.publication_id)) == (PUBLISHED, ())
