"""Metric names with unit and meaning: stages of a night, metrics of a model, and Prometheus
metrics.

`MEASURES` is the one table of the product's own measures. A name of `OF_RUNS` is a key of the
ledger's `runs.measures`; a measure with labels is a mapping there, from the label's value to a
number.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Stage(NamedTuple):
    meaning: str
    # on two cores with 64 depots: estimate for the first night; later nights use measured times
    seconds: float


STAGES = {
    "ingest": Stage("sources into the lake", 2),
    "panel": Stage("dense arrays as of tonight", 1),
    "judge": Stage("evaluation of champion and canary against new actuals", 0),
    "preview": Stage("the prior's forecast, where there is no model yet", 0),
    "weigh": Stage("decision whether to train, with `training.when: worthwhile`", 0),
    "train": Stage("compile, where that is new, fit the GRU and calibrate it", 35),
    "backtest": Stage("replay the last days", 6),
    "gate": Stage("may it go out?", 0.1),
    "export": Stage("ONNX, and its parity with JAX", 12),
    "record": Stage("records for the registry", 4),
    "register": Stage("the run into MLflow", 8),
    "promote": Stage("the champion moves", 0.5),
    "predict": Stage("forecast on CPU and publish", 3),
    "tidy": Stage("removal of expired data", 0),
}


class Metric(NamedTuple):
    unit: str
    meaning: str


METRICS = {
    "mape": Metric("share", "mean absolute error as a share of the actual, over days with orders"),
    "wape": Metric("share", "sum of absolute errors over sum of actuals"),
    "mase": Metric("ratio", "mean absolute error over the in-sample seasonal-naive error, mean over depots"),
    "bias": Metric("share", "forecast minus actual, over actual: above zero is too high"),
    "wql": Metric("share", "weighted quantile loss, mean over levels"),
    "coverage": Metric("share", "actuals within the 80 % interval"),
    "width": Metric("share", "width of the 80 % interval over the actual"),
    "days": Metric("depot-days", "scored days"),
    "train_loss": Metric("log counts", "Huber quantile loss on the crops of an epoch"),
    "validation_loss": Metric("log counts", "the same on the validation days"),
    "learning_rate": Metric("1", "after the epoch"),
    "gradient_norm": Metric("1", "the largest of an epoch's steps and members, before clipping"),
    "compile_seconds": Metric("s", "of an epoch in XLA's compiler, or reading its cache"),
    "compile_misses": Metric("programs", "of an epoch, compiled because the cache did not have them"),
    "compile_hits": Metric("programs", "of an epoch, taken from the cache"),
    "depot_days_a_second": Metric("1/s", "read by the encoder in an epoch"),
    "parity": Metric("share", "largest relative difference between ONNX and JAX"),
}


class Measure(NamedTuple):
    """A measure and its Prometheus name, in base units; only counters end in `_total`."""

    prometheus: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()  # in addition to `pipeline`, which all have
    kind: Literal["gauge", "counter", "histogram"] = "gauge"

    @property
    def described(self) -> tuple[str, str, tuple[str, ...]]:
        """Name, help and labels, as the Prometheus client takes them."""
        return self.prometheus, f"{self.meaning} ({self.unit})", ("pipeline", *self.labels)


# Written by a run into its row in the ledger; Prometheus gets those of the last completed night.
OF_RUNS = {
    "compile_seconds": Measure(
        "forecaster_compile_duration_seconds", "s", "of the training, in XLA's compiler, or reading its cache"
    ),
    "compile_hits": Measure("forecaster_compile_cache_hits", "programs", "that the training took from the cache"),
    "compile_misses": Measure(
        "forecaster_compile_cache_misses", "programs", "that the training compiled, because the cache did not have them"
    ),
    "training_seconds": Measure(
        "forecaster_training_duration_seconds", "s", "spent by the training's process; absent where nothing was trained"
    ),
    "training_rows_per_second": Measure(
        "forecaster_training_rows_per_second", "1/s", "depot-days that the encoder read in the last epoch"
    ),
    "peak_memory_bytes": Measure(
        "forecaster_run_peak_memory_bytes", "bytes", "the most memory that a process of the night held", ("process",)
    ),
    "cpu_seconds": Measure(
        "forecaster_run_cpu_seconds", "s", "of processor, by a process of the night and all its threads", ("process",)
    ),
    "device_memory_peak_bytes": Measure(
        "forecaster_device_memory_peak_bytes", "bytes", "the most that training held on an accelerator", ("device",)
    ),
    "device_memory_limit_bytes": Measure(
        "forecaster_device_memory_limit_bytes", "bytes", "that training may hold on an accelerator", ("device",)
    ),
    "device_utilisation": Measure(
        "forecaster_device_utilisation_ratio", "share", "of the training in which an accelerator was busy", ("device",)
    ),
    "parity": Measure("forecaster_parity_ratio", "share", "largest relative difference between ONNX and JAX"),
    "rows": Measure("forecaster_rows", "rows", "of the sources, by what became of them", ("disposition",)),
    "depots": Measure("forecaster_run_depots", "depots", "that the run forecast, by tier", ("tier",)),
    "depots_drift_tested": Measure(
        "forecaster_depots_drift_tested", "depots", "with enough known actuals to measure drift"
    ),
    "depots_drifted": Measure(
        "forecaster_depots_drifted",
        "depots",
        "whose counts are unlike their forecasts, against their own past",
        ("direction",),
    ),
    "cities_drifted": Measure(
        "forecaster_cities_drifted", "cities", "whose depots together are unlike their forecasts", ("direction",)
    ),
    "network_drifted": Measure(
        "forecaster_network_drifted", "0 or 1", "whether all depots together are unlike their forecasts", ("direction",)
    ),
    "days_lacking": Measure(
        "forecaster_days_lacking_ratio", "share", "of depot-days in the last 28 days, unknown or closed", ("reason",)
    ),
    "days_lacking_usual": Measure(
        "forecaster_days_lacking_usual_ratio", "share", "of depot-days in the year before them", ("reason",)
    ),
    "covariates_drifted": Measure(
        "forecaster_covariates_drifted", "covariates", "whose last 28 days are unlike their whole past"
    ),
}

# Read from the ledger and the state folder.
OF_LEDGER = {
    "ledger_readable": Measure("forecaster_ledger_readable", "0 or 1", "whether the ledger could be read just now"),
    "published_at": Measure("forecaster_publication_timestamp_seconds", "s", "instant of the publication shown"),
    "cutoff": Measure(
        "forecaster_publication_cutoff_timestamp_seconds", "s", "end of the last day whose counts it knows"
    ),
    "tier": Measure("forecaster_publication_tier", "0 or 1", "model of the publication shown", ("tier",)),
    "depots_shown": Measure("forecaster_publication_depots", "depots", "of the publication shown, by tier", ("tier",)),
    "orders_forecast": Measure(
        "forecaster_publication_orders",
        "orders",
        "expected for the network, by days ahead: the median",
        ("ahead",),
    ),
    "nights_missing": Measure(
        "forecaster_nights_missing",
        "nights",
        "scheduled and without forecasts: the newest, and earlier ones",
        ("which",),
    ),
    "deadline": Measure("forecaster_night_deadline_timestamp_seconds", "s", "deadline of the newest scheduled night"),
    "runs": Measure("forecaster_runs_total", "runs", "that came to an end", ("kind", "outcome"), "counter"),
    "run_started_at": Measure("forecaster_run_start_timestamp_seconds", "s", "start of the active run", ("kind",)),
    "run_seconds": Measure("forecaster_run_duration_seconds", "s", "of the last that came to an end", ("kind",)),
    "run_usual_seconds": Measure(
        "forecaster_run_duration_usual_seconds", "s", "median of the fourteen before the last one", ("kind",)
    ),
    "stage_seconds": Measure("forecaster_stage_duration_seconds", "s", "of the last night, by stage", ("stage",)),
    "quarantined_rows": Measure("forecaster_quarantined_rows", "rows", "quarantined by the last night", ("rule",)),
    "admitted": Measure("forecaster_gate_admitted", "0 or 1", "gate verdict on the last night's model"),
    "score": Measure("forecaster_model_score", "as the metric", "on the last night's backtest", ("model", "metric")),
    "champion_since": Measure("forecaster_champion_timestamp_seconds", "s", "when the champion came to reign"),
    "realised_error": Measure(
        "forecaster_realised_error_ratio", "share", "WAPE of what was published", ("model", "weeks")
    ),
    "realised_bias": Measure(
        "forecaster_realised_bias_ratio", "share", "forecast minus actual, over actual", ("model", "weeks")
    ),
    "realised_coverage": Measure(
        "forecaster_realised_coverage_ratio", "share", "of actuals within the 80 % interval", ("model", "weeks")
    ),
    "roster_cost": Measure(
        "forecaster_roster_cost",
        "money",
        "of missing and idle drivers, over the last four weeks of which it is known, by way to roster",
        ("way",),
    ),
    "overrides": Measure("forecaster_overrides_active", "overrides", "of planners, for days still to come"),
    "keys_expire_at": Measure(
        "forecaster_trusted_keys_expiry_timestamp_seconds",
        "s",
        "end of this machine's signing key, or of the last trusted key if it does not sign",
    ),
    "registry_waiting": Measure("forecaster_registry_waiting_runs", "runs", "that MLflow has yet to be told"),
    "versions_changed": Measure(
        "forecaster_run_versions_changed",
        "0 or 1",
        "whether what a program is compiled for differs from the training before: a compile is then expected",
    ),
    "slo_budget_left": Measure(
        "forecaster_slo_budget_left_ratio", "share", "of an objective's error budget; below 0 it is missed", ("slo",)
    ),
    "slo_burn_rate": Measure(
        "forecaster_slo_burn_rate", "1", "of the last week: 1 spends exactly the budget of the whole window", ("slo",)
    ),
    "promotions_frozen": Measure(
        "forecaster_promotions_frozen",
        "0 or 1",
        "whether nights promote nothing because an accuracy objective is missed",
    ),
    "canary": Measure("forecaster_canary", "0 or 1", "state of the newest canary", ("state",)),
    "canary_days": Measure("forecaster_canary_days", "days", "on which the newest canary was compared"),
    "canaries": Measure("forecaster_canaries_total", "canaries", "that have ended, by how", ("state",), "counter"),
    "deploy_window": Measure(
        "forecaster_deploy_window", "0 or 1", "within half an hour of a deployment, when compiles are expected"
    ),
}

# Counted by the page's process.
OF_PAGE = {
    "requests": Measure(
        "forecaster_http_requests_total", "requests", "answered by the page", ("route", "method", "code"), "counter"
    ),
    "request_seconds": Measure(
        "forecaster_http_request_duration_seconds", "s", "to the end of an answer", ("route",), "histogram"
    ),
    "in_progress": Measure("forecaster_http_requests_in_progress", "requests", "that wait for their answer"),
    "answers": Measure(
        "forecaster_page_answers_total",
        "answers",
        "by origin: kept, earlier, made, or copy (from memory while the ledger is away)",
        ("origin",),
        "counter",
    ),
    "refused": Measure("forecaster_page_refused_total", "requests", "turned away", ("reason",), "counter"),
    "build": Measure("forecaster_build_info", "1", "which versions answer", ("version", "python")),
}

# Counted by the process of `forecaster infer`.
OF_INFERENCE = {
    "inference_requests": Measure(
        "forecaster_inference_requests_total",
        "requests",
        "answered by the inference service; cold: that waited for a model to be loaded",
        ("route", "code", "start"),
        "counter",
    ),
    "inference_seconds": Measure(
        "forecaster_inference_request_duration_seconds", "s", "to the answer", ("route", "start"), "histogram"
    ),
    "inference_queue_seconds": Measure(
        "forecaster_inference_queue_duration_seconds", "s", "that a request waited to be computed", (), "histogram"
    ),
    "inference_compute_seconds": Measure(
        "forecaster_inference_compute_duration_seconds", "s", "of a batch in the graph", (), "histogram"
    ),
    "inference_batch_rows": Measure("forecaster_inference_batch_rows", "rows", "of a batch", (), "histogram"),
    "inference_batches": Measure(
        "forecaster_inference_batches_total",
        "batches",
        "by why they went: full, nothing else computed, the oldest had waited long enough, or the server was ending",
        ("why",),
        "counter",
    ),
    "inference_queue_rows": Measure("forecaster_inference_queue_rows", "rows", "that wait to be computed"),
    "inference_queue_limit": Measure("forecaster_inference_queue_limit_rows", "rows", "that may wait, of one model"),
    "inference_refused": Measure(
        "forecaster_inference_refused_total",
        "requests",
        "turned away before they were computed",
        ("reason",),
        "counter",
    ),
    "inference_model": Measure(
        "forecaster_inference_model_timestamp_seconds", "s", "since when the champion is served", ("version",)
    ),
    "inference_model_current": Measure(
        "forecaster_inference_model_current",
        "0 or 1",
        "0 where the ledger names another champion than the one that is served, or cannot be read",
    ),
    "inference_load_seconds": Measure(
        "forecaster_inference_load_duration_seconds",
        "s",
        "until a bundle was verified and warm, or refused",
        ("outcome",),
        "histogram",
    ),
    "inference_ready": Measure("forecaster_inference_ready", "0 or 1", "whether requests are to be sent here"),
}

MEASURES = {**OF_RUNS, **OF_LEDGER, **OF_PAGE, **OF_INFERENCE}
