"""The documented programs run a bundle without this package, with our inputs and our results."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from playwright._impl._driver import compute_driver_executable

from forecaster.config import load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import calendar
from forecaster.demand.panel.build import build
from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.serving import bundle
from forecaster.serving.numpy_model import ReferenceModel
from forecaster.training import export
from tests import panels
from tests.graphs import signer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bundle.md").read_text("utf-8")
SECTION = PAGE.split("## Use the bundle from another language")[1].split("\n## ")[0]


def test_the_documented_script_gives_our_forecasts(tmp_path: Path) -> None:
    [script] = re.findall(r"```python\n(.*?)```", SECTION, re.S)
    (tmp_path / "script.py").write_text(script, "utf-8")
    imported = {
        name.name for line in ast.walk(ast.parse(script)) if isinstance(line, ast.Import) for name in line.names
    }
    assert imported == {"json", "sys", "numpy", "onnxruntime"}
    candidate = panels.candidate()
    folder = bundle.write(tmp_path, panels.graph(), to_onnx.weights(candidate), to_onnx.about(candidate), signer())
    process = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "script.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    medians = [float(word) for word in process.stdout.strip().strip("[]").split()]
    read = bundle.read(folder, (signer().public,))
    inputs = {
        "demand": np.full((1, LOOKBACK), 120, np.float32),
        "open": np.ones((1, LOOKBACK + 3), np.float32),
        "covariates": np.zeros((1, LOOKBACK + 3, 1), np.float32),
        "calendar": np.zeros((1, LOOKBACK + 3, 6), np.float32),
        "statics": np.ones((1, 2), np.int32),
    }
    np.testing.assert_allclose(medians, ReferenceModel(read.weights, read.manifest)(inputs)[0, :, 1], rtol=1e-4)


def test_the_page_names_every_input_of_a_graph() -> None:
    assert (
        re.findall(r"^\| `(\w+)` \|", SECTION.split("### Calendar")[0], re.M)
        == to_onnx.about(panels.candidate())["inputs"]
    )


PIPELINE = """
name: t
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
depots: {source: {kind: csv, path: depots.csv}, static: [city, country, subdivision],
  columns: {opened: opened, closed: closed}}
calendar: {known_future: [promo], events: {source: {kind: csv, path: events.csv}}}
model: {quantiles: [0.1, 0.5, 0.9]}
state: var
"""
DEPOTS = """depot_id,city,country,subdivision,opened,closed
A,Boston,US,MA,,
B,München,DE,BY,2024-09-01,
C,Boston,US,MA,,2026-03-06
"""
EVENTS = """date,kind,name,depot_id,city
2026-03-04,promo,Sale,,Boston
2026-01-10,closure,Power works,B,
2026-03-05,closure,Works,B,
"""
RUNTIME = """
// In the place of onnxruntime-node: the inputs as they would reach the graph, on standard output.
const plain = (x) => (x === x ? x : null);
class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data: [...data].map(plain), dims }); } }
const run = async (inputs) => { console.error(JSON.stringify(inputs)); return { quantiles: { data: [] } }; };
const create = async () => ({ inputNames: ["demand", "open", "covariates", "calendar", "statics"], run });
module.exports = { Tensor, InferenceSession: { create } };
"""


def test_the_documented_javascript_program_makes_our_inputs_from_rows(tmp_path: Path) -> None:
    [program] = re.findall(r"```js\n(.*?)```", SECTION, re.S)
    (tmp_path / "forecast.cjs").write_text(program, "utf-8")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    days = np.arange(np.datetime64("2024-08-01"), np.datetime64("2026-03-02"))
    rows = [f"{depot},{day},{20 + place % 7}" for depot in "ABC" for place, day in enumerate(days) if place % 50 != 3]
    (tmp_path / "demand.csv").write_text("depot_id,date,demand\n" + "\n".join(rows), "utf-8")
    (tmp_path / "depots.csv").write_text(DEPOTS, "utf-8")
    (tmp_path / "events.csv").write_text(EVENTS, "utf-8")
    spec, now = load(tmp_path / "pipeline.yaml"), datetime(2026, 3, 2, 12, tzinfo=UTC)
    ingest(spec, now=now)
    panel = build(read_as_of(spec, as_of=now), spec)
    says = {
        "lookback": LOOKBACK,
        "horizon": 7,
        "levels": [0.1, 0.5, 0.9],
        "calendar": list(panel.calendar_names),
        "encoding": panel.encoding.to_json(),
        "depots": list(panel.depot_ids),
        "calendars": export.holiday_calendars(panel, spec),
    }
    (tmp_path / "manifest.json").write_text(json.dumps(says), "utf-8")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "onnxruntime-node.js").write_text(RUNTIME, "utf-8")
    node, _ = compute_driver_executable()
    files = [str(tmp_path / name) for name in ("demand.csv", "depots.csv", "events.csv")]
    process = subprocess.run(
        [node, str(tmp_path / "forecast.cjs"), str(tmp_path), str(panel.cutoff), *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    for name, expected in panel.window(LOOKBACK).items():
        tensor = json.loads(process.stderr)[name]
        values = np.array(tensor["data"], float).reshape(tensor["dims"])
        np.testing.assert_allclose(values, expected, atol=1e-6, err_msg=name)


def test_the_page_names_every_feature_of_the_calendar() -> None:
    table = SECTION.split("### Calendar")[1].split("\n\n")[1]
    first, *rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", first) == [calendar.NAMES[0], calendar.NAMES[6]]
    assert re.findall(r"`(\w+)`", "".join(rows)) == list(calendar.NAMES[7:])
