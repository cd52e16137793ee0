"""What Prometheus is told of inference: how long requests wait and compute, how full batches are and why they went."""

from __future__ import annotations

import platform
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from forecaster import __version__
from forecaster.core.metric_names import OF_INFERENCE, OF_PAGE
from forecaster.serving.batching import WHYS, Why

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64)
ROUTES = ("infer", "forecast")
STARTS = ("warm", "cold")
LOADED, BUNDLE_REFUSED = "loaded", "refused"
# Why a request was turned away, by its status; what waits for the graph says itself why.
REASONS = {
    400: "shape",
    401: "stranger",
    403: "forbidden",
    408: "size",
    411: "size",
    413: "size",
    415: "shape",
    429: "limit",
}
REFUSALS = ("full", "late", "closing", *dict.fromkeys(REASONS.values()))


class InferenceMetrics:
    """The counters of one pipeline's inference; it observes the queues of its models."""

    def __init__(self, pipeline: str, collectors: CollectorRegistry | None = None) -> None:
        self.collectors = collectors if collectors is not None else CollectorRegistry()
        self._pipeline = pipeline

        def labels(name: str) -> tuple[str, str, tuple[str, ...]]:
            measure = OF_INFERENCE[name]
            return measure.prometheus, f"{measure.meaning} ({measure.unit})", ("pipeline", *measure.labels)

        registry = self.collectors
        self._requests = Counter(*labels("inference_requests"), registry=registry)
        self._seconds = Histogram(*labels("inference_seconds"), buckets=SECONDS, registry=registry)
        self._wait = Histogram(*labels("inference_queue_seconds"), buckets=SECONDS, registry=registry).labels(pipeline)
        self._compute = Histogram(*labels("inference_compute_seconds"), buckets=SECONDS, registry=registry).labels(
            pipeline
        )
        self._rows = Histogram(*labels("inference_batch_rows"), buckets=ROWS, registry=registry).labels(pipeline)
        self._batches = Counter(*labels("inference_batches"), registry=registry)
        self._queue_rows = Gauge(*labels("inference_queue_rows"), registry=registry)
        self._queue_limit = Gauge(*labels("inference_queue_limit"), registry=registry)
        self._refused = Counter(*labels("inference_refused"), registry=registry)
        self._model_at = Gauge(*labels("inference_model"), registry=registry)
        self._current = Gauge(*labels("inference_model_current"), registry=registry)
        self._loads = Histogram(*labels("inference_load_seconds"), buckets=SECONDS, registry=registry)
        self._ready = Gauge(*labels("inference_ready"), registry=registry)
        build = OF_PAGE["build"]
        if collectors is None:  # else whoever gave the registry says so
            Gauge(
                build.prometheus, f"{build.meaning} ({build.unit})", ("pipeline", *build.labels), registry=registry
            ).labels(pipeline, __version__, platform.python_version()).set(1)
        for reason in REFUSALS:  # what never happened is none, so that the first time is seen
            self._refused.labels(pipeline, reason)
        for why in WHYS:
            self._batches.labels(pipeline, why)
        for outcome in (LOADED, BUNDLE_REFUSED):
            self._loads.labels(pipeline, outcome)
        for route in ROUTES:
            for start in STARTS:
                self._seconds.labels(pipeline, route, start)

    def watches(
        self, queued_rows: Callable[[], int], queue_limit: int, ready: Callable[[], bool], current: Callable[[], bool]
    ) -> None:
        """Registers what each scrape reads anew, and the limit of waiting rows."""
        self._queue_rows.labels(self._pipeline).set_function(queued_rows)
        self._queue_limit.labels(self._pipeline).set(queue_limit)
        self._ready.labels(self._pipeline).set_function(ready)
        self._current.labels(self._pipeline).set_function(current)

    def serves(self, version: str, before: str | None, since: float) -> None:
        """Another champion is served."""
        if before is not None:
            self._model_at.remove(self._pipeline, before)
        self._model_at.labels(self._pipeline, version).set(since)

    def loaded(self, outcome: str, seconds: float) -> None:
        """A bundle was loaded, verified and warmed, or refused."""
        self._loads.labels(self._pipeline, outcome).observe(seconds)

    def batch(self, why: Why, rows: int, seconds: float) -> None:
        """A batch was computed."""
        self._batches.labels(self._pipeline, why).inc()
        self._rows.observe(rows)
        self._compute.observe(seconds)

    def wait(self, seconds: float) -> None:
        """A request, or a piece of one, waited so long before it was computed."""
        self._wait.observe(seconds)

    def answered(self, route: str, status: int, seconds: float, *, cold: bool, reason: str | None) -> None:
        """A request was answered; `reason` is why it was turned away, where the status does not say it."""
        start = STARTS[cold]
        self._requests.labels(self._pipeline, route, str(status), start).inc()
        self._seconds.labels(self._pipeline, route, start).observe(seconds)
        if reason is not None:
            self._refused.labels(self._pipeline, reason).inc()
        else:
            self.turned_away(status)

    def turned_away(self, status: int) -> None:
        """Somebody got this status, which says why; of what is none of `REASONS` nothing is counted."""
        if (reason := REASONS.get(status)) is not None:
            self._refused.labels(self._pipeline, reason).inc()

    def text(self) -> bytes:
        """All of it in the exposition format."""
        return generate_latest(self.collectors)
