"""A forecast comes from a trusted bundle, has the required notes, and can be reproduced."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.publishing.forecast import choose, forecast, is_usable, of_prior
from forecaster.publishing.publish import publish
from forecaster.serving import bundle, keys
from forecaster.serving.bundle import MANIFEST, MODEL, SEAL, WEIGHTS
from forecaster.training import export
from tests import fleets
from tests.calls import Call
from tests.fleets import AS_OF, Fleet
from tests.graphs import signer
from tests.panels import quickly

ROOT = Path(__file__).resolve().parents[2]


def predicted(call: Call, fleet: Fleet, *more: object) -> tuple[int, dict[str, object], str]:
    code, out, err = call("predict", fleet.file, "--as-of", AS_OF.isoformat(), "--json", *more)
    return code, json.loads(out), err


def test_fallback_note_is_printed_once_on_standard_error(call: Call, fleet: Fleet) -> None:
    (fleet.bundle / WEIGHTS).write_bytes(b"damaged")
    code, out, err = call("predict", fleet.file, "--as-of", AS_OF.isoformat())
    assert code == 3
    assert re.fullmatch(r"\d+ depots from seasonal naive, tier fallback, cutoff \S+, as publication 1\n", out)
    [line] = err.splitlines()
    assert line.startswith(
        f"forecaster: degraded: Seasonal-naive fallback: bundle {fleet.bundle}: {WEIGHTS} has sha256"
    )
    assert err.count("Seasonal-naive fallback") == 1


def note(call: Call, fleet: Fleet, *more: object) -> str:
    code, output, err = predicted(call, fleet, *more)
    assert (code, output["tier"]) == (3, "fallback")
    assert f"forecaster: degraded: {output['note']}" in err
    return str(output["note"])


def test_same_candidate_gives_identical_bundle_folder_and_file(tmp_path: Path) -> None:
    fleet = fleets.build_own_fleet(tmp_path / "own")
    knowledge = read_as_of(fleet.spec, as_of=AS_OF)
    panel = panels.build(knowledge, fleet.spec)
    other = fleet.spec.model_copy()
    other._folder = tmp_path / "elsewhere"
    shutil.copytree(fleet.spec.paths.keys, other.paths.keys)
    with quickly():
        again = export.to_bundle(fleets.untrained(panel), panel, {}, knowledge, other).folder
    for name in sorted(bundle.FILES):
        assert (again / name).read_bytes() == (fleet.bundle / name).read_bytes(), name
    packed = f"{again.name}.tar.zst"
    assert (again.parent / packed).read_bytes() == (fleet.bundle.parent / packed).read_bytes()


def test_manifest_describes_the_model_and_its_inputs(fleet: Fleet) -> None:
    manifest = bundle.read(fleet.bundle, keys.trusted_keys(fleet.spec.paths.folder)).manifest
    assert manifest["spec_digest"] == fleet.spec.digest
    assert manifest["lake_versions"] == {"demand": 0, "depots": 0, "events": -1}
    assert manifest["depots"] == ["A", "B", "C", "D"]
    assert manifest["encoding"]["covariates"] == ["promo"]
    assert manifest["units"]["demand"] == "orders a local calendar day"
    assert manifest["opset"] == 21
    assert manifest["training"] == {"epochs": 0}
    assert set(manifest["files"]) == {MODEL, WEIGHTS}
    assert {"scores", "cutoff", "levels", "inputs", "calendar", "horizon", "lookback"} <= set(manifest)


def test_bundle_folder_and_file_give_the_same_forecast(fleet: Fleet, call: Call) -> None:
    outputs = [
        predicted(call, fleet),
        predicted(call, fleet, "--bundle", fleet.bundle),
        predicted(call, fleet, "--bundle", fleet.bundle.with_name(f"{fleet.bundle.name}.tar.zst")),
    ]
    assert [(code, output["tier"], output["bundle_digest"]) for code, output, _ in outputs] == [
        (0, "champion", fleet.bundle.name)
    ] * 3
    rows = Lake(fleet.spec.lake_url).read("forecasts")
    assert set(rows["bundle"].to_pylist()) == {fleet.bundle.name}
    runs: dict[str, list[list[float]]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["run_id"], row["depot_id"], row["target_date"])):
        runs.setdefault(row["run_id"], []).append(row["quantiles"])
    as_champion, as_folder, as_file = runs.values()
    assert as_champion == as_folder == as_file


def test_forecast_is_written_as_csv_parquet_and_json(fleet: Fleet, call: Call) -> None:
    command = [sys.executable, "-m", "forecaster", "predict", str(fleet.file), "--as-of", AS_OF.isoformat(), "--out"]
    process = {
        kind: subprocess.run([*command, kind], capture_output=True, check=True, cwd=ROOT)
        for kind in ("csv", "parquet", "json")
    }
    rows = json.loads(process["json"].stdout)
    assert len(rows) == 12
    assert [rows[0][name] for name in ("depot_id", "target_date", "horizon", "open")] == ["A", "2024-04-10", 1, True]
    assert rows[0]["q0.1"] <= rows[0]["q0.5"] <= rows[0]["q0.9"]
    assert {(row["tier"], row["bundle"], row["cutoff"]) for row in rows} == {
        ("champion", fleet.bundle.name, "2024-04-09")
    }
    table = pq.read_table(io.BytesIO(process["parquet"].stdout))
    assert table["q0.5"].to_pylist() == [row["q0.5"] for row in rows]
    header, first = process["csv"].stdout.decode().splitlines()[:2]
    assert header.startswith('"depot_id","target_date","horizon","open","q0.1","q0.5","q0.9"')
    assert first.startswith('"A",2024-04-10,1,true,')
    assert b"publication" in process["csv"].stderr
    assert call("predict", fleet.file, "--out", "csv", "--json")[0] == 2


def changed(name: str) -> Callable[[Fleet], None]:
    def change(fleet: Fleet) -> None:
        content = bytearray((fleet.bundle / name).read_bytes())
        content[len(content) // 2] ^= 1
        (fleet.bundle / name).write_bytes(content)

    return change


def missing(fleet: Fleet) -> None:
    (fleet.bundle / WEIGHTS).unlink()


def further(fleet: Fleet) -> None:
    (fleet.bundle / "weights.bin").write_bytes(b"")


def linked(fleet: Fleet) -> None:
    (fleet.bundle / MODEL).rename(fleet.bundle.parent / "outside.onnx")
    (fleet.bundle / MODEL).symlink_to(fleet.bundle.parent / "outside.onnx")


def foreign(fleet: Fleet) -> None:
    (fleet.bundle / SEAL).write_bytes(signer(9).seal((fleet.bundle / MANIFEST).read_bytes()))


def distrusted(fleet: Fleet) -> None:
    (fleet.spec.paths.keys / "signing.pub.pem").unlink()


def gone(fleet: Fleet) -> None:
    shutil.rmtree(fleet.bundle)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed(MODEL), "model.onnx has sha256"),
        (changed(WEIGHTS), "weights.npz has sha256"),
        (changed(MANIFEST), "manifest.json has digest"),
        (changed(SEAL), "does not fit what was signed"),
        (missing, "weights.npz is missing"),
        (further, "weights.bin does not belong there"),
        (linked, "model.onnx is a link"),
        (foreign, "which is not trusted"),
        (distrusted, "no key to verify bundles with"),
        (gone, "No such file"),
    ],
    ids=["model", "weights", "manifest", "seal", "missing", "further", "linked", "foreign", "distrusted", "gone"],
)
def test_damaged_bundle_publishes_the_fallback_with_the_reason(
    damage: Callable[[Fleet], None], message: str, fleet: Fleet, call: Call
) -> None:
    damage(fleet)
    assert message in note(call, fleet)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        head = ledger.current("small")
        assert head is not None
        assert (head.tier, head.bundle_digest) == ("fallback", None)
        readers = (
            "The numbers repeat the same weekdays of earlier weeks: "
            "the model cannot be used at present; the next night looks again."
        )
        assert head.note == readers  # readers see no details of the fault, which only operators need
        assert len(ledger.depots(head.publication_id)) == 4


def test_standby_prior_replaces_an_unusable_champion(fleet: Fleet) -> None:
    spec, knowledge = fleet.spec, read_as_of(fleet.spec, as_of=AS_OF)
    with Ledger.open(spec.ledger_url) as ledger:
        for run_id in ("night", "another"):
            ledger.start_run(run_id, pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="night", bundle_digest="0" * 16, by="gate", reason="")
        champion = choose(spec, ledger)
        assert (champion.standby, forecast(spec, champion, knowledge).choice.tier) == (None, "fallback")
        publish(spec, of_prior(fleet.bundle), as_of=AS_OF, run_id="night")  # as a preview does
        champion, another_night = choose(spec, ledger), choose(spec, ledger, promoted_by="another")
    assert (champion.tier, champion.standby) == ("champion", fleet.bundle)
    assert another_night.standby is None
    result = forecast(spec, champion, knowledge)
    assert (result.choice.tier, result.digest) == ("prior", fleet.bundle.name)
    assert result.notes[0].text.startswith("The prior forecasts: bundle ")
    assert "No such file" in result.notes[0].text
    changed(MODEL)(fleet)  # the prior's bundle is damaged, too
    assert forecast(spec, champion, knowledge).choice.tier == "fallback"
    assert not is_usable(spec, fleet.bundle)


@pytest.mark.parametrize(
    ("domain", "message"),
    [("", "a tensor's data lie in another file"), ("com.microsoft", "of the domain 'com.microsoft'")],
)
def test_rejects_graphs_with_external_references_even_if_signed(
    domain: str, message: str, fleet: Fleet, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load_model_from_string((fleet.bundle / MODEL).read_bytes())
    if domain:
        model.graph.node[0].domain = domain
    else:
        model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    about = json.loads((fleet.bundle / MANIFEST).read_text("utf-8"))
    with monkeypatch.context() as unseen:
        unseen.setattr("forecaster.serving.onnx_checks.inspect", lambda model: None)
        with np.load(fleet.bundle / WEIGHTS, allow_pickle=False) as weights:
            bad = bundle.write(
                fleet.bundle.parent, model.SerializeToString(), weights, about, keys.signer(fleet.spec.paths.folder)
            )
    code, _, err = call("predict", fleet.file, "--as-of", AS_OF.isoformat(), "--bundle", bad)
    assert (code, message in err) == (2, True)


def test_rejects_history_older_than_max_age(fleet: Fleet, call: Call) -> None:
    code, _, err = call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=6)).isoformat())
    assert code == 4
    assert "the last reading is that of depot 'A' on 2024-04-09, 6 days before the last complete day" in err
    assert "wanted at most 5 (demand.rules.max_age_days)" in err
    assert call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=5)).isoformat())[0] == 0


def test_stopped_feed_is_reported(fleet: Fleet, call: Call) -> None:
    _, out, _ = call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=3)).isoformat())
    assert "The newest reading is of" not in out
    _, out, _ = call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=4)).isoformat())
    sentence = "The newest reading is of 2024-04-09, 4 days before the last complete day; wanted at most 3"
    assert sentence in out
    assert "All forecast days are over." in out


def test_silent_depot_is_named(fleet: Fleet, call: Call) -> None:
    fleets.fill(fleet.spec, fleets.counts("ABC", 112, 100), fleets.CITIES, now=AS_OF + timedelta(days=12))
    code, out, err = call("predict", fleet.file, "--as-of", (AS_OF + timedelta(days=12)).isoformat())
    assert (code, err) == (0, "")
    assert "D (2024-04-09): the last reading is more than 5 days older than the cutoff." in out


def test_unknown_depots_start_cold_with_a_note(fleet: Fleet, call: Call) -> None:
    fleets.fill(fleet.spec, fleets.counts("E", first=97), {**fleets.CITIES, "E": "Ulm", "F": ""})
    code, output, _ = predicted(call, fleet)
    assert (code, output["depots"]) == (0, 6)
    assert "Depot E is a cold start: the model was not trained on it." in str(output["note"])
    assert "Depot F got the seasonal naive forecast" in str(output["note"])
    assert "no static attribute is known" in str(output["note"])
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        head = ledger.current("small")
        assert head is not None
        days_of = {depot.depot_id: depot.days for depot in ledger.depots(head.publication_id)}
    assert all(day.quantiles[1] > 10 for depot in "EF" for day in days_of[depot])


def last_run(fleet: Fleet) -> str:
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        return next(run.run_id for run in ledger.runs("small") if run.run_id != "first")


def test_replay_reproduces_every_published_value(fleet: Fleet, call: Call) -> None:
    assert predicted(call, fleet)[0] == 0
    run = last_run(fleet)
    before = len(Lake(fleet.spec.lake_url).read("forecasts"))
    # Later corrections of the same days, recorded as if known then, are not part of what the run
    # read.
    restated = [row.rsplit(",", 2)[0] + ",90,0" for row in fleets.counts("AB")]
    fleets.fill(fleet.spec, restated, fleets.CITIES)
    code, out, _ = call("replay", fleet.file, run, "--verify")
    assert (code, f"{run}: 4 depots from {fleet.bundle.name}" in out) == (0, True)
    assert "all 72 values are the published ones (largest relative difference 0.0e+00)" in out
    assert len(Lake(fleet.spec.lake_url).read("forecasts")) == before


def test_replay_reproduces_a_fallback(fleet: Fleet, call: Call) -> None:
    gone(fleet)
    note(call, fleet)
    code, out, _ = call("replay", fleet.file, last_run(fleet), "--verify")
    assert (code, "from seasonal naive" in out, "all 72 values" in out) == (0, True, True)


def test_replay_names_differing_values_by_depot_and_day(fleet: Fleet, call: Call) -> None:
    predicted(call, fleet)
    lake, run = Lake(fleet.spec.lake_url), last_run(fleet)
    rows = lake.read("forecasts").to_pylist()
    for row in rows:
        row["recorded_at"] += timedelta(seconds=1)
        if (row["depot_id"], row["horizon"]) == ("C", 2):
            row["quantiles"][1] += 1
    lake.append("forecasts", pa.Table.from_pylist(rows, lake.read("forecasts").schema))
    code, out, _ = call("replay", fleet.file, run, "--verify")
    assert code == 1
    assert "1 of 72 values differ" in out
    assert "depot 'C', 2024-04-11: " in out
    assert call("replay", fleet.file, run)[0] == 0


def test_replay_reports_changed_files(fleet: Fleet, call: Call) -> None:
    predicted(call, fleet)
    run = last_run(fleet)
    fleet.file.write_text(fleet.file.read_text("utf-8") + "backtest: {days: 9}\n", "utf-8")
    assert "the pipeline file has changed since" in call("replay", fleet.file, run)[1]
    changed(MODEL)(fleet)
    code, out, _ = call("replay", fleet.file, run, "--verify")
    assert code == 1
    assert "model.onnx has sha256" in out
    assert call("replay", fleet.file, "nobody")[0] == 2
    assert "has no forecast in the archive" in call("replay", fleet.file, "first")[2]


BASE_ONLY = """
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NOT_THERE:
            raise ModuleNotFoundError(f"{name} is not in the base install")

sys.meta_path.insert(0, Wall())
from forecaster.cli.app import main
sys.argv = ["forecaster", *sys.argv[1:]]
try:
    main()
finally:
    assert not NOT_THERE & {name.partition(".")[0] for name in sys.modules}
"""
EXTRAS = {"jax", "jaxlib", "flax", "optax", "orbax", "jax2onnx", "onnx", "jaxtyping", "mlflow", "prefect", "matplotlib"}
EXTRAS |= {"fastapi", "uvicorn", "jinja2", "lightgbm", "prophet", "statsforecast", "scipy", "sklearn", "torch", "moto"}
SOURCES = {"fsspec", "pandera"}  # in the base install; needed only to read sources
STAFFED = """
staffing:
  orders_per_driver: 20
  cost_short: 38
  cost_idle: 22
  shifts: [{name: day, start: "09:00", end: "17:00", share: 1}]
  people: [{name: full-time, per_depot: 3}]
"""


def test_a_machine_with_bundle_lake_and_base_install_predicts(fleet: Fleet, tmp_path: Path) -> None:
    """Without sources, signing key, and packages for training, orchestration or reading sources;
    weeks of people are planned anyway."""
    with Path(fleet.file).open("a", encoding="utf-8") as pipeline:
        pipeline.write(STAFFED)
    packed = shutil.move(fleet.bundle.with_name(f"{fleet.bundle.name}.tar.zst"), tmp_path)
    public = shutil.move(fleet.spec.paths.keys / "signing.pub.pem", tmp_path)
    shutil.rmtree(fleet.bundle.parent)
    shutil.rmtree(fleet.spec.paths.keys)
    (fleet.spec.paths.ledger).unlink()
    (fleet.spec.folder / "demand.csv").unlink()
    code = f"NOT_THERE = {EXTRAS | SOURCES!r}\n{BASE_ONLY}"
    process = subprocess.run(
        [sys.executable, "-c", code, "predict", fleet.file, "--bundle", packed, "--as-of", AS_OF.isoformat()],
        cwd=ROOT,
        env={**os.environ, keys.TRUSTED: str(public)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert f"4 depots from small {fleet.bundle.name}, tier champion, cutoff 2024-04-09" in process.stdout


def test_replay_is_independent_of_later_promotions(fleet: Fleet, call: Call) -> None:
    """A later promotion does not change the run's bundle."""
    predicted(call, fleet)
    run = last_run(fleet)
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        [promoted] = ledger.promotions("small")
        later = replace(promoted, bundle_digest="0" * 16)
        ledger.promote("small", run_id="first", bundle_digest=later.bundle_digest, by="test", reason="another")
    assert call("replay", fleet.file, run, "--verify")[0] == 0
