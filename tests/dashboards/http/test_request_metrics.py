"""Answers are counted by route template, with few label values, whatever clients request."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from dashboards.ops.app import create_app
from dashboards.ops.http.request_metrics import OTHER, PageMetrics, Templates
from dashboards.ops.portal.app import FRONT, create_portal
from dashboards.ops.reading import store
from forecaster.config import load
from forecaster.monitoring.page_answers import AnswerLog, between
from tests.dashboards.seed import NOON, fill, publication

PIPELINE = "harbor-fleet"


@pytest.fixture
def collectors() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def app(url: str, collectors: CollectorRegistry) -> FastAPI:
    fill(url, publication())
    return create_app(url, pipeline=PIPELINE, clock=lambda: NOON, metrics=PageMetrics(collectors))


def ask(app: ASGIApp, *requests: tuple[str, str]) -> list[int]:
    async def all_of_them() -> list[int]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return [(await client.request(method, path)).status_code for method, path in requests]

    return asyncio.run(all_of_them())


def counted(collectors: CollectorRegistry, name: str, **labels: str) -> Any:
    return collectors.get_sample_value(name, {"pipeline": PIPELINE, **labels})


def test_depots_share_a_template_and_unknown_paths_are_counted_as_other(
    app: FastAPI, collectors: CollectorRegistry
) -> None:
    paths = ("/depot/BOS-01", "/depot/NYC-01", "/depot/nobody", "/wp-admin/x.php", "/../../etc/passwd")
    assert ask(app, *(("GET", path) for path in paths), ("BREW", "/")) == [200, 200, 404, 404, 404, 405]
    requests, route = "forecaster_http_requests_total", "/depot/{depot_id:path}"
    assert counted(collectors, requests, route=route, method="GET", code="200") == 2
    assert counted(collectors, requests, route=route, method="GET", code="404") == 1
    assert counted(collectors, requests, route=OTHER, method="GET", code="404") == 2
    assert counted(collectors, requests, route="/", method=OTHER, code="405") == 1
    assert counted(collectors, "forecaster_http_request_duration_seconds_count", route=route) == 3
    assert counted(collectors, "forecaster_http_request_duration_seconds_bucket", route=route, le="+Inf") == 3
    assert counted(collectors, "forecaster_http_requests_in_progress") == 0


def test_counters_of_rejections_start_at_zero(app: FastAPI, collectors: CollectorRegistry) -> None:
    assert ask(app, ("GET", "/healthz")) == [200]  # from the first request
    for reason in ("stranger", "forbidden", "size", "limit"):
        assert counted(collectors, "forecaster_page_refused_total", reason=reason) == 0


def test_probes_are_excluded_from_counts_and_service_objectives(tmp_path: Path, collectors: CollectorRegistry) -> None:
    log = AnswerLog(tmp_path / "answers.json")
    pages = PageMetrics(collectors, {PIPELINE: log})
    app = create_app(f"sqlite:///{tmp_path / 'none.db'}", pipeline=PIPELINE, clock=lambda: NOON, metrics=pages)
    assert ask(app, *3 * [("GET", "/healthz"), ("GET", "/readyz")], ("GET", "/nowhere")) == [*3 * [200, 503], 404]
    requests = [
        sample for family in collectors.collect() for sample in family.samples if sample.name.endswith("_total")
    ]
    assert {(sample.labels["route"], sample.value) for sample in requests if "route" in sample.labels} == {(OTHER, 1)}
    assert counted(collectors, "forecaster_http_requests_in_progress") == 0
    log.write(datetime.now(UTC))
    hour = timedelta(hours=1)
    answers = between(tmp_path, datetime.now(UTC) - hour, datetime.now(UTC) + hour)
    assert (answers.total, answers.errors) == (1, 0)


def test_counts_cached_and_rendered_answers_separately(
    app: FastAPI, collectors: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "REREAD_SECONDS", 600.0)
    ask(app, ("GET", "/depot/BOS-01"))  # opens the ledger, which changes its files
    before = counted(collectors, "forecaster_page_answers_total", origin="made")
    ask(app, *3 * [("GET", "/depot/NYC-01")], ("GET", "/healthz"), ("GET", "/static/style.css"))
    assert counted(collectors, "forecaster_page_answers_total", origin="made") == before + 1
    assert counted(collectors, "forecaster_page_answers_total", origin="kept") == 2


def test_counts_a_failed_answer(url: str, app: FastAPI, collectors: CollectorRegistry) -> None:
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("as planned")

    assert ask(app, ("GET", "/broken")) == [500]
    assert counted(collectors, "forecaster_http_requests_total", route="/broken", method="GET", code="500") == 1
    assert counted(collectors, "forecaster_http_requests_in_progress") == 0


def test_every_route_of_the_page_has_its_template(app: FastAPI) -> None:
    templates = Templates(app.routes)
    expected = {
        "/": "/",
        "/healthz": "/healthz",
        "/roster": "/roster",
        "/static/style.css": "/static/{path}",
        "/api/v1/openapi.json": "/api/v1/openapi.json",
        "/link/abc": "/link/{token}",
    }
    assert {path: templates.of(path) for path in expected} == expected
    assert {templates.of(path) for path in app.openapi()["paths"]} >= {"/api/v1/me", "/readyz"}
    assert OTHER not in {templates.of(path.replace("{", "").replace("}", "")) for path in app.openapi()["paths"]}


def test_counts_each_of_several_pipelines_under_its_name(tmp_path: Path, collectors: CollectorRegistry) -> None:
    specs = []
    for pipeline in ("east", "west"):
        (tmp_path / pipeline).mkdir()
        file = tmp_path / pipeline / "pipeline.yaml"
        file.write_text(f"name: {pipeline}\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\n", "utf-8")
        specs.append(load(file))
        fill(specs[-1].ledger_url, publication(pipeline=pipeline))
    portal = create_portal(specs, clock=lambda: NOON, metrics=PageMetrics(collectors))
    assert ask(portal, ("GET", "/"), ("GET", "/p/east/depot/BOS-01"), ("GET", "/p/north/")) == [200, 200, 404]
    requests, depot = "forecaster_http_requests_total", {"route": "/depot/{depot_id:path}", "method": "GET"}
    assert collectors.get_sample_value(requests, {"pipeline": "east", "code": "200", **depot}) == 1
    front = {"pipeline": FRONT, "method": "GET"}
    assert collectors.get_sample_value(requests, {"route": "/", "code": "200", **front}) == 1
    assert collectors.get_sample_value(requests, {"route": OTHER, "code": "404", **front}) == 1
