"""The dashboard of whoever is on call: is something out tonight, did the night go as usual, does the page answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana import inference
from dashboards.grafana.panels import GOOD_IS_NONE, bars, board, lines, number, query, rate, words

HOUR = 3600.0
RUNBOOK_OF = {  # of what is seen → its page
    "stale-forecast": "nothing new is out",
    "page-down": "nobody answers, or a ledger cannot be read",
    "page-errors": "answers are errors, or slow",
    "inference-service": "other programs get no answers, late ones, or those of an older model",
    "out-of-memory": "runs are killed",
    "no-model": "the seasonal naive forecasts",
    "compile-regression": "nights compile anew, or take too long",
    "worse-forecasts": "forecasts are worse than judged",
    "registry-down": "MLflow is not told",
    "quarantine-flood": "many rows are kept aside",
}
OF_THE_PAGE = 'and on (job, instance) forecaster_build_info{pipeline="$pipeline"}'  # of the process that serves it


def content() -> dict[str, Any]:
    """The dashboard as JSON."""
    return board(
        "forecaster-on-call",
        "Forecaster: on call",
        "Is something out tonight, did the night go as usual, and does the page answer?",
        "now-24h",
        {
            "What is shown": _shown(),
            "The last night": _night(),
            "The page": _page(),
            "Inference": inference.is_it_well(),
            "What to do": [_runbooks()],
        },
    )


def _shown() -> Sequence[Builder[Panel]]:
    return [
        number(
            "Age of what is shown",
            "Since it was published. `ForecasterForecastStale` calls at 26 hours.",
            f"time() - max({query('forecaster_publication_timestamp_seconds')})",
            "s",
            6,
            steps=((None, "green"), (24 * HOUR, "orange"), (26 * HOUR, "red")),
            nothing="nothing is published",
            runbook="stale-forecast",
        ),
        number(
            "Missing nights",
            "Scheduled nights without forecasts, the newest and earlier ones together.",
            f"sum(max by (which) ({query('forecaster_nights_missing')}))",
            "short",
            6,
            steps=GOOD_IS_NONE,
            runbook="stale-forecast",
        ),
        number(
            "To the newest deadline",
            "Below 0 it is over; that matters only while the newest night is missing.",
            f"max({query('forecaster_night_deadline_timestamp_seconds')}) - time()",
            "s",
            6,
        ),
        number(
            "Ledger readable",
            "0 where the listener could not read the ledger: all else of the pipeline is then absent.",
            f"min({query('forecaster_ledger_readable')})",
            "short",
            6,
            steps=((None, "red"), (1.0, "green")),
            runbook="page-down",
        ),
        bars(
            "Depots by who forecast them",
            "fresh: the newest model; champion: the model in use before; fallback: the same weekday repeated.",
            {"{{tier}}": f"max by (tier) ({query('forecaster_publication_depots')})"},
            "short",
            12,
            runbook="no-model",
        ),
        lines(
            "Who made what is shown",
            "1 for the tier of the whole publication.",
            {"{{tier}}": f"max by (tier) ({query('forecaster_publication_tier')})"},
            "short",
            12,
            runbook="no-model",
        ),
    ]


def _night() -> Sequence[Builder[Panel]]:
    seconds = "forecaster_run_duration_seconds", "forecaster_run_duration_usual_seconds"
    return [
        bars(
            "By stage",
            "Seconds of the last night that came to an end.",
            {"{{stage}}": f"max by (stage) ({query('forecaster_stage_duration_seconds')})"},
            "s",
            8,
        ),
        lines(
            "As long as usual?",
            "The last night, and the median of the fourteen before it. `ForecasterNightSlow` tells at 1.5 of that.",
            {
                "the last night": f"max({query(seconds[0], kind='night')})",
                "as usual": f"max({query(seconds[1], kind='night')})",
            },
            "s",
            8,
            runbook="compile-regression",
        ),
        bars(
            "How runs ended",
            "All that ever did, by kind and outcome; it never falls.",
            {"{{kind}} {{outcome}}": f"max by (kind, outcome) ({query('forecaster_runs_total')})"},
            "short",
            8,
        ),
        number(
            "Killed in a day",
            "Runs that could not say how they ended. `ForecasterOutOfMemory` calls at two.",
            f"sum(max by (kind) (increase({query('forecaster_runs_total', outcome='killed')}[1d])))",
            "short",
            6,
            steps=GOOD_IS_NONE,
            decimals=0,
            runbook="out-of-memory",
        ),
        number(
            "Failed in a day",
            "Nights that published nothing.",
            f"sum(max by (kind) (increase({query('forecaster_runs_total', outcome='failed')}[1d])))",
            "short",
            6,
            steps=GOOD_IS_NONE,
            decimals=0,
            runbook="stale-forecast",
        ),
        number(
            "Waiting for the registry",
            "Runs that MLflow has yet to be told. `ForecasterRegistryBehind` tells at more than three.",
            f"max({query('forecaster_registry_waiting_runs')})",
            "short",
            6,
            steps=((None, "green"), (4.0, "orange")),
            runbook="registry-down",
        ),
        number(
            "Deployment",
            "1 within half an hour of one, when compiling is expected and alerts about it are held back.",
            f"max({query('forecaster_deploy_window')})",
            "short",
            6,
        ),
        bars(
            "Kept aside, by rule",
            "Rows that the last night quarantined. `ForecasterQuarantineFlood` tells at 100, and a tenth of all.",
            {"{{rule}}": f"max by (rule) ({query('forecaster_quarantined_rows')})"},
            "short",
            8,
            nothing="no row was kept aside",
            runbook="quarantine-flood",
        ),
        bars(
            "Rows, by what became of them",
            "Of all sources, in the last night.",
            {"{{disposition}}": f"max by (disposition) ({query('forecaster_rows')})"},
            "short",
            8,
            runbook="quarantine-flood",
        ),
        bars(
            "Memory of the night",
            "The most that each of its processes held.",
            {"{{process}}": f"max by (process) ({query('forecaster_run_peak_memory_bytes')})"},
            "bytes",
            8,
            runbook="out-of-memory",
        ),
    ]


def _page() -> Sequence[Builder[Panel]]:
    buckets = rate("forecaster_http_request_duration_seconds_bucket")
    asked = f"sum({rate('forecaster_http_requests_total')})"
    counted, failed = (
        f'sum(rate(forecaster_http_requests_total{{pipeline="$pipeline", {codes}}}[$__rate_interval]))'
        for codes in ('code!="429"', 'code=~"5.."')
    )
    return [
        lines(
            "How long readers wait",
            "Half, 95 % and 99 % of the answers take no longer. S4 promises 0.2 s.",
            {
                f"p{round(100 * level)}": f"histogram_quantile({level}, sum by (le) ({buckets}))"
                for level in (0.5, 0.95, 0.99)
            },
            "s",
            12,
            nothing="nobody asks",
            runbook="page-errors",
        ),
        lines(
            "Share of errors",
            "Answers 5xx of all but 429. S3 promises less than 0.1 %.",
            {"errors": f"({failed} or 0 * {counted}) / {counted}"},
            "percentunit",
            12,
            nothing="nobody asks",
            runbook="page-errors",
        ),
        lines("Requests", "Answered in a second.", {"requests": asked}, "reqps", 8, nothing="nobody asks"),
        lines(
            "Turned away",
            "In a second, by reason: strangers, roles, limits, sizes.",
            {"{{reason}}": f"sum by (reason) ({rate('forecaster_page_refused_total')})"},
            "reqps",
            8,
        ),
        lines(
            "In flight",
            "Requests that wait for their answer.",
            {"in flight": f"sum({query('forecaster_http_requests_in_progress')})"},
            "short",
            8,
        ),
        lines(
            "Memory of the page",
            "Resident, of each process that serves it.",
            {"{{instance}}": f"process_resident_memory_bytes {OF_THE_PAGE}"},
            "bytes",
            12,
            runbook="out-of-memory",
        ),
        lines(
            "Processor of the page",
            "Cores, of each process that serves it.",
            {"{{instance}}": f"rate(process_cpu_seconds_total[$__rate_interval]) {OF_THE_PAGE}"},
            "short",
            12,
        ),
    ]


def _runbooks() -> Builder[Panel]:
    links = [f"- [{name}](${{runbooks}}/{name}.html): {when}" for name, when in RUNBOOK_OF.items()]
    more = "- [incident](${runbooks}/incident.html): the checklist of every incident"
    return words("Runbooks", "A page of one screen for each thing that goes wrong.", "\n".join([*links, more]), 24, 8)
