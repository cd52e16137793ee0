"""Drift is described on the health page and on a depot's page, for readers with access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.reliability.drift import MOST, depot_sentence, drift_list
from forecaster.ledger import drift
from forecaster.ledger.drift import Drift
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import CUTOFF, NOON, fill, publication
from tests.dashboards.visitor import Get, text, visitor

SINCE = CUTOFF - timedelta(days=11)
BOSTON = Drift(drift.DEPOT, "BOS-01", drift.LEVEL, 1, SINCE, CUTOFF, 1.24, None)
NEW_YORK = Drift(drift.DEPOT, "NYC-01", drift.LEVEL, -1, CUTOFF, CUTOFF, 0.7, None)
CITY = Drift(drift.CITY, "Boston", drift.LEVEL, 1, SINCE, CUTOFF, 1.08, None)
NETWORK = Drift(drift.ALL, "", drift.UNKNOWN, 1, CUTOFF, CUTOFF, 0.12, 0.02)
RAIN = Drift(drift.COVARIATE, "rain", drift.INPUT, 0, CUTOFF, CUTOFF, 0.0, 0.4)


def remember(url: str, *drifts: Drift) -> None:
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        drift.replace_drifts(connection, "harbor-fleet", drifts)


def test_the_health_page_lists_drifts_with_duration_direction_and_link(get: Get, url: str) -> None:
    assert "Drift" not in text(get("/health"))
    remember(url, NETWORK, CITY, BOSTON, NEW_YORK, RAIN)
    page = get("/health")
    seen = text(page)
    assert "BOS-01 Actuals are 24 % above the forecast for 12 days." in seen
    assert "NYC-01 Actuals are 30 % below the forecast for 1 day." in seen
    assert "Boston Actuals are 8 % above the forecast for 12 days." in seen
    assert "The network 12 % of days are not known in four weeks, 2 % in the year before." in seen
    assert "rain Has been the same each day for four weeks, for the first time." in seen
    assert '<a href="/depot/BOS-01">BOS-01</a>' in page.text
    assert (
        seen.index("The network 12 %")
        < seen.index("Boston Actuals")
        < seen.index("NYC-01")
        < seen.index("BOS-01 Actuals")
    )


def test_only_the_drifting_depots_page_mentions_it(get: Get, url: str) -> None:
    remember(url, BOSTON)
    assert "Actuals are 24 % above the forecast for 12 days." in text(get("/depot/BOS-01"))
    assert "the forecast for" not in text(get("/depot/NYC-01"))


def test_a_past_publication_does_not_show_current_drift(url: str) -> None:
    fill(url, publication())
    remember(url, BOSTON)
    store = PublicationStore(url, "harbor-fleet", lambda: NOON, "")
    now = store.edition()
    depot = now.depot("BOS-01")
    assert now.drifts(depot) == (BOSTON,)
    assert replace(now, past=True).drifts(depot) == ()
    store.close()


def test_a_reader_of_one_city_sees_only_its_drifts(url: str) -> None:
    fill(url, publication())
    remember(url, NETWORK, CITY, BOSTON, NEW_YORK, RAIN)
    store = PublicationStore(url, "harbor-fleet", lambda: NOON, "")
    assert set(store.logbook(frozenset({"Boston"})).drifts()) == {CITY, BOSTON}
    assert len(store.logbook().drifts()) == 5
    store.close()


def test_lists_the_depots_with_the_largest_drift(url: str) -> None:
    fill(url, publication())
    many = [replace(BOSTON, label=f"D{number:02d}", value=1.1 + number / 100) for number in range(MOST + 3)]
    remember(url, *many)
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        shown = drift_list(drift.drifts(connection, "harbor-fleet"))
    assert shown is not None
    assert (len(shown.lines), shown.others, shown.lines[0].name) == (MOST, 3, f"D{MOST + 2}")
    assert "And 3 more depots." in text(visitor(url)("/health"))
    assert drift_list(()) is None


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        ({"kind": drift.SPREAD, "direction": 1}, "the ranges are too narrow."),
        ({"kind": drift.SPREAD, "direction": -1}, "the ranges are too wide."),
        (
            {"part": drift.CITY, "kind": drift.CLOSED, "value": 0.3, "usual": 0.1},
            "30\N{NO-BREAK SPACE}% of days were closed in four",
        ),
        (
            {"part": drift.COVARIATE, "kind": drift.INPUT, "value": 2.5, "usual": 0.4},
            "higher than in any four weeks bef",
        ),
        (
            {"part": drift.COVARIATE, "kind": drift.INPUT, "direction": -1, "value": 0.1, "usual": 0.4},
            "lower than in any four weeks before: 0.10, at this time of year usually 0.40.",
        ),
    ],
)
def test_each_kind_has_its_sentence(of: dict[str, object], sentence: str) -> None:
    assert sentence in depot_sentence([replace(BOSTON, **of)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("de", ("Was sich verschoben hat", "seit 12 Tagen", "über der Prognose")),
        ("es", ("Qué se ha desviado", "desde hace 12 días")),
        ("ar", ("ما انحرف عن ماضيه", "على المتوقع منذ")),
    ],
)
def test_drift_is_described_in_the_readers_language(get: Get, url: str, language: str, words: Sequence[str]) -> None:
    remember(url, BOSTON)
    seen = text(get("/health", accept_language=language))
    for word in words:
        assert word in seen, seen
