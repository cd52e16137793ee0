"""The champion, its verdicts and the way back to the one before."""

from __future__ import annotations

from tests.dashboards.seed import fill, publication, remember
from tests.dashboards.visitor import text, visitor


def test_the_champion_is_told_with_its_verdicts_and_the_way_back(url: str) -> None:
    fill(url, publication())
    remember(url)
    page = text(visitor(url)("/champion"))
    assert "version 2 Bundle (the signed files of a model) bb22 , promoted by gate" in page
    assert "To let version 1, bundle aa11 , forecast again" in page
    assert 'forecaster rollback FILE --reason "why"' in page
    assert "not admitted WAPE 12.0 % is not below the champion's 9.0 %" in page


def test_without_a_champion_the_page_says_who_forecasts(url: str) -> None:
    fill(url, publication())
    page = text(visitor(url)("/champion"))
    assert "No model has reigned yet The seasonal naive forecasts until the gate lets a model in." in page
    assert "There is nobody to go back to yet." in page
