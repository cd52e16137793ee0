"""Metrics of inference for Prometheus: waiting and computing time, batch sizes, rejections, and the
served model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

from dashboards.ops.http import request_metrics
from dashboards.ops.http.request_metrics import AnswerMetrics
from forecaster.core.metric_names import OF_INFERENCE
from forecaster.serving.batching import WHYS, Why

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64)
ROUTES = {
    "/v2/models/{name}/infer": "infer",
    "/v2/models/{name}/versions/{version}/infer": "infer",
    "/v1/forecast": "forecast",
}
STARTS = ("warm", "cold")
LOADED, BUNDLE_REFUSED = "loaded", "refused"
# Reason of a rejection by status; requests in the queue carry their own reason.
REASONS = {**request_metrics.REFUSALS, 400: "shape", 408: "size", 415: "shape"}
REFUSALS = ("full", "late", "closing", *dict.fromkeys(REASONS.values()))


class InferenceMetrics(AnswerMetrics):
    """The counters of one pipeline's inference; it observes the queues of its models."""

    def __init__(self, pipeline: str) -> None:
        super().__init__(CollectorRegistry())
        self._pipeline = pipeline
        self._collectors: dict[str, Any] = {}
        for name, measure in OF_INFERENCE.items():
            kind = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}[measure.kind]
            buckets = ROWS if measure.unit == "rows" else SECONDS
            options: dict[str, Any] = {"buckets": buckets} if kind is Histogram else {}
            collector = self._collectors[name] = kind(*measure.described, registry=self.collectors, **options)
            if not measure.labels:  # start each counter at zero, so that its first increment is visible
                collector.labels(pipeline)
        for reason in REFUSALS:
            self._of("refused", reason)
        for why in WHYS:
            self._of("batches", why)
        for outcome in (LOADED, BUNDLE_REFUSED):
            self._of("load_seconds", outcome)
        for route in dict.fromkeys(ROUTES.values()):
            for start in STARTS:
                self._of("seconds", route, start)

    def _of(self, name: str, *labels: str) -> Any:
        """Return the collector with these labels."""
        return self._collectors[f"inference_{name}"].labels(self._pipeline, *labels)

    def watches(
        self, queued_rows: Callable[[], int], queue_limit: int, ready: Callable[[], bool], current: Callable[[], bool]
    ) -> None:
        """Register the values that each scrape reads, and the limit of queued rows."""
        self._of("queue_rows").set_function(queued_rows)
        self._of("queue_limit").set(queue_limit)
        self._of("ready").set_function(ready)
        self._of("model_current").set_function(current)

    def promoted(self, version: str, before: str | None, since: float) -> None:
        """Record a new champion."""
        if before is not None:
            self._collectors["inference_model"].remove(self._pipeline, before)
        self._of("model", version).set(since)

    def loaded(self, outcome: str, seconds: float) -> None:
        """Record a bundle that was loaded, verified and warmed, or rejected."""
        self._of("load_seconds", outcome).observe(seconds)

    def batch(self, why: Why, rows: int, seconds: float) -> None:
        """Record a computed batch."""
        self._of("batches", why).inc()
        self._of("batch_rows").observe(rows)
        self._of("compute_seconds").observe(seconds)

    def wait(self, seconds: float) -> None:
        """Record the time that a request, or a piece of one, waited before it was computed."""
        self._of("queue_seconds").observe(seconds)

    def end(self, pipeline: str, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Count a forecast or a rejected request.

        The request's state records whether a model had to be loaded, and the reason of a rejection
        if the status does not determine it.
        """
        state = scope.get("state", {})
        if "person" in state:
            if route not in ROUTES or scope["method"] != "POST":
                return
            start = STARTS[state.get("cold", False)]
            self._of("requests", ROUTES[route], str(status), start).inc()
            self._of("seconds", ROUTES[route], start).observe(seconds)
        if (reason := state.get("reason", REASONS.get(status))) is not None:
            self._of("refused", reason).inc()

    def text(self) -> bytes:
        """Return all metrics in the exposition format."""
        return generate_latest(self.collectors)
