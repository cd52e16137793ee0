"""A depot's page, with the accuracy of its last forecasts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboards.ops.app import create_app
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.digest.content import DigestScope, digest
from dashboards.ops.views.digest.language import in_language
from forecaster.config import load
from forecaster.ledger.publication import PublishedChange, PublishedDepot, PublishedMark
from tests.dashboards.seed import CUTOFF, NOON, depot, earlier, fill, publication
from tests.dashboards.visitor import ask_locally, text, visitor


def test_a_depots_last_forecasts_are_compared_with_actuals(url: str) -> None:
    fill(url, earlier(0.8, days=2), publication())
    first = depot(0)
    forecast, actual = (
        0.8 * first.days[1].quantiles[2],
        first.recent[-1].demand,
    )  # of Wednesday, moved to Monday
    assert actual is not None
    off = round(forecast - actual)
    page = text(visitor(url)("/depot/BOS-01"))
    section = page[page.index("Accuracy of the last forecasts") :]
    assert f"Mon 16 Jun {round(forecast)} " in section
    assert f"{round(actual)} {'+' if off > 0 else '−'}{abs(off)} " in section
    assert "Accuracy of the last forecasts" not in text(visitor(url)("/depot/none"))


def _front(url: str, first: PublishedDepot, now: datetime = NOON, **changes: Any) -> str:
    """Return the text of the depot's page above its charts."""
    fill(url, replace(publication(**changes), depots=(first,)))
    return text(visitor(url, now)("/depot/BOS-01")).partition("Make this my depot")[0].partition("BOS-01")[2]


def test_a_large_change_is_explained_next_to_the_number(url: str) -> None:
    def page(change: PublishedChange, run_id: str) -> str:
        tomorrow = replace(first.days[1], quantiles=(112.0,) * 5, change=change)
        return _front(url, replace(first, days=(first.days[0], tomorrow, *first.days[2:])), run_id=run_id)

    first, yesterday = depot(0), CUTOFF
    much = PublishedChange(yesterday, 100, (("calendar", -2), ("actuals", 14)))
    assert "12 more than yesterday’s forecast, mostly because of the actual orders since then" in page(much, "a")
    fewer = PublishedChange(yesterday - timedelta(days=2), 130, (("calendar", -20), ("actuals", 2)))
    assert "18 fewer than the forecast of Sat 14 Jun, mostly because of new information about that day" in page(
        fewer, "b"
    )
    little = PublishedChange(yesterday, 110, (("actuals", 2),))
    week_before = first.recent[-6]  # Wednesday, 11 June
    assert week_before.demand is not None
    assert f"{round(week_before.demand)} came Wed a week before" in page(little, "c")


def test_the_name_of_a_marked_day_is_shown_next_to_the_number(url: str) -> None:
    first = depot(0)
    days = tuple(replace(day, open=True, quantiles=(9.0,) * 5) for day in first.days)
    page = _front(url, replace(first, days=days), NOON + timedelta(days=1))
    assert "tomorrow, Thu 19 Jun" in page
    assert "Juneteenth National Independence Day (holiday) · " in page


def test_public_holidays_are_translated_and_events_keep_their_names(url: str, tmp_path: Path) -> None:
    """Uses the pipeline's country, as the depot declares none; in Bavaria 19 June 2025 is a
    holiday."""
    corpus_christi = PublishedMark(date(2025, 6, 19), "holiday", "Corpus Christi")
    marks = (corpus_christi, replace(corpus_christi, kind="promo", name="Free delivery weekend"))
    fill(url, replace(publication(1), depots=(replace(depot(0), attributes={}, marks=marks),)))
    file = tmp_path / "pipeline.yaml"
    demand, calendar = "{source: {kind: csv, path: demand.csv}}", "{country: DE, subdivision: BY}"
    content = f"name: harbor-fleet\nledger: {url}\nstate: .\ndemand: {demand}\ncalendar: {calendar}\n"
    file.write_text(content, "utf-8")
    spec = load(file)
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)

    def page(language: str) -> str:
        return ask_locally(app, "GET", "/depot/BOS-01", headers={"Accept-Language": language}).text

    assert "Fronleichnam (Feiertag), Free delivery weekend (promo)" in page("de")
    edition = PublicationStore(url, "harbor-fleet", lambda: NOON, "", spec=spec).edition()
    with in_language("de"):
        days = digest(edition, DigestScope("BOS-01")).days
    assert any("Fronleichnam (Feiertag), Free" in remark for day in days for remark in day.remarks)
    for language in ("en", "es"):  # the German calendar has no Spanish names
        assert "Fronleichnam" not in page(language)
        assert "Corpus Christi" in page(language)


def test_of_61_days_two_weeks_are_shown_daily_and_the_rest_by_week(url: str) -> None:
    """A week's sum is that of its medians, without a range; each of its days has one. All days are
    in the API."""
    fill(url, publication(3, 61))
    get = visitor(url)
    page, front = get("/depot/BOS-01").text, get("/").text
    edition = get("/api/v1/depots/BOS-01").json()
    assert len(edition["days"]) == 61
    week = edition["days"][14:21]
    total = round(sum(day["quantiles"][2] for day in week))
    summaries = re.findall(r"<summary>([^<]*(?:orders?))</summary>", page)
    assert len(summaries) == 7
    assert summaries[0] == f"Tue 1 Jul – Mon 7 Jul · {total:,} orders"
    assert summaries[-1].startswith("Tue 12 Aug – Sat 16 Aug · ")
    assert "A week is the sum of its days’ medians." in text(get("/depot/BOS-01"))
    assert re.findall(r'href="/\?week=(\d)">([^<]*)', front)[-1] == ("9", "Tue 12 Aug – Sat 16 Aug")
    assert ">13 Aug<" not in front
    assert ">13 Aug<" in get("/?week=9").text
    assert get("/?week=10").text == get("/?week=9").text
    assert get("/?week=x").text == front
    assert get("/wall").status_code == get("/accuracy").status_code == 200


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        (None, "tomorrow, Wed 18 Jun"),
        ("Pacific/Kiritimati", "tomorrow, Thu 19 Jun"),
        ("Asia/Tokyo", "tomorrow, Thu 19 Jun"),
    ],
)
def test_a_depots_tomorrow_is_in_its_own_time_zone(url: str, zone: str | None, near: str) -> None:
    """At noon in New York it is already Wednesday in Tokyo, so tomorrow is Thursday."""
    assert f"Orders expected {near}" in _front(url, replace(depot(0), timezone=zone))


def test_a_depots_day_changes_at_its_own_midnight(url: str) -> None:
    fill(url, replace(publication(), depots=(replace(depot(0), timezone="Asia/Kathmandu"),)))  # UTC+05:45
    now = [datetime(2025, 6, 17, 18, 14, tzinfo=UTC)]
    app = create_app(url, clock=lambda: now[0])
    assert "tomorrow, Wed 18 Jun" in text(ask_locally(app, "GET", "/depot/BOS-01"))
    now[0] += timedelta(minutes=1)  # midnight in Kathmandu
    assert "tomorrow, Thu 19 Jun" in text(ask_locally(app, "GET", "/depot/BOS-01"))
