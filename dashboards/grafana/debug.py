"""The dashboard for looking closer: compiling and its cache, stages over thirty nights, devices, processes, parity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana import inference
from dashboards.grafana.on_call import OF_THE_PAGE
from dashboards.grafana.panels import bars, board, lines, number, query, rate

NO_TRAINING = "the last night trained nothing"
NO_DEVICE = "no accelerator"
NO_DRIFT = "too few forecasts came true to tell"
SCRAPED = 'and on (job, instance) last_over_time(forecaster_ledger_readable{pipeline="$pipeline"}[1d])'


def content() -> dict[str, Any]:
    """The dashboard as JSON."""
    return board(
        "forecaster-debug",
        "Forecaster: debug",
        "Compiling and its cache, stages over thirty nights, devices, the page's process, parity, and scrapes.",
        "now-30d",
        {
            "Compiling and training": _compiling(),
            "Stages and models": _stages(),
            "Drift": _drift(),
            "Devices": _devices(),
            "The page and its process": _process(),
            "Inference": inference.batches(),
        },
    )


def _compiling() -> Sequence[Builder[Panel]]:
    hits, misses = (f"max({query(f'forecaster_compile_cache_{what}')})" for what in ("hits", "misses"))
    return [
        number(
            "From the cache",
            "Programs of the last training. S7 promises 95 % where versions are as before.",
            f"{hits} / ({hits} + {misses})",
            "percentunit",
            6,
            nothing=NO_TRAINING,
            runbook="compile-regression",
        ),
        number(
            "Versions changed",
            "1 where what programs are compiled for differs from the training before: compiling is then expected.",
            f"max({query('forecaster_run_versions_changed')})",
            "short",
            6,
            nothing=NO_TRAINING,
        ),
        number(
            "Throughput",
            "Depot-days that the encoder read in a second, in the last epoch.",
            f"max({query('forecaster_training_rows_per_second')})",
            "short",
            6,
            nothing=NO_TRAINING,
        ),
        number(
            "ONNX against JAX",
            "The largest relative difference between the two, of the last bundle.",
            f"max({query('forecaster_parity_ratio')})",
            "sci",
            6,
            nothing=NO_TRAINING,
        ),
        lines(
            "Seconds of compiling",
            "In XLA's compiler, or reading its cache, of the whole training. A night that trains nothing has none.",
            {
                "compiling": f"max({query('forecaster_compile_duration_seconds')})",
                "training": f"max({query('forecaster_training_duration_seconds')})",
            },
            "s",
            12,
            nothing=NO_TRAINING,
            runbook="compile-regression",
        ),
        lines(
            "Hits and misses",
            "Programs of the training that the compile cache had, and had not.",
            {"hits": hits, "misses": misses},
            "short",
            12,
            nothing=NO_TRAINING,
            runbook="compile-regression",
        ),
    ]


def _stages() -> Sequence[Builder[Panel]]:
    return [
        lines(
            "Seconds by stage",
            "Of the last night at each moment: a step is a night.",
            {"{{stage}}": f"max by (stage) ({query('forecaster_stage_duration_seconds')})"},
            "s",
            16,
            runbook="compile-regression",
        ),
        bars(
            "Processor seconds",
            "Of each process of the last night and all its threads.",
            {"{{process}}": f"max by (process) ({query('forecaster_run_cpu_seconds')})"},
            "s",
            8,
        ),
        lines(
            "Error of each model on the backtest",
            "WAPE on the last days of the history, which the models had not seen.",
            {"{{model}}": f"max by (model) ({query('forecaster_model_score', metric='wape')})"},
            "percentunit",
            12,
            runbook="worse-forecasts",
        ),
        lines(
            "Bias and coverage of what was published",
            "Over the newest four weeks; 80 % of actuals are meant to lie within the range.",
            {
                "bias": f"max({query('forecaster_realised_bias_ratio', model='published', weeks='4')})",
                "coverage": f"max({query('forecaster_realised_coverage_ratio', model='published', weeks='4')})",
            },
            "percentunit",
            12,
            runbook="worse-forecasts",
        ),
        number(
            "Admitted",
            "1 where the gate let the last night's model in.",
            f"max({query('forecaster_gate_admitted')})",
            "short",
            8,
        ),
        number(
            "The champion reigns",
            "Since it came to do so.",
            f"time() - max({query('forecaster_champion_timestamp_seconds')})",
            "s",
            8,
            nothing="nobody reigns",
        ),
        number(
            "Planners' numbers",
            "Depot-days still to come that have one.",
            f"max({query('forecaster_overrides_active')})",
            "short",
            8,
        ),
    ]


def _drift() -> Sequence[Builder[Panel]]:
    return [
        lines(
            "Depots that drift",
            "Whose counts are unlike their forecasts, by direction, and of how many that can be told. "
            "`ForecasterDrift` tells at one in twenty.",
            {
                "{{direction}}": f"max by (direction) ({query('forecaster_depots_drifted')})",
                "tested": f"max({query('forecaster_depots_drift_tested')})",
            },
            "short",
            8,
            nothing=NO_DRIFT,
            runbook="worse-forecasts",
        ),
        lines(
            "Depot-days that lack",
            "Unknown or closed, of the last 28 days and as usual: the share in the year before.",
            {
                "{{reason}}": f"max by (reason) ({query('forecaster_days_lacking_ratio')})",
                "{{reason}} as usual": f"max by (reason) ({query('forecaster_days_lacking_usual_ratio')})",
            },
            "percentunit",
            8,
            nothing=NO_DRIFT,
            runbook="worse-forecasts",
        ),
        bars(
            "Inputs, cities and the network that drift",
            "Covariates whose last 28 days are unlike their past; cities by direction, where that can be told.",
            {
                "covariates": f"max({query('forecaster_covariates_drifted')})",
                "cities {{direction}}": f"max by (direction) ({query('forecaster_cities_drifted')})",
                "network {{direction}}": f"max by (direction) ({query('forecaster_network_drifted')})",
            },
            "short",
            8,
            nothing=NO_DRIFT,
            runbook="worse-forecasts",
        ),
    ]


def _devices() -> Sequence[Builder[Panel]]:
    peak, limit = (query(f"forecaster_device_memory_{what}_bytes") for what in ("peak", "limit"))
    return [
        lines(
            "Device memory",
            "The most that training held on each accelerator, and may hold. Empty where there is none.",
            {"{{device}} held": f"max by (device) ({peak})", "{{device}} may hold": f"max by (device) ({limit})"},
            "bytes",
            8,
            nothing=NO_DEVICE,
            runbook="out-of-memory",
        ),
        lines(
            "Device memory filled",
            "The share of it. `ForecasterDeviceMemoryHigh` tells at 80 %.",
            {"{{device}}": f"max by (device) ({peak}) / max by (device) ({limit})"},
            "percentunit",
            8,
            nothing=NO_DEVICE,
            runbook="out-of-memory",
        ),
        lines(
            "Device busy",
            "The share of the training in which each accelerator was.",
            {"{{device}}": f"max by (device) ({query('forecaster_device_utilisation_ratio')})"},
            "percentunit",
            8,
            nothing=NO_DEVICE,
        ),
    ]


def _process() -> Sequence[Builder[Panel]]:
    buckets = rate("forecaster_http_request_duration_seconds_bucket")
    return [
        lines(
            "95 % of answers, by route",
            "Take no longer, by the template of the address.",
            {"{{route}}": f"histogram_quantile(0.95, sum by (le, route) ({buckets}))"},
            "s",
            12,
            nothing="nobody asks",
        ),
        lines(
            "Cold answers",
            "In a second: kept, of before while a newer one is made, or made for whoever asks and waits.",
            {"{{origin}}": f"sum by (origin) ({rate('forecaster_page_answers_total')})"},
            "reqps",
            12,
            nothing="nobody asks",
        ),
        lines(
            "Garbage collections",
            "In a second, by generation, of each process that serves the page.",
            {"{{instance}} {{generation}}": f"rate(python_gc_collections_total[$__rate_interval]) {OF_THE_PAGE}"},
            "short",
            8,
        ),
        lines(
            "Open files",
            "Of each process that serves the page.",
            {"{{instance}}": f"process_open_fds {OF_THE_PAGE}"},
            "short",
            8,
        ),
        bars(
            "Versions that answer",
            "Of the forecaster and of Python; two for a moment while one takes the place of another.",
            {"{{version}}, Python {{python}}": f"count by (version, python) ({query('forecaster_build_info')})"},
            "short",
            8,
        ),
        lines(
            "Seconds of a scrape",
            "Of each listener that tells of this pipeline.",
            {"{{instance}}": f"scrape_duration_seconds {SCRAPED}"},
            "s",
            12,
        ),
        lines(
            "Listeners up",
            "1 where Prometheus could read.",
            {"{{instance}}": f"up {SCRAPED}"},
            "short",
            12,
            runbook="page-down",
        ),
    ]
