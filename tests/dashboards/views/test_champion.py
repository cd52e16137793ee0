"""The champion, its verdicts, and the rollback to its predecessor."""

from __future__ import annotations

from forecaster.core.language.sentences import sentence, stored
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import fill, publication, remember
from tests.dashboards.visitor import text, visitor


def test_shows_the_champion_its_verdicts_and_the_rollback_command(url: str) -> None:
    fill(url, publication())
    remember(url)
    page = text(visitor(url)("/champion"))
    assert "version 2 Bundle (the signed files of a model) bb22 , promoted by gate" in page
    assert "To let version 1, bundle aa11 , forecast again" in page
    assert 'forecaster rollback FILE --reason "why"' in page
    assert "not admitted WAPE 12.0 % is not below the champion's 9.0 %" in page


def test_without_a_champion_the_page_names_the_forecaster(url: str) -> None:
    fill(url, publication())
    page = text(visitor(url)("/champion"))
    assert "No model has been champion yet The seasonal naive forecasts until the gate admits a model." in page
    assert "There is no earlier champion yet." in page


def test_verdicts_with_a_stored_template_are_translated(url: str) -> None:
    template = "{metric} is {mine}, wanted at most {limit} to beat {name} ({theirs})"
    beaten = sentence(template, metric="wape", mine="0.1200", limit="0.0900", name="champion", theirs="0.0900")
    older = "as an earlier version wrote it"
    fill(url, publication())
    with Ledger.open(url) as ledger:
        made_of = [stored(beaten), stored(older)]
        ledger.note("night-1", verdict={"admitted": False, "objections": [beaten, older], "made_of": made_of})
    get = visitor(url)
    german = text(get("/champion", Accept_Language="de"))
    assert f"wape ist 0.1200, verlangt war höchstens 0.0900, um champion (0.0900) zu schlagen; {older}" in german
    assert f"wape is 0.1200, wanted at most 0.0900 to beat champion (0.0900); {older}" in text(get("/champion"))
