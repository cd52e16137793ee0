"""The registered model takes a long data frame: loaded by MLflow from the champion's alias, and
served over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from importlib.metadata import distribution
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forecaster.api import registered_model
from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel.build import build
from forecaster.errors import SpecError
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from forecaster.serving import bundle, keys
from forecaster.serving.predict import Predictor
from forecaster.training import export
from forecaster.training.recording import model_folder
from tests import graphs
from tests.ports import free_port

FIRST, DAYS = date(2026, 8, 1), 60
AS_OF = pd.Timestamp("2026-09-30 08:00", tz="UTC").to_pydatetime()
PIPELINE = """
name: t
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
depots: {source: {kind: csv, path: depots.csv}, static: [city]}
calendar: {country: US, subdivision: MA, known_future: [promo], events: {source: {kind: csv, path: events.csv}}}
model: {quantiles: [0.1, 0.5, 0.9]}
state: var
"""


def demand(days: int) -> pd.DataFrame:
    """Three depots; demand rises by one per day."""
    rows = [(f"D{n}", FIRST + timedelta(day), 10.0 * (n + 1) + day) for n in range(3) for day in range(days)]
    return pd.DataFrame(rows, columns=["depot_id", "date", "demand"])


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """A pipeline whose champion forecasts `graphs.plain`: 1.3 times more on days with a promotion."""
    folder = tmp_path_factory.mktemp("registered")
    (folder / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    demand(DAYS).to_csv(folder / "demand.csv", index=False)
    (folder / "depots.csv").write_text("depot_id,city\nD0,Boston\nD1,Boston\nD2,Lynn\n", "utf-8")
    promoted = FIRST + timedelta(DAYS + 1)
    (folder / "events.csv").write_text(f"date,kind,name,city\n{promoted},promo,Sale,Boston\n", "utf-8")
    spec = load(folder / "pipeline.yaml")
    ingest(spec, now=AS_OF)
    knowledge = read_as_of(spec, as_of=AS_OF)
    panel = build(knowledge, spec)
    about = {
        "pipeline": "t",
        "horizon": 7,
        "lookback": 14,
        "levels": [0.1, 0.5, 0.9],
        "calendar": list(panel.calendar_names),
        "depots": list(panel.depot_ids),
        "encoding": panel.encoding.to_json(),
        "calendars": export.holiday_calendars(panel, spec),
    }
    made = bundle.write(spec.paths.bundles, graphs.plain(2.0, 14, 7), {}, about, keys.signer(spec.paths.folder))
    example = model_folder.example(spec, knowledge, panel)
    record = Record("night-1", {}, {}, (), {}, {}, made.name, example=example)
    outbox.enqueue(record, {}, spec, model_folder.files(spec, knowledge))
    [version] = outbox.send(spec).values()
    from forecaster.registry.mlflow_registry import Registry

    Registry(spec.registry_url, "t", spec.paths.mlflow_artifacts).promote(version)
    return spec


def test_registered_model_gives_the_nightly_forecast_and_accepts_integers(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    mlflow.set_tracking_uri(spec.registry_url)
    model = mlflow.pyfunc.load_model("models:/t@champion")
    frame = demand(DAYS).assign(
        date=lambda rows: pd.to_datetime(rows["date"]), demand=lambda rows: rows["demand"].astype(int)
    )
    answer = model.predict(frame[frame["depot_id"] != "D2"])
    [folder] = spec.paths.bundles.glob("*[!t]")
    predictor = Predictor(bundle.load(folder, spec.paths.folder))
    expected = predictor(build(read_as_of(spec, as_of=AS_OF), spec, predictor.bundle.encoding))
    assert list(answer.columns) == ["depot_id", "date", "forecast", "q0.1", "q0.5", "q0.9", "mean"]
    assert model.metadata.signature.outputs.input_names() == list(answer.columns)
    assert answer["depot_id"].unique().tolist() == ["D0", "D1"]
    np.testing.assert_allclose(answer["q0.9"].to_numpy().reshape(2, 7), expected.quantiles[:2, :, 2], rtol=1e-6)
    assert answer["forecast"].iloc[1] == pytest.approx(1.3 * answer["forecast"].iloc[0])  # Boston's sale
    assert model.predict(model.input_example)["depot_id"].nunique() == 2
    with pytest.raises(mlflow.exceptions.MlflowException, match="demand"):
        model.predict(frame.drop(columns="demand"))


def environment(requirements: str, folder: Path) -> Path:
    """Folder for `sys.path` with only these installed packages and their dependencies."""
    names, packages = [Requirement(line).name for line in requirements.splitlines()], set[str]()
    folder.mkdir()
    while names:
        name = canonicalize_name(names.pop())
        if name in packages:
            continue
        packages.add(name)
        installed = distribution(name)
        needs = map(Requirement, installed.requires or [])
        names += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
        for top in {file.parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(installed.locate_file(top))))
    return folder


FORECAST = """
import importlib.util, sys
sys.path.append(sys.argv[1])
wrong = [name for name in ("forecaster", "holidays", "deltalake", "pandera") if importlib.util.find_spec(name)]
assert not wrong, wrong
import mlflow, pandas
mlflow.set_tracking_uri(sys.argv[2])
frame = pandas.read_csv(sys.argv[3], parse_dates=["date"])
mlflow.pyfunc.load_model("models:/t@champion").predict(frame).to_csv(sys.argv[4], index=False)
assert "forecaster" not in sys.modules
"""


def test_model_forecasts_in_an_environment_without_this_package(spec: Spec, tmp_path: Path) -> None:
    import mlflow

    mlflow.set_tracking_uri(spec.registry_url)
    requirements = Path(mlflow.pyfunc.get_model_dependencies("models:/t@champion")).read_text("utf-8")
    assert {Requirement(line).name for line in requirements.splitlines()} == {
        "mlflow",
        "numpy",
        "onnxruntime",
        "pandas",
        "pyarrow",
    }
    site = environment(requirements, tmp_path / "site")
    demand(DAYS).to_csv(tmp_path / "demand.csv", index=False)
    files = [str(tmp_path / name) for name in ("demand.csv", "forecast.csv")]
    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", FORECAST, str(site), spec.registry_url, *files],
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answer = pd.read_csv(files[1])
    [folder] = spec.paths.bundles.glob("*[!t]")
    predictor = Predictor(bundle.load(folder, spec.paths.folder))
    expected = predictor(build(read_as_of(spec, as_of=AS_OF), spec, predictor.bundle.encoding))
    quantiles = answer[["q0.1", "q0.5", "q0.9"]].to_numpy().reshape(expected.quantiles.shape)
    np.testing.assert_allclose(quantiles, expected.quantiles, rtol=1e-6)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("demand", -1, "row 5, depot 'D0': found demand -1"),
        ("date", "x", "row 5, depot 'D0': found date 'x'; wanted a day"),
        ("date", "2026-08-01", "row 5, depot 'D0': found date '2026-08-01'; wanted one row for each depot and day"),
        ("depot_id", " ", "row 5, depot ' ': found depot_id ' '; wanted a depot's id"),
    ],
)
def test_rejects_an_invalid_row_by_name(column: str, value: object, message: str) -> None:
    frame = demand(DAYS).astype({"date": "str"}).astype("object")
    frame.loc[5, column] = value
    with pytest.raises(SpecError, match=re.escape(message)):
        registered_model._readings(frame, ())


@pytest.fixture
def served(spec: Spec, tmp_path: Path) -> Iterator[str]:
    """Address of `mlflow models serve`, run by this Python."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--model-uri", "models:/t@champion"]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    root = Path(__file__).resolve().parents[2]
    quiet = {"MLFLOW_TRACKING_URI": spec.registry_url, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": str(root)}
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **quiet, "PATH": binaries}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/ping", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.2)
        else:
            raise AssertionError((tmp_path / "log").read_text("utf-8", errors="replace")[-3000:])
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def test_model_is_served_over_http(served: str) -> None:
    frame = demand(DAYS)
    split = {
        "columns": list(frame.columns),
        "data": json.loads(frame.assign(date=frame["date"].astype(str)).to_json(orient="values")),
    }
    answer = httpx.post(f"{served}/invocations", json={"dataframe_split": split}, timeout=60)
    assert answer.status_code == 200, answer.text
    rows = answer.json()["predictions"]
    assert len(rows) == 3 * 7
    assert rows[0]["q0.1"] < rows[0]["forecast"] == rows[0]["q0.5"] < rows[0]["q0.9"]
    assert rows[0]["date"].startswith("2026-09-30")
