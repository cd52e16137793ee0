"""Whole nightly runs end to end, with a small model: Delta lake, Prefect, MLflow, ONNX, ledger and
page."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlalchemy import create_engine, text

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.lake import Lake
from forecaster.ledger import run_totals
from forecaster.ledger.records import Run
from forecaster.ledger.store import Ledger
from tests import prefect_home
from tests.e2e.on_call import missing_night_is_told
from tests.e2e.panels import all_but_devices_are_filled
from tests.small_fleet import Outcome, forecaster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]  # two runs, on a busy machine as well

ROOT = Path(__file__).resolve().parents[2]
OPTIMIZED = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "false"}  # compiler options of a run outside of tests
PAST = 9  # nights before the first, published with it
SMALL = (
    (r"model: \{.*\}", "model: {layers: 1, hidden: 8, boosted: false}"),
    (r"training: \{.*\}", "training: {epochs: 4, members: 1, learning_rate: 1.0e-2}"),
    # These runs test the pipeline, not the quality of the model.
    (r"gate: \{.*\}", "gate: {beat: [seasonal_naive], coverage: [0.5, 1.0], max_bias: 0.2}"),
)


def shrink(file: Path) -> None:
    content = file.read_text("utf-8")
    for pattern, small in SMALL:
        content, count = re.subn(pattern, small, content)
        assert count == 1, pattern
    file.write_text(content, "utf-8")


@dataclass(frozen=True)
class Nights:
    """The same night of the sample, run twice: by Prefect with the past nights, and without either."""

    file: Path
    spec: Spec
    first: Outcome
    second: Outcome
    versions: tuple[dict[str, int], dict[str, int]]
    after_first: Path  # copy of all files between the two

    def rows(self, kind: str = "night") -> list[Run]:
        """Run rows of a kind, newest first."""
        with Ledger.open_reader(self.spec.ledger_url) as ledger:
            return [run for run in ledger.runs(self.spec.name, limit=50) if run.kind == kind]


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    folder = tmp_path_factory.mktemp("night") / "fleet"
    assert forecaster("init", folder, "--end", "2026-10-31").code == 0
    prefect_home.put_into(folder / "var")
    file = folder / "pipeline.yaml"
    shrink(file)
    spec = load(file)
    first = forecaster("run", file, "--as-of", "2026-11-01", "--past", str(PAST), **OPTIMIZED)
    before = Lake(spec.lake_url).versions()
    shutil.copytree(folder, folder.with_name("after-first"))
    second = forecaster("run", file, "--plain", "--as-of", "2026-11-01", **OPTIMIZED)
    versions = (before, Lake(spec.lake_url).versions())
    return Nights(file, spec, first, second, versions, folder.with_name("after-first") / file.name)


def published(spec: Spec) -> list[dict[str, tuple[tuple[float, ...], ...]]]:
    """Quantiles of all kept publications, oldest first."""
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        return [
            {depot.depot_id: tuple(day.quantiles for day in depot.days) for depot in ledger.depots(number)}
            for number in range(1, head.publication_id + 1)
        ]


def test_run_publishes_seven_days_for_every_depot_in_business(nights: Nights) -> None:
    assert nights.first.code == 0, nights.first.err
    assert "published in" in nights.first.err
    depots = published(load(nights.after_first))[-1]
    assert len(depots) == 63  # one of the 64 is permanently closed
    assert {len(days) for days in depots.values()} == {7}
    with Ledger.open_reader(nights.spec.ledger_url) as ledger:
        head = ledger.current(nights.spec.name)
        assert head is not None
        assert head.tier == "fresh"
        assert str(head.cutoff) == "2026-10-31"


def test_leaderboard_compares_all_models_on_the_same_days_and_publishes_nothing(nights: Nights) -> None:
    before = published(nights.spec)
    process = forecaster("backtest", nights.file, "--as-of", "2026-11-01", "--json")
    assert process.code == 0, process.err
    leaderboard = json.loads(process.out)
    models = [model["model"] for model in leaderboard["models"]]
    assert sorted(models) == ["candidate", "champion", "seasonal_naive", "seasonal_window_average"]
    assert leaderboard["days"] == "2026-10-02 to 2026-10-31"
    values = [model["wape"] for model in leaderboard["models"]]
    assert values == sorted(values)
    assert leaderboard["verdict"].startswith(f"{models[0]} is ")
    assert len({model["days"] for model in leaderboard["models"]}) == 1
    assert published(nights.spec) == before


def test_run_prints_the_addresses_of_page_run_and_report(nights: Nights) -> None:
    assert f"forecaster serve {nights.file}" in nights.first.out
    assert "http://127.0.0.1:8000" in nights.first.out
    assert re.search(r"http://127.0.0.1:5000/#/experiments/1/runs\?workflowType=machine_learning", nights.first.out)
    [report] = re.findall(r"Its report: file://(\S+)", nights.first.out)
    assert Path(report).read_text("utf-8").startswith("<!doctype html>")


def test_run_row_records_inputs_and_stages_of_the_run(nights: Nights) -> None:
    assert [run.outcome for run in nights.rows("backfill")] == ["published"] * (PAST + 1)
    runs = nights.rows()
    assert [run.outcome for run in runs] == ["published", "published"]
    run = runs[-1]
    assert run.spec_digest == nights.spec.digest
    assert run.verdict is not None
    assert run.verdict["admitted"] is True
    assert {"ingest", "panel", "train", "backtest", "gate", "export", "record", "promote", "predict"} <= set(
        run.timings
    )
    assert {finding["rule"] for finding in run.findings} >= {
        "count_form",
        "count_negative",
        "day_not_over",
        "duplicate_row",
        "unknown_depot",
    }


def test_rejected_rows_are_quarantined_with_their_rule(nights: Nights) -> None:
    quarantined = Lake(nights.spec.lake_url).read("quarantine")
    counts = {row["values"]: row["counts"] for row in pc.value_counts(quarantined["rule"]).to_pylist()}
    assert counts == {
        "count_form": 1,
        "count_negative": 1,
        "day_not_over": 1,
        "duplicate_row": 12,
        "unknown_depot": 2,
    }
    [negative] = quarantined.filter(pc.equal(quarantined["rule"], "count_negative")).to_pylist()
    assert float(json.loads(negative["content"])["orders"]) < 0


def test_running_twice_appends_no_reading_and_publishes_the_same_values(nights: Nights) -> None:
    assert nights.second.code == 0, nights.second.err
    before, after = nights.versions
    for table in ("demand", "quarantine", "depots", "events"):
        assert after[table] == before[table], table
    assert published(load(nights.after_first))[-1] == published(nights.spec)[-1]
    assert "0 accepted, 34,499 unchanged, 17 quarantined" in nights.second.err


def test_every_run_appends_to_the_archive_in_one_commit(nights: Nights) -> None:
    archive = Lake(nights.spec.lake_url).read("forecasts")
    of_nights = archive.filter(pc.is_in(archive["run_id"], pa.array([run.run_id for run in nights.rows()])))
    assert len(set(of_nights["run_id"].to_pylist())) == 2
    assert of_nights.num_rows == 2 * 64 * 7
    assert nights.versions[1]["forecasts"] == nights.versions[0]["forecasts"] + 1


def test_backtest_stores_forecast_and_actual_of_every_held_out_day(nights: Nights) -> None:
    scores = Lake(nights.spec.lake_url).read("scores")
    models = {"candidate", "seasonal_naive", "seasonal_window_average", "champion"}
    assert set(scores["model"].to_pylist()) == models
    candidate = scores.filter(pc.equal(scores["model"], "candidate"))
    scored = candidate.filter(pc.is_valid(candidate["actual"]))
    assert len(set(scored["target_date"].to_pylist())) == 30


def test_registry_contains_the_champion_and_its_metrics(nights: Nights) -> None:
    engine = create_engine(nights.spec.registry_url)
    with engine.connect() as connection:
        aliases = dict(connection.execute(text("select alias, version from registered_model_aliases")).all())
        versions = connection.execute(text("select count(*) from model_versions")).scalar_one()
        logged = {row[0] for row in connection.execute(text("select distinct key from latest_metrics"))}
        tags = dict(
            connection.execute(
                text("select key, value from tags where run_uuid = (select min(run_id) from model_versions)")
            ).all()
        )
        params = {row[0] for row in connection.execute(text("select distinct key from params"))}
    engine.dispose()
    assert aliases == {"champion": 1, "challenger": 1}
    assert versions == 1  # the second run made the same model
    curves = {"train_loss", "validation_loss", "learning_rate", "depot_days_a_second"}
    headline = {name for name in logged - curves if not name.startswith("system/")}
    assert {"candidate/mape", "candidate/wape", "seasonal_naive/wape"} <= headline
    assert curves <= logged
    assert "system/cpu_utilization_percentage" in logged
    assert len(headline) <= 8
    assert (tags["champion"], tags["tier"]) == ("reigns", "fresh")
    assert tags["mlflow.note.content"].startswith("**Admitted.**")
    assert {"training.epochs", "model.hidden", "trained.epochs", "trained.members"} <= params
    artifacts = nights.spec.paths.mlflow_artifacts
    specs = [json.loads(file.read_text("utf-8")) for file in artifacts.rglob("spec.json")]
    assert nights.spec.model_dump(mode="json") in specs
    pictures = {"forecasts.png", "calibration.png", "errors.png", "candidate_against_naive.png"}
    assert pictures < {file.name for file in artifacts.rglob("*.png")}
    parts = json.loads(next(artifacts.rglob("parts.json")).read_text("utf-8"))
    labels = {tuple(row[1:3]) for row in parts["data"]}
    assert parts["columns"][:3] == ["model", "part", "label"]
    assert {("city", "Boston"), ("kind of day", "holiday"), ("sums of depots", "network")} <= labels
    reports = [file.read_text("utf-8") for file in artifacts.rglob("report.html")]
    assert (nights.spec.paths.run_report).read_text("utf-8") in reports


def test_as_of_uses_only_data_recorded_by_then(nights: Nights) -> None:
    process = forecaster("predict", nights.file, "--as-of", "2026-09-15", "--json")
    assert process.code == 0, process.err
    assert json.loads(process.out)["cutoff"] == "2026-09-14"
    process = forecaster("predict", nights.file, "--as-of", "2020-01-01")
    assert process.code == 4
    assert "2020" in process.err
    assert "Traceback" not in process.err


def test_run_measures_itself_and_exposes_metrics(nights: Nights) -> None:
    second, first = nights.rows()
    assert first.measures is not None
    assert second.measures is not None
    for measures in (first.measures, second.measures):
        assert measures["depots"] == {"fresh": 63}
        assert 1e8 < measures["peak_memory_bytes"]["predict"] < measures["peak_memory_bytes"]["night"]
        assert measures["cpu_seconds"].keys() >= {"night", "predict"}
        assert measures["parity"] < 1e-3
    assert first.measures["compile_hits"] + first.measures["compile_misses"] > 0
    assert 0 < first.measures["compile_seconds"] < first.measures["training_seconds"] < first.timings["train"]
    assert first.measures["peak_memory_bytes"]["training"] > 1e8
    remembered = ("training_seconds", "compile_seconds", "compile_misses", "training_rows_per_second")
    assert [name for name in remembered if name in second.measures] == []  # the second run had none
    assert "training" not in second.measures["cpu_seconds"]
    process = forecaster("metrics", nights.file)
    assert process.code == 0, process.err
    labels = f'pipeline="{nights.spec.name}"'
    assert re.search(f'^forecaster_run_peak_memory_bytes{{{labels},process="predict"}} ', process.out, re.MULTILINE)
    assert f'forecaster_runs_total{{kind="night",outcome="published",{labels}}} 2.0\n' in process.out
    assert "forecaster_compile_cache_misses" not in process.out


def test_missing_night_alerts_on_call(nights: Nights, tmp_path: Path) -> None:
    """Run, page, Prometheus, rule, Alertmanager and webhook, all real; two nights later, both
    missing."""
    # The run took place today, as of then; the deployment makes it an installation of those days.
    with Ledger.open(nights.spec.ledger_url) as ledger, ledger.transaction() as connection:
        run_totals.open_deploy_window(connection, nights.spec.name, datetime(2026, 11, 1, 12, tzinfo=UTC))
    missing_night_is_told(nights.file, "2026-11-03 12:00:00", tmp_path)


def test_every_dashboard_panel_has_data_after_a_run(nights: Nights, tmp_path: Path) -> None:
    """With the run that trained, preceded by another one with the same measures, and by past nights
    with known actuals."""
    spec = load(nights.after_first)
    with Ledger.open(spec.ledger_url) as ledger:
        trained = next(run for run in ledger.runs(spec.name, limit=50) if run.kind == "night")
        begun, ended = (instant - timedelta(days=1) for instant in (trained.started_at, trained.finished_at))
        ledger.start_run("before", pipeline=spec.name, as_of=begun, spec_digest=trained.spec_digest, at=begun)
        ledger.note("before", timings=trained.timings, measures=trained.measures)
        ledger.finish_run("before", "published", 0, at=ended)
    all_but_devices_are_filled(nights.after_first, "2026-11-01 16:00:00", tmp_path)


def test_prediction_imports_no_training_packages(nights: Nights) -> None:
    script = (
        "import sys; from datetime import datetime, UTC; from forecaster.config import load; "
        "from forecaster.publishing.predict import predict; "
        f"predict(load({str(nights.file)!r}), as_of=datetime(2026, 11, 1, 8, tzinfo=UTC), bundle=None, "
        "run_id=None, note=None); "
        "print(sorted({'jax', 'flax', 'optax', 'prefect', 'mlflow', 'torch'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.stdout.strip() == "[]", process.stderr


def test_page_shows_the_published_forecasts(nights: Nights) -> None:
    app = create_app(nights.spec.ledger_url)
    quantiles = published(nights.spec)[-1]["NYC-01"][0]
    middle = round(quantiles[len(quantiles) // 2])

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.get("/depot/NYC-01")

    page = asyncio.run(get())
    assert page.status_code == 200
    assert re.search(rf">\s*{middle}\s*<", page.text)


def test_missing_source_is_reported_in_a_sentence(tmp_path: Path) -> None:
    prefect_home.put_into(tmp_path / "var")
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: empty\ndemand: {source: {kind: csv, path: nothing.csv}}\n")
    process = forecaster("run", file, "--plain")
    assert process.code == 4
    assert "nothing.csv" in process.err
    assert "Traceback" not in process.err
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        [run] = ledger.runs()
    assert (run.outcome, run.exit_code) == ("no_data", 4)


@pytest.mark.long
def test_favorita_runs_end_to_end(datasets: Path, tmp_path: Path) -> None:
    content = (ROOT / "data/real/favorita_transactions.yaml").read_text("utf-8")
    content = re.sub(r"(?m)^state: .*$", "state: var", content)
    content = re.sub(r"(?m)^training: .*$", "", content)
    file = tmp_path / "favorita.yaml"
    model = "model: {hidden: 8, boosted: false}\ntraining: {epochs: 2, members: 1, learning_rate: 1.0e-2}\n"
    file.write_text(f"{content}\n{model}")
    process = forecaster("run", file, "--plain", "--as-of", "2017-08-16", FORECASTER_DATASETS=str(datasets))
    assert process.code == 0, process.err
    spec = load(file)
    [depots] = published(spec)
    assert len(depots) == 54
    with Ledger.open_reader(spec.ledger_url) as ledger:
        [run] = ledger.runs()
        head = ledger.current(spec.name)
    assert run.verdict is not None
    metrics = run.verdict["compared"]
    assert metrics["candidate"]["wape"] < metrics["seasonal_naive"]["wape"]
    assert head is not None
    assert str(head.cutoff) == "2017-08-15"
    assert np.isfinite([q for days in depots.values() for day in days for q in day]).all()


def test_missing_datasets_are_reported_with_the_required_columns(tmp_path: Path) -> None:
    prefect_home.put_into(tmp_path / "var")
    file = tmp_path / "favorita.yaml"
    content = (ROOT / "data/real/favorita_transactions.yaml").read_text("utf-8")
    file.write_text(re.sub(r"(?m)^state: .*$", "state: var", content))
    process = forecaster("run", file, "--plain", FORECASTER_DATASETS=str(tmp_path / "nowhere"))
    assert process.code == 4
    for word in ("FORECASTER_DATASETS", "depot_id", "date", "demand"):
        assert word in process.err
