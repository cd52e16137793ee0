"""Panels of the inference service: is it there and up to date, how long it takes, and how requests become batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.panels import GOOD_IS_NONE, LEFT, bars, lines, number, query, rate

NOBODY_ASKS = "nobody asks"
NO_SERVICE = "no inference service tells of itself"
RUNBOOK = "inference-service"
IS_GOOD = ((None, "red"), (1.0, "green"))


def quantiles(metric: str, *levels: float) -> Mapping[str, str]:
    """Legend → expression of levels of a histogram, over all machines."""
    buckets = rate(f"{metric}_bucket")
    return {f"p{round(100 * level)}": f"histogram_quantile({level}, sum by (le) ({buckets}))" for level in levels}


def is_it_well() -> Sequence[Builder[Panel]]:
    """For whoever is on call."""
    rows = "forecaster_inference_queue_rows"
    return [
        number(
            "Inference is ready",
            "How many can be asked. `ForecasterInferenceDown` calls where none is.",
            f"sum({query('forecaster_inference_ready')})",
            "short",
            6,
            steps=IS_GOOD,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        ),
        number(
            "It serves the champion",
            "0 where one goes on with an older model, or cannot read the ledger.",
            f"min({query('forecaster_inference_model_current')})",
            "short",
            6,
            steps=IS_GOOD,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        ),
        number(
            "The model is served since",
            "Of the newest that took the place of another.",
            f"time() - max({query('forecaster_inference_model_timestamp_seconds')})",
            "s",
            6,
            nothing=NO_SERVICE,
        ),
        number(
            "Bundles refused in a day",
            "Damaged, or signed by no trusted key; each is tried again every 30 seconds.",
            f"sum(increase({query('forecaster_inference_load_duration_seconds_count', outcome='refused')}[1d]))",
            "short",
            6,
            steps=GOOD_IS_NONE,
            decimals=0,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        ),
        lines(
            "Inference by status",
            "Answers in a second. S5 promises fewer than 0.1 % of 5xx.",
            {"{{route}} {{code}}": f"sum by (route, code) ({rate('forecaster_inference_requests_total')})"},
            "reqps",
            8,
            nothing=NOBODY_ASKS,
            runbook=RUNBOOK,
        ),
        lines(
            "How long callers wait",
            "Half, 95 % and 99 % of the answers take no longer. `ForecasterInferenceSlow` tells at 50 ms.",
            quantiles("forecaster_inference_request_duration_seconds", 0.5, 0.95, 0.99),
            "s",
            8,
            nothing=NOBODY_ASKS,
            runbook=RUNBOOK,
        ),
        lines(
            "Turned away by inference",
            "In a second, by reason: a full queue, a deadline, the end, shapes, strangers, limits, sizes.",
            {"{{reason}}": f"sum by (reason) ({rate('forecaster_inference_refused_total')})"},
            "reqps",
            8,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        ),
        lines(
            "Wait in the queue",
            "Of requests, or pieces of large ones, until they are computed.",
            quantiles("forecaster_inference_queue_duration_seconds", 0.5, 0.95),
            "s",
            12,
            nothing=NOBODY_ASKS,
            runbook=RUNBOOK,
        ),
        lines(
            "Rows in the queue",
            "That wait, and that may. `ForecasterInferenceQueueFull` tells at 80 % over five minutes.",
            {"{{instance}}": query(rows), "may wait": f"min({query('forecaster_inference_queue_limit_rows')})"},
            "short",
            12,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        ),
    ]


def batches() -> Sequence[Builder[Panel]]:
    """For looking closer."""
    rows, count = (rate(f"forecaster_inference_batch_rows_{what}") for what in ("sum", "count"))
    return [
        lines(
            "Rows of a batch",
            "The mean. A batch holds 64 at most: few where few ask, many under load.",
            {"rows": f"sum({rows}) / sum({count})"},
            "short",
            8,
            nothing=NOBODY_ASKS,
        ),
        lines(
            "Why batches go",
            "In a second: full, nothing else computed, the oldest row had waited long enough, or the end.",
            {"{{why}}": f"sum by (why) ({rate('forecaster_inference_batches_total')})"},
            "short",
            8,
            nothing=NO_SERVICE,
        ),
        lines(
            "Seconds of a batch",
            "In the graph.",
            quantiles("forecaster_inference_compute_duration_seconds", 0.5, 0.95),
            "s",
            8,
            nothing=NOBODY_ASKS,
        ),
        lines(
            "Cold and warm",
            "In a second; cold are those that wait for a night or a model to be loaded. S6 promises fewer than 1 %.",
            {"{{route}} {{start}}": f"sum by (route, start) ({rate('forecaster_inference_requests_total')})"},
            "reqps",
            8,
            nothing=NOBODY_ASKS,
            runbook=RUNBOOK,
        ),
        bars(
            "Models that are served",
            "How many machines serve each bundle; two for a moment while one takes the place of another.",
            {"{{version}}": f"count by (version) ({query('forecaster_inference_model_timestamp_seconds')})"},
            "short",
            8,
            nothing=NO_SERVICE,
        ),
        bars(
            "Bundles loaded",
            "Since each service began, by outcome.",
            {"{{outcome}}": f"sum by (outcome) ({query('forecaster_inference_load_duration_seconds_count')})"},
            "short",
            8,
            nothing=NO_SERVICE,
        ),
    ]


def promises() -> Sequence[Builder[Panel]]:
    """What is left of the budgets of S5 and S6, which Prometheus alone can tell."""
    of_inference = "forecaster_inference_requests_total"
    chosen = 'pipeline="$pipeline"'
    asked = f'sum(increase({of_inference}{{{chosen}, code!="429"}}[28d]))'
    failed = f'(sum(increase({of_inference}{{{chosen}, code=~"5.."}}[28d])) or 0 * {asked})'
    cold = f"(sum(increase({query(of_inference, start='cold')}[28d])) or 0 * {asked})"
    return [
        number(
            title,
            f"Budget left: of {of} of 28 days. 100 % where nothing was spent; below 0 the promise is broken.",
            f"1 - {spent} / {asked} / {allowed}",
            "percentunit",
            4,
            steps=LEFT,
            decimals=0,
            nothing=NO_SERVICE,
            runbook=RUNBOOK,
        )
        for title, of, spent, allowed in (
            ("S5 Inference answers", "inference's answers that are no 5xx", failed, 0.001),
            ("S6 Inference is warm", "requests that met no cold model", cold, 0.01),
        )
    ]
