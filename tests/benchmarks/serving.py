"""Measure the inference step: its size, its cold start, and its calls against JAX and NumPy.

    make bench-serving

The model has the size of the sample's (two layers of 32, two members) and is untrained, which does
not affect its speed. onnxruntime, JAX and NumPy get the same arrays: onnxruntime as `Predictor`
cuts them, JAX in pieces of 4,096 depots. A cold start is that of an installation in use: a run
before the measured ones compiles its modules. The recurrence is also measured by itself: as ONNX's
own GRU operator, which is exported, and as the Loop that a scan would become. torch is measured if
it is installed (see `tests/benchmarks/speed.py`).
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from packaging.requirements import Requirement

from tests.benchmarks.report import ROOT, Figure, below, write_report

DEPOTS = {1: 300, 64: 100, 1_000: 20, 10_000: 5, 100_000: 1}  # depots, and the number of calls
REFERENCE = 1_000  # largest number of depots for NumPy, which computes in double precision, day by day
MEMBERS, FEATURES, HIDDEN, DAYS = 2, 24, 32, 112
HISTORY = 550  # days of a panel
COLD, LARGEST = 5, 8
# A child's peak memory is never less than that of its parent, so a small process starts it.
LAUNCHER = """
import resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
wall, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, wall, used.ru_maxrss, file=sys.stderr)
"""
Inputs = Mapping[str, Any]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-serving-"))
    try:
        figures = []
        for figure in chain(_size(), _cold(folder), _recurrence(), _calls(folder)):
            print(f"{figure.figure}: {figure.value:.4g} {figure.unit}", flush=True)
            figures.append(figure)
        write_report("serving", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _size() -> Iterator[Figure]:
    """Measure the files of the base install's packages, direct and indirect."""
    queue, packages = ["harbor-forecaster"], set[str]()
    while queue:
        name = queue.pop()
        if name in packages:
            continue
        packages.add(name)
        for need in map(Requirement, distribution(name).requires or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                queue += [re.sub(r"[-_.]+", "-", need.name).lower()]
    size = {name: _bytes_of(name) for name in packages}
    yield below(f"base install, {len(packages)} packages", sum(size.values()) / 1e6, "MB", 500)
    for name in sorted(size, key=lambda name: -size[name])[:LARGEST]:
        yield Figure(f"base install: {name}", size[name] / 1e6, "MB")


def _bytes_of(package: str) -> int:
    files = (str(distribution(package).locate_file(file)) for file in distribution(package).files or [])
    return sum(os.stat(file).st_size for file in files if os.path.isfile(file))


def _cold(folder: Path) -> Iterator[Figure]:
    """Measure from process start to forecasts on disk, with lake and bundle present: the sample's
    64 depots."""
    from datetime import UTC, datetime

    from forecaster.config import load
    from forecaster.demand.history.point_in_time import read_as_of
    from forecaster.demand.ingest import ingest
    from forecaster.demand.panel import build as panels
    from forecaster.training.export import to_bundle

    shutil.copytree(ROOT / "data" / "harbor_fleet", folder / "sample")
    file = folder / "sample" / "pipeline.yaml"
    file.write_text(re.sub(r"(?m)^state: .*$", f"state: {folder / 'var'}", file.read_text("utf-8")), "utf-8")
    spec = load(file)
    now = datetime(2026, 11, 1, 12, tzinfo=UTC)
    ingest(spec, now=now)
    knowledge = read_as_of(spec, as_of=now)
    panel = panels.build(knowledge, spec)
    candidate = _untrained(panel)
    begun = time.perf_counter()
    exported = to_bundle(candidate, panel, {}, knowledge, spec)
    yield Figure("export with its parity checks (three implementations, eight cases)", time.perf_counter() - begun, "s")
    yield below("largest difference of ONNX, NumPy and JAX", exported.parity.largest, "relative", 1e-4)
    # Otherwise every start would compile its imports.
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took = []
    for _ in range(1 + COLD):
        with (folder / "forecast.parquet").open("wb") as out:
            predict = [sys.executable, "-m", "forecaster", "predict", str(file), "--as-of", now.isoformat()]
            predict += ["--out", "parquet", "--bundle", str(exported.folder)]
            launched = [sys.executable, "-c", LAUNCHER, *predict]
            process = subprocess.run(launched, cwd=ROOT, env=compiled, stdout=out, stderr=subprocess.PIPE, check=True)
        cpu_seconds, wall_seconds, kilobytes = map(float, process.stderr.split()[-3:])
        took.append((cpu_seconds, wall_seconds, kilobytes * 1024 / 1e6))
    cpu, wall, memory = (float(np.median(series)) for series in zip(*took[1:], strict=True))
    yield below("cold start to forecasts on disk, 64 depots: processor time", cpu, "s", 1.0)
    yield Figure("cold start to forecasts on disk, 64 depots: wall", wall, "s", n=COLD)
    yield below("cold start to forecasts on disk, 64 depots: peak memory", memory, "MB", 250)


def _calls(folder: Path) -> Iterator[Figure]:
    from forecaster.model.export import to_onnx as export
    from forecaster.serving import bundle, keys
    from forecaster.serving.numpy_model import ReferenceModel
    from forecaster.serving.predict import CHUNK, Predictor

    candidate, signer = _untrained(panel_of(64)), keys.signer(folder)
    folder_of_bundle = bundle.write(
        folder, export.to_graph(candidate), export.weights(candidate), export.about(candidate), signer
    )
    loaded = bundle.read(folder_of_bundle, (signer.public,))
    predictor, jax, reference = (
        Predictor(loaded),
        export.on_arrays(candidate),
        ReferenceModel(loaded.weights, loaded.manifest),
    )
    calls: dict[str, Callable[[Inputs], Any]] = {
        "onnxruntime": predictor.run,
        "jitted JAX": jax,
        "NumPy": reference,
    }
    for depots, times in DEPOTS.items():
        panel = panel_of(min(depots, 10_000))
        pieces = [panel.window(loaded.lookback, slice(at, at + CHUNK)) for at in range(0, len(panel.depot_ids), CHUNK)]
        repeats = max(depots // 10_000, 1)  # of the same ten thousand depots, so that their windows fit into memory
        for name, call in calls.items():
            if name == "NumPy" and depots > REFERENCE:
                continue
            for piece in {len(piece["demand"]): piece for piece in pieces}.values():
                call(piece)  # compiles
            took = []
            for _ in range(times if name != "NumPy" else max(times // 10, 2)):
                begun = time.perf_counter()
                for _ in range(repeats):
                    for piece in pieces:
                        call(piece)
                took.append(1e3 * (time.perf_counter() - begun))
            yield from _percentiles(f"{name}, {depots:,} depots", depots, took)
        del pieces
        if depots <= 10_000:
            begun = time.perf_counter()
            predictor(panel)
            whole = f"whole prediction from a panel (windows, checks, graph), {depots:,} depots"
            yield Figure(whole, 1e3 * (time.perf_counter() - begun), "ms")
    fleet = panel_of(64)
    predictor(fleet)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000):
        predictor(fleet)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6
    yield below("growth of peak memory over 1,000 more calls with 64 depots", grown, "MB", 20)


def _percentiles(label: str, depots: int, took: list[float]) -> Iterator[Figure]:
    p50, p95, p99 = (float(np.percentile(took, percent)) for percent in (50, 95, 99))
    yield Figure(f"{label}: p50", p50, "ms", n=len(took))
    ours = label.startswith("onnxruntime")
    limit = {1: 5.0, 10_000: 1000.0}.get(depots) if ours else None
    yield below(f"{label}: p95", p95, "ms", limit) if limit else Figure(f"{label}: p95", p95, "ms", n=len(took))
    yield Figure(f"{label}: p99", p99, "ms", n=len(took))
    yield Figure(f"{label}: throughput", 1e3 * depots / p50, "depots/s")


def _recurrence() -> Iterator[Figure]:
    """Measure one layer as the Loop that jax2onnx makes of a scan, and as ONNX's own GRU operator,
    with the same parameters."""
    import jax
    import jax.numpy as jnp
    from jax2onnx import to_onnx
    from onnx import TensorProto, helper, numpy_helper

    from forecaster.serving.predict import session

    rng = np.random.default_rng(0)
    kernel_i, bias, kernel_h = (
        rng.normal(0, 0.2, shape).astype(np.float32) for shape in ((FEATURES, 96), (96,), (HIDDEN, 96))
    )

    def layer(x: Any) -> Any:
        days, count, features = x.shape
        projected = (x.reshape(days * count, features) @ kernel_i + bias[None]).reshape(days, count, -1)

        def day(h: Any, gates: Any) -> Any:
            xr, xz, xn = jnp.split(gates, 3, axis=-1)
            hr, hz, m = jnp.split(h @ kernel_h, 3, axis=-1)
            n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * m)
            new = n + jax.nn.sigmoid(xz + hz) * (h - n)
            return new, new

        return jax.lax.scan(day, jnp.zeros((count, HIDDEN), x.dtype), projected)[1]

    depots = jax.export.symbolic_shape("depots")[0]
    shape: Any = jax.ShapeDtypeStruct
    loop = to_onnx(layer, [shape((DAYS, depots, FEATURES), jnp.float32)], opset=21, input_names=["x"])
    order = [1, 0, 2]  # ONNX orders the gates z, r, n
    w, r = (np.concatenate([np.split(k.T, 3)[i] for i in order])[None] for k in (kernel_i, kernel_h))
    b = np.concatenate([*(np.split(bias, 3)[i] for i in order), np.zeros(96, np.float32)])[None]
    node = helper.make_node("GRU", ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN, linear_before_reset=1)
    graph = helper.make_graph(
        [node],
        "gru",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [DAYS, "depots", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [DAYS, 1, "depots", HIDDEN])],
        [numpy_helper.from_array(x, name) for name, x in (("w", w), ("r", r), ("b", b))],
    )
    native = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    sessions = {name: session(m.SerializeToString()) for name, m in (("Loop", loop), ("GRU operator", native))}
    rivals = {name: lambda x, s=s: s.run(None, {"x": x})[0] for name, s in sessions.items()}
    try:
        import torch

        theirs = torch.nn.GRU(FEATURES, HIDDEN)

        def in_torch(x: Any) -> Any:
            with torch.no_grad():
                return theirs(torch.from_numpy(x))[0]

        rivals["torch nn.GRU"] = in_torch
    except ImportError:
        print("torch is skipped: it is not installed")
    for count in (1, 64, 1_000, 10_000):
        x = rng.normal(0, 1, (DAYS, count, FEATURES)).astype(np.float32)
        outputs = [rivals[name](x).reshape(DAYS, count, HIDDEN) for name in ("Loop", "GRU operator")]
        np.testing.assert_allclose(*outputs, atol=1e-5)
        for name, call in rivals.items():
            took = []
            for _ in range(max(3, min(200, 20_000 // count))):
                begun = time.perf_counter()
                call(x)
                took.append(1e3 * (time.perf_counter() - begun))
            yield Figure(f"one recurrent layer as {name}, {count:,} depots", float(np.median(took)), "ms", n=len(took))


def panel_of(depots: int) -> Any:
    """Return a panel of counts with a weekly rhythm and one covariate; two calendars."""
    from tests import panels

    few = panels.panel(64, HISTORY, 7)
    rows = np.arange(depots) % 64
    random = np.random.default_rng(0)
    demand = few.demand[rows]
    demand *= random.uniform(0.5, 2, (depots, 1)).astype(np.float32)
    return replace(
        few,
        depot_ids=tuple(f"D{number}" for number in range(depots)),
        demand=np.round(demand, out=demand),
        open=few.open[rows],
        covariates=few.covariates[rows],
        calendar_group=few.calendar_group[rows],
        statics=few.statics[rows],
    )


def _untrained(panel: Any) -> Any:
    import jax

    from forecaster.core.forecast import Candidate
    from forecaster.model.network import encoder_decoder

    levels = tuple(i / 10 for i in range(1, 10))
    labels = tuple(len(words) for words in panel.encoding.statics.values())
    calendar = len(panel.calendar_names)
    shape = encoder_decoder.Architecture(
        2, HIDDEN, levels, panel.horizon, len(panel.encoding.covariates), calendar, labels
    )
    members = [encoder_decoder.initial_parameters(shape, jax.random.key(seed)) for seed in range(MEMBERS)]
    constants = {"mean": np.float32(4), "spread": np.float32(1), "yearly": np.float32(1)}
    parameters = {
        "members": jax.tree.map(lambda *leaves: np.stack(leaves), *members),
        "constants": {**constants, "calendar": np.ones(calendar, np.float32)},
        "blend": {"members": np.full(MEMBERS, 1 / MEMBERS, np.float32), "anchor": np.float32(0.1)},
        "calibration": np.ones((panel.horizon, len(levels)), np.float32),
    }
    names = panel.calendar_names
    return Candidate(parameters, shape.to_json(), panel.encoding, names, levels, panel.horizon, {"epochs": 0})


if __name__ == "__main__":
    main()
