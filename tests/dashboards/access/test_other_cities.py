"""Data of other cities (counts, overrides, drivers) changes no byte of an answer to a reader who
does not see them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from forecaster.config import load
from forecaster.core.knowledge import Finding
from forecaster.core.language import LANGUAGES
from forecaster.ledger import drift, soundness, tables
from forecaster.ledger.drift import Drift
from forecaster.ledger.store import Ledger
from forecaster.ledger.trials import canaries
from forecaster.planning import override_table
from forecaster.planning.overrides import ProposedOverride
from tests.dashboards.access.test_access import BODIES, TABLE, routes
from tests.dashboards.access.test_visible_cities import DEPOTS, INSTANT, write_nights
from tests.dashboards.guests import HOME, SECRET, Guest, declared, hang_up, house, signed_in
from tests.dashboards.seed import CITIES, CUTOFF, NOON

OWN, OWN_CITY = DEPOTS[0], CITIES[0]
FILES = ("format=csv", "format=ics", "format=xlsx")  # of plans
NARROWED = (f"depot={OWN}", f"depot={DEPOTS[1]}", f"city={OWN_CITY}", f"city={CITIES[1]}", "city=Berlin", "sort=change")
PAST = ("publication=1", "publication=2", "publication=9", "as_of=2100-01-01")
ROSTER = {"vans": 2, "chance_short": 0.8, "cost": 40.0, "one_more": 30.0, "one_fewer": None, "wanted": 9}


def _is_own(depot_id: str) -> bool:
    return depot_id.startswith("BOS-")


def _restaff(connection: sa.Connection, vans: int, share: float) -> None:
    """Give each day a roster that lacks vans: `vans` at each depot of other cities, and `share` of
    what the network needs."""
    table = tables.published
    for row in connection.execute(sa.select(table).where(table.c.open)).mappings().all():
        lack = {"shortage": {"place": "", "share": share, "network": True}}
        roster = {**ROSTER, **lack, "vans": 2 if _is_own(row["depot_id"]) else vans}
        here = [table.c[name] == row[name] for name in ("publication_id", "depot_id", "target_date")]
        connection.execute(table.update().where(*here).values(roster=roster))
    _write_digests(connection)


def _write_digests(connection: sa.Connection) -> None:
    """Update the digests of every publication after its rows were changed."""
    for number in connection.execute(sa.select(tables.publications.c.publication_id)).scalars().all():
        soundness.write_digest(connection, number)


def _scale(
    connection: sa.Connection, table: sa.Table, others: Callable[[Mapping[str, Any]], bool], *names: str
) -> None:
    """Triple numbers in the rows of other cities."""
    keys = list(table.primary_key)
    for row in connection.execute(sa.select(table)).mappings().all():
        if others(row):
            new = {name: _tripled(row[name]) for name in names}
            connection.execute(table.update().where(*(key == row[key.name] for key in keys)).values(**new))


def _tripled(value: Any) -> Any:
    if isinstance(value, list):
        return [_tripled(item) for item in value]
    return value * 3 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _change_other_cities(url: str) -> None:
    """Change counts, forecasts, overrides and vans in New York and Philadelphia, and everything
    derived from them."""
    with Ledger.open(url) as ledger:
        ledger.note("night-1", findings=[Finding("count_negative", "quarantine", 17, "NYC-01: 17 rows")])
        ledger.note("night-1", verdict={"admitted": True, "objections": [], "compared": {}})
        ledger.note("night-1", computing={"forecasts": 900, "cost_per_hour": 9.0, "currency": "USD"})
        with ledger.transaction() as connection:
            _scale(connection, tables.published, lambda row: not _is_own(row["depot_id"]), "quantiles", "drivers")
            _scale(connection, tables.published_depots, lambda row: not _is_own(row["depot_id"]), "recent")
            _scale(connection, tables.published_totals, lambda row: row["name"] != OWN_CITY, "quantiles")
            names = ("actual", "error", "absolute")
            _scale(connection, tables.hindsight, lambda row: row["label"] not in (OWN_CITY, "BOS-01", "BOS-02"), *names)
            _scale(connection, tables.value_costs, lambda row: row["city"] != OWN_CITY, "cost", "drivers", "short")
            connection.execute(tables.value_days.update().values(overridden=40))
            connection.execute(tables.promotions.update().values(reason="NYC-01 misses less"))
            connection.execute(tables.canaries.update().values(cohort=[OWN, "PHL-01"], judged={"wape": 0.3}))
            moved = Drift(drift.ALL, "", drift.LEVEL, 1, CUTOFF, CUTOFF, 1.4, None)
            drift.replace_drifts(connection, "harbor-fleet", [moved, *drift.drifts(connection, "harbor-fleet")])
            _restaff(connection, vans=7, share=0.23)
            at = NOON - timedelta(minutes=5)
            for depot_id in ("NYC-01", "PHL-02"):
                wish = ProposedOverride(depot_id, CUTOFF + timedelta(days=3), 900, "weather", "Nia")
                override_table.write(connection, "harbor-fleet", wish, at)
            connection.execute(tables.publications.update().values(revised_at=at))
            _write_digests(connection)


def _installation(folder: Path) -> FastAPI:
    """Return the application of a folder with a ledger."""
    url, file = f"sqlite:///{folder / 'ledger.db'}", folder / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    limits = {"reads": "100000/minute", "strangers": "100000/minute", "writes": "100000/minute"}
    access = declared(cities={name: [OWN_CITY] for name in ("vic", "pia")}, roles={"planner": ["pia"]}, limits=limits)
    return house(url, access, spec=load(file))


@dataclass(frozen=True)
class Installations:
    """Two installations that differ only in other cities, with the same links of screen and feeds."""

    first: FastAPI
    second: FastAPI
    screen: str
    feeds: tuple[str, ...]


@pytest.fixture(scope="module")
def installations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installations]:
    folder = tmp_path_factory.mktemp("cities")
    (folder / "first").mkdir()
    url = f"sqlite:///{folder / 'first' / 'ledger.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        write_nights(url, list(CITIES), True)
        with Ledger.open(url) as ledger, ledger.transaction() as connection:
            _restaff(connection, vans=3, share=0.88)
            trial = {"run_id": "night-1", "bundle_digest": "cc33", "cohort": [OWN, "NYC-01"], "now": INSTANT}
            canaries.start(connection, "harbor-fleet", **trial)
            slips = [Drift(drift.DEPOT, OWN, drift.LEVEL, 1, CUTOFF, CUTOFF, 1.2, None)]
            drift.replace_drifts(connection, "harbor-fleet", slips)
        screen = hang_up(url, view="network", city=OWN_CITY)[1]
        feeds = [hang_up(url, view="feed", city=OWN_CITY)[1], hang_up(url, view="feed", depot_id=OWN)[1]]
        feeds += [address.removesuffix("ics") + "rss" for address in feeds]
        shutil.copytree(folder / "first", folder / "second")
        _change_other_cities(f"sqlite:///{folder / 'second' / 'ledger.db'}")
        paths = tuple(address.removeprefix(HOME) for address in feeds)
        yield Installations(
            _installation(folder / "first"), _installation(folder / "second"), screen.removeprefix(HOME), paths
        )


def _addresses(app: FastAPI) -> list[str]:
    """Return every address of the route table, for the reader's own depot and for another one."""
    paths = {TABLE[route][0] for route in routes(app) if route[0] == "GET"}
    own = {path.replace("NYC-01", OWN) for path in paths}
    return sorted(paths | own)


def _with(path: str, query: str) -> str:
    return path if not query else f"{path}{'&' if '?' in path else '?'}{query}"


def _questions(path: str) -> Iterator[tuple[str, str]]:
    """Yield addresses with languages: every page in every language, formats and narrower queries in
    one."""
    is_api = path.startswith("/api/")
    forms = ("", "format=csv") if is_api else ("", *FILES) if path == "/roster" else ("",)
    yield from product([path], LANGUAGES)
    yield from ((_with(path, form), "en") for form in forms[1:])
    for query in PAST if is_api else NARROWED:
        yield _with(path, query), "en"


def _guest(app: FastAPI, role: str, screen: str) -> Guest:
    if role == "link":
        guest = Guest(app)
        assert guest(screen).status_code == 303
        return guest
    return signed_in(app, {"viewer": "vic", "planner": "pia"}[role])


def _bytes(answer: httpx.Response) -> tuple[object, ...]:
    """Return an answer's content without session tokens and timestamps of packed files."""
    body = re.sub(
        rb'(?<=name="csrf" value=")[^"]*|(?<="csrf":")[^"]*',
        b"",
        answer.content,
    )
    headers = {name: value for name, value in answer.headers.items() if name not in ("set-cookie", "content-length")}
    etag = {} if body == answer.content else {"etag": ""}
    return answer.status_code, {**headers, **etag}, body


@pytest.mark.parametrize("role", ["viewer", "planner", "link"])
def test_no_answer_depends_on_hidden_cities(installations: Installations, role: str) -> None:
    first, second = installations.first, installations.second
    readers = [_guest(app, role, installations.screen) for app in (first, second)]
    answered, differing = 0, []
    questions = [question for path in (*_addresses(first), *installations.feeds) for question in _questions(path)]
    for language in LANGUAGES if role == "viewer" else ("en",):
        paths = [path for path, asked in questions if asked == language]
        answers = [_speaking(reader, language).each(paths) for reader in readers]
        for path, one, other in zip(paths, *answers, strict=True):
            answered += one.status_code == 200
            if _bytes(one) != _bytes(other):
                differing.append(f"{language} {path}")
    assert not differing, "\n".join(differing)
    assert answered > {"viewer": 290, "planner": 190, "link": 20}[role]


CHANGING = rb'"(at|id)":("[^"]*"|\d+)|override \d+|name="csrf" value="[^"]*"'  # varies from one answer to the next


@pytest.mark.parametrize("route", BODIES, ids=" ".join)
def test_no_answer_to_a_write_depends_on_hidden_cities(installations: Installations, route: tuple[str, str]) -> None:
    method, path = route[0], TABLE[route][0]
    for own in (True, False):
        body = {key: _own(value) if own else value for key, value in BODIES[route].items()}
        answers = [
            signed_in(app, "pia").writes(path, method, json=body) for app in (installations.first, installations.second)
        ]
        one, other = (re.sub(CHANGING, b"", answer.content) for answer in answers)
        assert (answers[0].status_code, one) == (answers[1].status_code, other)


def _own(value: object) -> object:
    return [OWN] if isinstance(value, list) else OWN if value == "NYC-01" else value


def _speaking(reader: Guest, language: str) -> Guest:
    headers = {**reader.headers, "Accept-Language": language}
    return Guest(reader.app, headers, reader.address, reader.base, reader.cookies)
