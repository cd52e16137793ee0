"""Errors shown to readers are usable: no path, no key of the pipeline file, no address."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from dashboards.ops.views.catalogue import VIEWS
from forecaster.config import Spec
from forecaster.core.forecast import Verdict
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs
from tests import fleets
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.visitor import text
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, publish_as_of, publish_nights

HEALTH = ("/health", "/api/v1/runs")  # pages for operators of the pipeline
EXPLAINED = ("/champion", "/accuracy")  # pages that explain the technical terms they use
WISH = {"depot_id": "A", "target_date": "2024-04-11", "orders": "90", "reason": "weather"}
PLANNED = re.compile("overrides|what-if|audit")
TERMS = re.compile(r"\b(champions?|bundles?|quarantine|fallback|tiers?|publications?|seasonal.naive|ledger|WAPE)\b")
ADDRESS = re.compile(r"sqlite:|postgresql|Traceback|\.npz|\.db\b|ledger of this version")


def _keys(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield every dotted key of the pipeline file."""
    for name, declaration in model.model_fields.items():
        if above:
            yield f"{above}.{name}"
        for part in (declaration.annotation, *getattr(declaration.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _keys(part, name)


KEYS = {key for key in _keys(Spec) if len(key) > 8}


# --- kinds of trouble -------------------------------------------------------------------------------------------------


def _nothing(fleet: Fleet) -> None:
    pass


def _inputs_missing(fleet: Fleet) -> None:
    shutil.rmtree(fleet.spec.paths.saved_inputs)


def _inputs_damaged(fleet: Fleet) -> None:
    for file in fleet.spec.paths.saved_inputs.glob("*.npz"):
        file.write_bytes(b"damaged")


def _inputs_never_kept(fleet: Fleet) -> None:
    _inputs_damaged(fleet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_inputs, "MAX_BYTES", 1000)
        publish_as_of(fleet.spec, AS_OF)


def _model_missing(fleet: Fleet) -> None:
    shutil.rmtree(fleet.bundle)


def _model_damaged(fleet: Fleet) -> None:
    (fleet.bundle / "model.onnx").write_bytes(b"damaged")


def _model_missing_in_the_night(fleet: Fleet) -> None:
    _model_missing(fleet)
    assert "No such file" in str(publish_as_of(fleet.spec, AS_OF).note)


def _feed_late(fleet: Fleet) -> None:
    assert "demand.rules.late_days" in str(publish_as_of(fleet.spec, AS_OF + 5 * DAY).note)


def _night_failed(fleet: Fleet) -> None:
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        ledger.start_run("failed", pipeline="small", as_of=AS_OF, spec_digest="5pec")
        ledger.note("failed", verdict=Verdict(False, ("WAPE is higher",), {}))
        message = f"{fleet.spec.lake_url}/demand is missing; set schedule.deadline, staffing.vans"
        ledger.finish_run("failed", "failed", 1, message)


def _lake_away(fleet: Fleet) -> None:
    shutil.rmtree(fleet.spec.paths.folder / "lake")
    _night_failed(fleet)


def _ledger_file(fleet: Fleet) -> Path:
    return fleet.spec.paths.ledger


def _ledger_missing(fleet: Fleet) -> None:
    for file in _ledger_file(fleet).parent.glob("ledger.db*"):
        file.unlink()


def _ledger_damaged(fleet: Fleet) -> None:
    _ledger_missing(fleet)
    _ledger_file(fleet).write_bytes(b"no database at all " * 100)


def _ledger_of_another_version(fleet: Fleet) -> None:
    with closing(sqlite3.connect(_ledger_file(fleet), isolation_level=None)) as connection:
        connection.execute("update forecaster_revision set version_num = '9999'")


def _ledger_without_a_table(fleet: Fleet) -> None:
    with closing(sqlite3.connect(_ledger_file(fleet), isolation_level=None)) as connection:
        connection.execute("drop table published")
        connection.execute("drop table audit")


def _no_publication(fleet: Fleet) -> None:
    _ledger_missing(fleet)
    Ledger.open(fleet.spec.ledger_url).close()


TROUBLES: tuple[Callable[[Fleet], None], ...] = (
    _nothing,
    _inputs_missing,
    _inputs_damaged,
    _inputs_never_kept,
    _model_missing,
    _model_damaged,
    _model_missing_in_the_night,
    _feed_late,
    _night_failed,
    _lake_away,
    _ledger_missing,
    _ledger_damaged,
    _ledger_of_another_version,
    _ledger_without_a_table,
    _no_publication,
)


# --- readers, and where they look -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """A client that reads, and writes if allowed; a planner requests pages and the endpoints for
    planners only."""

    guest: Guest
    plans: bool

    def bodies(self) -> Iterator[tuple[str, httpx.Response]]:
        addresses = [path for path in _addresses() if not path.startswith(HEALTH)]
        if self.plans:
            addresses = [path for path in addresses if not path.startswith("/api/") or PLANNED.search(path)]
        yield from zip(addresses, self.guest.each(addresses), strict=True)
        for path in ("/api/v1/overrides", "/overrides", "/api/v1/overrides/1/withdrawal", "/overrides/1/withdrawal"):
            body: dict[str, Any] = WISH if path.endswith("overrides") else {"note": "taken back"}
            how = {"json": body | ({"orders": 90} if "orders" in body else {})} if "api" in path else {"data": body}
            yield f"POST {path}", self.guest.writes(path, **how)


def _addresses() -> Iterator[str]:
    for view, form, past in product(VIEWS, ("", "format=csv"), ("", "as_of=2024-04-10", "publication=1", "as_of=x")):
        if view.of_publication or not past:
            yield f"/api/v1/{view.name}?{form}&{past}"
    for depot in ("A", "B", "Nowhere"):
        yield from (f"/depot/{depot}", f"/api/v1/depots/{depot}", f"/api/v1/depots/{depot}?format=csv")
        yield from (
            f"/day/2024-04-11/{depot}",
            f"/day/2030-01-01/{depot}",
        )
        for kind in ("orders", "closed", "promo", "nothing"):
            yield f"/day/2024-04-11/{depot}?kind={kind}&value=1"
            yield f"/api/v1/what-if?depot={depot}&date=2024-04-11&kind={kind}&value=1"
            yield f"/api/v1/what-if?depot={depot}&date=2024-04-11&kind={kind}&value=1&format=csv"
    yield from (
        "/",
        "/?city=Ulm",
        "/?sort=city",
        "/wall",
        "/wall?city=Nowhere",
        "/accuracy",
        "/champion",
    )
    yield from ("/overrides", "/api/v1/overrides", "/api/v1/overrides/worth", "/api/v1/me", "/api/v1/openapi.json")
    yield from ("/nowhere", "/api/v1/nowhere", "/link/nothing", "/readyz", "/healthz", "/api/v1/audit", *HEALTH)


def _page(fleet: Fleet) -> FastAPI:
    access = declared(
        cities={"vic": ["Ulm"], "group:planners": ["*"], "ada": ["*"]},
        limits={"reads": "100000/minute", "writes": "100000/minute", "strangers": "100000/minute"},
    )
    return house(fleet.spec.ledger_url, access, AS_OF, fleet.spec, "small")


def _of(page: FastAPI, who: str, groups: str = "") -> Reader:
    return Reader(signed_in(page, who, groups), plans=bool(groups))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    return publish_nights(tmp_path / "fleet", fleets.counts("ABCD"))


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__.strip("_"))
def test_readers_never_see_a_path_a_key_or_an_address(trouble: Callable[[Fleet], None], fleet: Fleet) -> None:
    trouble(fleet)
    page, count = _page(fleet), 0
    for who, groups in (("vic", ""), ("paula", "planners")):
        for path, answer in _of(page, who, groups).bodies():
            body = answer.text
            assert str(fleet.file.parent) not in body, path
            assert ADDRESS.search(body) is None, (path, body)
            assert {key for key in KEYS if key in body and re.search(rf"\b{re.escape(key)}\b", body)} == set(), path
            if not path.startswith(EXPLAINED) and answer.headers.get("content-type", "").startswith("text/html"):
                assert TERMS.findall(text(answer)) == [], (path, text(answer))
            assert answer.status_code < 500 or answer.status_code == 503, (path, body)
            count += 1
    assert count > 150


@pytest.mark.parametrize("trouble", [_inputs_missing, _inputs_damaged, _inputs_never_kept])
def test_a_planner_sees_the_consequence_and_the_log_has_the_cause(
    trouble: Callable[[Fleet], None], fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    trouble(fleet)
    planner = _of(_page(fleet), "paula", "planners").guest
    with caplog.at_level(logging.WARNING, "forecaster.page"):
        page = planner("/day/2024-04-11/A")
    assert page.status_code == 200
    assert "The planning tool is not available until tonight&#39;s run" in page.text
    if trouble is not _inputs_never_kept:
        assert str(fleet.spec.paths.saved_inputs) in caplog.text
    saved = planner.writes("/api/v1/overrides", json=WISH | {"orders": 90})
    assert saved.json()["said"].endswith(
        "; from the next publication on, since the planning tool is not available until tonight's run; the numbers "
        "shown are of the last one"
    )


def test_admins_and_the_health_page_see_the_full_error(fleet: Fleet) -> None:
    _ledger_of_another_version(fleet)
    page = _page(fleet)
    told = "the forecasts cannot be read at the moment; whoever runs this page finds why in its log"
    assert _of(page, "vic").guest("/api/v1/network").json()["detail"] == told
    assert "has revision 9999" in _of(page, "ada").guest("/api/v1/network").json()["detail"]
    assert "has revision 9999" in _of(page, "vic").guest("/health").text
    assert _of(page, "vic").guest("/readyz").text == f"{told}\n"
    assert "has revision 9999" in _of(page, "ada").guest("/readyz").text
