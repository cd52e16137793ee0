"""Counts and times a server's answers for Prometheus, by route template: never by path, person or
city.

It is the outermost middleware, so that it also sees rejected requests and answers from the response
cache, which precede routing; therefore it finds the template itself. Every label has few values,
whatever clients request.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.ops.http.responses import ORIGIN
from forecaster import __version__
from forecaster.core.metric_names import OF_PAGE
from forecaster.monitoring.page_answers import AnswerLog

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # routes and methods that the page does not have
# requested by machines: excluded from all counts, and so from service objectives and alerts
PROBES = ("/healthz", "/readyz")
STATIC = "/static/{path}"  # excluded from the counts of origins: says nothing about readers' waiting time
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)
REFUSALS = {401: "stranger", 403: "forbidden", 413: "size", 429: "limit"}


class AnswerMetrics:
    """Counters of this process's answers, in a registry."""

    def __init__(self, collectors: CollectorRegistry) -> None:
        self.collectors, self.middleware = collectors, RequestMetrics
        self._build = Gauge(*OF_PAGE["build"].described, registry=collectors)

    def serves(self, pipeline: str) -> None:
        """Register a pipeline, even if nobody queries it yet."""
        self._build.labels(pipeline, __version__, platform.python_version()).set(1)

    def begin(self, pipeline: str) -> None:
        """Note the begin of a request."""

    def end(self, pipeline: str, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Note the end of a request."""


class PageMetrics(AnswerMetrics):
    """The counters of the pages that this process serves."""

    def __init__(self, collectors: CollectorRegistry, logs: Mapping[str, AnswerLog] | None = None) -> None:
        """Register the counters. `logs` are, by pipeline, the answer logs on which service
        objectives are based."""
        super().__init__(collectors)
        self._logs = logs or {}
        self._requests = Counter(*OF_PAGE["requests"].described, registry=collectors)
        self._seconds = Histogram(*OF_PAGE["request_seconds"].described, buckets=BUCKETS, registry=collectors)
        self._in_progress = Gauge(*OF_PAGE["in_progress"].described, registry=collectors)
        self._answers = Counter(*OF_PAGE["answers"].described, registry=collectors)
        self._refused = Counter(*OF_PAGE["refused"].described, registry=collectors)

    def serves(self, pipeline: str) -> None:
        super().serves(pipeline)
        self._in_progress.labels(pipeline)
        # start each counter at zero, so that its first increment is visible
        for reason in sorted(set(REFUSALS.values())):
            self._refused.labels(pipeline, reason)

    def begin(self, pipeline: str) -> None:
        self._in_progress.labels(pipeline).inc()

    def end(self, pipeline: str, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Count an answer to a reader."""
        self._in_progress.labels(pipeline).dec()
        if route in PROBES:
            return
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._requests.labels(pipeline, route, method, str(status)).inc()
        self._seconds.labels(pipeline, route).observe(seconds)
        if pipeline in self._logs:
            self._logs[pipeline].count(datetime.now(UTC), status, seconds)
        if (origin := scope.get(ORIGIN)) is not None and route != STATIC:
            self._answers.labels(pipeline, origin).inc()
        if (reason := REFUSALS.get(status)) is not None:
            self._refused.labels(pipeline, reason).inc()


class RequestMetrics:
    """ASGI middleware that reports each request to `AnswerMetrics`. `routes_of` is the application
    with the routes."""

    def __init__(self, app: ASGIApp, metrics: AnswerMetrics, pipeline: str, routes_of: Starlette) -> None:
        self.app, self._metrics, self._pipeline, self._routes_of = app, metrics, pipeline, routes_of
        self._templates: Templates | None = None
        metrics.serves(pipeline)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if self._templates is None:  # all routes exist by the first request
            self._templates = Templates(self._routes_of.routes)
        status, begun = 500, perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.begin(self._pipeline)
        try:
            return await self.app(scope, receive, noting)
        finally:
            seconds = perf_counter() - begun
            self._metrics.end(self._pipeline, scope, self._templates.of(scope["path"]), status, seconds)


class Templates:
    """Route templates of an application, by path: "/depot/{depot_id:path}" for "/depot/BOS-01"."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        templates = [
            (f"{route.path}/{{path}}" if isinstance(route, Mount) else route.path, route.path_regex)
            for route in _flattened(routes)
        ]
        self._whole = {template for template, _ in templates if "{" not in template}
        self._patterns: list[tuple[str, re.Pattern[str]]] = [
            (template, pattern) for template, pattern in templates if "{" in template
        ]

    def of(self, path: str) -> str:
        """Return the template of the first route that matches a path; `OTHER` if none does."""
        if path in self._whole:
            return path
        return next((template for template, pattern in self._patterns if pattern.match(path)), OTHER)


def _flattened(routes: Iterable[Any]) -> Iterator[Any]:
    """Yield every route with a path, including those of included routers, which FastAPI expands
    lazily."""
    for route in routes:
        if (included := getattr(route, "original_router", None)) is not None:
            yield from _flattened(included.routes)
        elif hasattr(route, "path_regex"):
            yield route
