"""Every page in every language: complete, without leftover English, and right-to-left if required."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import fields, is_dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from dashboards.ops.app import create_app
from dashboards.ops.views.catalogue import VIEWS
from forecaster.config import Spec, data_rules, load
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, joined, sentence
from forecaster.demand.sources import FAULT, FILE, ROW
from forecaster.demand.validation import contract, quarantine
from forecaster.demand.validation.quarantine import RowSentences
from forecaster.demand.validation.reference_tables import AS_NOTHING, RowFindings
from forecaster.ledger.store import Ledger
from forecaster.ledger.trials import canaries
from forecaster.operations.retention import CleanupCounts
from tests.catalogues import TRANSLATED, extracted
from tests.dashboards.seed import CUTOFF, NOON, depot, earlier, fill, publication, remember, with_plans
from tests.dashboards.views.board.test_board import odd
from tests.dashboards.visitor import ask_locally

PAGES = [
    *sorted({view.page for view in VIEWS if view.page} - {"/roster"}),
    "/depot/BOS-01",
    "/depot/none",
    "/my-depot",
    "/day/2025-06-18/BOS-01",
    "/day/2020-01-01/BOS-01",
    "/overrides",
    "/subscribe?depot=BOS-01",
    "/?q=BOS&city=Boston",
    "/?q=nothing",
    "/wall?city=Boston",
    "/wall?city=Bostn",
    "/?city=Bostn",
    "/nowhere",
]
# Text written by runs for operators, and names: not sentences of a page.
STORED = re.compile(
    r"WAPE 12\.0.% is not below the champion's 9\.0.%|[Aa]dmitted: it misses less than the champion did"
    r"|forecaster \w+( list)? FILE( --reason \"why\")?|Free delivery weekend"
    r"|Memorial Day|Juneteenth National Independence Day|\bseasonal naive\b"
)
LATE = N_("The newest reading is of {day}, {days} before the last complete day.")
TWO = counted(2, "{n} day", "{n} days")
ENGLISH = re.compile(r"\b(the|of|and|with|from|what|which|that|this|days?|orders?|depots?|drivers?|no|not)\b", re.I)
# words that exist in both languages
ALSO = {"de": {"Depot", "depot", "Depots", "depots"}, "es": {"no", "No"}, "ar": set()}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("languages")
    url = f"sqlite:///{folder / 'ledger.db'}"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file = folder / "pipeline.yaml"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    plain = publication(4)
    note = joined(
        [
            sentence(N_("Tonight {what}."), what=sentence(N_("the sources could not be read"))),
            sentence(N_("The newest reading is of {day}, {days} before the last complete day."), day=CUTOFF, days=TWO),
        ],
        " ",
    )
    fill(url, earlier(), with_plans(replace(plain, depots=(odd(depot(0)), *plain.depots[1:]), note=note)))
    remember(url)
    _write_sentences(url)
    spec: Spec = load(file)
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def _write_sentences(url: str) -> None:
    """Write the sentences that a run stores: its message, findings, and the reasons of a promotion
    and a canary."""
    lost = sentence(N_("the champion could not be compared: {why}"), why=sentence(N_("no model was ever admitted")))
    removed = CleanupCounts(bundles=1200, checkpoints=1, caches=0, leftovers=2, runs=3, files=(9, 4)).sentence()
    with Ledger.open(url) as ledger:
        ledger.note("night-1", message=joined([lost, removed]), findings=_findings())
        reason = sentence(N_("admitted"))
        ledger.promote("harbor-fleet", run_id="night-1", bundle_digest="cc33", by="gate", reason=reason)
        with ledger.transaction() as connection:
            cohort = ["BOS-01", "NYC-01"]
            trial = canaries.start(
                connection, "harbor-fleet", run_id="night-1", bundle_digest="dd44", cohort=cohort, now=NOON
            )
            worse = N_("{percent} % worse than the champion in {metric} over {days}")
            why = sentence(worse, percent=amount(12.34, ".1f"), metric="wape", days=TWO)
            canaries.take_back(connection, trial, reason=why, now=NOON)


def _findings() -> list[Finding]:
    """Return findings about a row, a batch and a reference table."""
    rows = pd.DataFrame({"source": ["a.csv"], "row": [7], "depot_id": ["BOS-01"]})
    of_row = RowSentences.of(
        contract._BROKEN,
        rows.index,
        **quarantine.where(rows),
        day=pd.Series(["2025-06-16"]),
        column="demand",
        value=pd.Series(["-3"]),
        wanted=data_rules.requirement("count_negative"),
        hint="",
    )
    dated = sentence(N_("a date such as {day}, or nothing"), day="2024-03-05")
    table: list[Finding] = []
    fault = pd.DataFrame({FILE: ["d.csv"] * 2, ROW: [2, 3], FAULT: ["", ""], "opened": ["x", "y"]})
    tell = RowFindings.__new__(RowFindings)
    tell.declared, tell.findings = {}, table
    tell("date_form", fault, "opened", dated, AS_NOTHING)
    detail = sentence(N_("found readings {often} of {depots}"), often=sentence(N_("once a month")), depots=TWO)
    batch = sentence(N_("{detail}, wanted {wanted}"), detail=detail, wanted=data_rules.requirement("cadence"))
    return [Finding("count_negative", "quarantine", 1, of_row.first), *table, Finding("cadence", "stop", 1234, batch)]


def _ask(app: object, path: str, language: str) -> httpx.Response:
    return ask_locally(app, "GET", path, headers={"Accept-Language": language})


def _texts(answer: httpx.Response) -> list[str]:
    """Return visible text and screen-reader labels: text nodes, and labels of elements."""
    body = re.sub(r"<(style|script|code)\b.*?</\1>|<option value=\"[^\"]*\">[A-Z]{3}-\d\d</option>", " ", answer.text)
    body = body.partition('class="languages')[0]
    labels = re.findall(r'(?:aria-label|title|placeholder)="([^"]*)"', body)
    return [html.unescape(text).strip() for text in (*re.split(r"<[^>]+>", body), *labels) if text.strip()]


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_english_is_left_on_any_page(app: object, language: str) -> None:
    sentences = {message.id if isinstance(message.id, str) else message.id[0] for message in extracted() if message.id}
    whole = {sentence for sentence in sentences if "{" not in sentence and " " in sentence}
    left: dict[str, list[str]] = {}
    for path in PAGES:
        answer = _ask(app, path, language)
        assert answer.status_code in (200, 404, 422), (path, answer.text)
        assert f'<html lang="{language}" dir="{"rtl" if language == "ar" else "ltr"}">' in answer.text, path
        for text in _texts(answer):
            words = set(ENGLISH.findall(STORED.sub("", text))) - ALSO[language]
            if words or text in whole:
                left.setdefault(path, []).append(text)
    assert left == {}


def test_stored_sentences_use_the_readers_numbers_and_days(app: object) -> None:
    def told(path: str, language: str) -> str:
        return " ".join(_texts(_ask(app, path, language))).replace("\N{NO-BREAK SPACE}", " ")

    late = "Kein Zählwert ist neuer als 16. Juni 2025; bis zum letzten abgeschlossenen Tag fehlen 2 Tage."
    assert f"Heute Nacht: die Quellen konnten nicht gelesen werden. {late}" in told("/", "de")
    assert "entfernt: 1.200 Bundles ohne Einsatz, 1 Zwischenstand" in told("/health", "de")
    assert "a.csv:7: Depot BOS-01 am 2025-06-16, Spalte „demand“: gefunden „-3“, verlangt: 0 oder mehr" in told(
        "/health", "de"
    )
    assert (
        "d.csv:2: Spalte „opened“: gefunden „x“, verlangt: ein Datum wie 2024-03-05, oder nichts; gilt als nichts"
        in (told("/health", "de"))
    )
    assert "Bleibt, da Canary dd44 zurückgenommen wurde: 12,3 % schlechter als der Champion in wape" in told(
        "/champion", "de"
    )
    api = _ask(app, "/api/v1/depots", "es").json()
    assert "Esta noche: no se pudieron leer las fuentes." in str(api)
    runs = _ask(app, "/api/v1/runs", "ar").json()["runs"]
    assert "تعذرت مقارنة النموذج البطل: لم يُقبل أي نموذج قط" in runs[0]["message"]
    english = _ask(app, "/api/v1/runs", "en").json()["runs"][0]["message"]
    assert english.startswith("the champion could not be compared: no model was ever admitted; removed 1,200 bundles")


TWO_STOPS = re.compile(r"(?<!\.)\.\.(?!\.)")


def moved(value: Any, days: timedelta) -> Any:
    """Shift a value by a number of days, including all dates in it."""
    if isinstance(value, date):
        return value + days
    if isinstance(value, tuple):
        return tuple(moved(part, days) for part in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{field.name: moved(getattr(value, field.name), days) for field in fields(value)})


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_sentence_ends_with_two_full_stops_in_a_month_that_is_abbreviated(
    tmp_path_factory: pytest.TempPathFactory, language: str
) -> None:
    """On 1 December: the abbreviation "1. Dez." has its own full stop, wherever it is used."""
    url = f"sqlite:///{tmp_path_factory.mktemp('december') / 'ledger.db'}"
    later = date(2025, 11, 30) - CUTOFF
    fill(url, moved(earlier(), later), moved(with_plans(publication(4)), later))
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON + later)
    doubled = {}
    for path in PAGES:
        text = " ".join(_texts(_ask(app, path, language)))
        if language == "de" and path == "/":
            assert "Dez." in text
        if found := [text[max(place.start() - 40, 0) : place.end() + 10] for place in TWO_STOPS.finditer(text)]:
            doubled[path] = found
    assert doubled == {}


def test_falls_back_to_english_sentences_with_the_readers_number_format(app: object) -> None:
    page = _ask(app, "/", "fr-FR,fr;q=0.9").text
    assert '<html lang="en" dir="ltr">' in page
    assert "Orders expected tomorrow, Wed 18 Jun" in page
    assert _ask(app, "/", "fr, es;q=0.5").text.count("Pedidos previstos mañana, mié, 18 jun") > 0


def test_a_chosen_language_overrides_the_browsers(app: object) -> None:
    async def visit() -> tuple[httpx.Response, ...]:
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            first = await client.get("/?q=BOS", headers={"Accept-Language": "en"})
            chosen = await client.get("/?q=BOS&language=ar", headers={"Accept-Language": "en"})
            after = await client.get("/?q=BOS", headers={"Accept-Language": "en"})
            again = await client.get("/?q=BOS", headers={"Accept-Language": "de"})
            unknown = await client.get("/?q=BOS&language=xx")
            return first, chosen, after, again, unknown

    first, chosen, after, again, unknown = asyncio.run(visit())
    assert '<html lang="en"' in first.text
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/?q=BOS")
    assert "language=ar" in chosen.headers["set-cookie"]
    assert all('<html lang="ar" dir="rtl">' in answer.text for answer in (after, again, unknown))
    assert first.headers["etag"] != after.headers["etag"]
    assert "Cookie" in after.headers["vary"]
    assert "Accept-Language" in after.headers["vary"]


def test_choosing_a_language_never_redirects_to_another_host(app: object) -> None:
    answer = ask_locally(app, "GET", "/%2Felsewhere.example?language=de")
    assert answer.headers["location"] == "/elsewhere.example"


@pytest.mark.parametrize(("header", "language"), [("", "de"), ("fr", "de"), ("ar-EG", "ar"), ("en", "en")])
def test_the_pipelines_language_is_the_default(url: str, header: str, language: str, tmp_path: Path) -> None:
    fill(url, publication(1))
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\npage: {{language: de}}\n", "utf-8")
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=load(file))
    headers = {"Accept-Language": header} if header else {}
    page = ask_locally(app, "GET", "/", headers=headers).text
    assert f'<html lang="{language}"' in page


def test_signs_precede_their_numbers_in_right_to_left_scripts_too(app: object) -> None:
    assert re.search(r"\N{LEFT-TO-RIGHT MARK}[+−]\d", "".join(_ask(app, path, "ar").text for path in PAGES))
    assert "\N{LEFT-TO-RIGHT MARK}" not in "".join(_ask(app, path, "de").text for path in PAGES)
