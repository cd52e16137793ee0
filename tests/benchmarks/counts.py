"""Count exactly, in a separate process, what the code costs: programs, HLO, ONNX, queries and
bytes, packages.

    python -m tests.benchmarks.counts GROUP …

Prints a line of JSON: name → [value, unit]. Counts do not depend on the load of the machine, so a
test can assert them; seconds do, and are not measured here. Processor and environment are fixed
where counts depend on them. COUNTS_CACHE is a folder in which a training finds the programs of an
earlier one; with COUNTS_ADDRESSES only those addresses are requested, and with COUNTS_PROGRAMS only
those programs are compiled.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests import cpus

ROOT = Path(__file__).resolve().parents[2]
Count = tuple[float, str]
# Read by JAX when it is imported: one device, and instructions that all x86-64 server processors
# have.
SURROUNDINGS = {
    "JAX_PLATFORMS": "cpu",
    "JAX_NUM_CPU_DEVICES": "1",
    "XLA_FLAGS": f"{cpus.QUICK} --xla_cpu_multi_thread_eigen=false --xla_cpu_max_isa=AVX2",
    "CXX": "",  # the scan, whose operations XLA can count
    "OMP_NUM_THREADS": "1",
}


def training() -> Iterator[tuple[str, Count]]:
    """Count the programs of a small training with an empty cache; a second process, with a full
    cache, compiles none."""
    import jax

    from forecaster.model.export import to_onnx
    from forecaster.model.fitting import jax_setup, train
    from tests.panels import panel, spec

    with tempfile.TemporaryDirectory() as folder:
        cache = Path(os.environ.get("COUNTS_CACHE") or folder)
        which = "second training" if list(cache.glob("*-cache")) else "training"
        jax_setup.configure(cache)
        jax.config.update("jax_disable_most_optimizations", True)  # the same number of programs, in a third of the time
        history = panel()
        with jax_setup.count_compilations() as compilations:
            candidate = train.fit(history, spec(epochs=2))
            to_onnx.forecaster(candidate)(history)
    yield f"{which}: programs compiled", (compilations.misses, "programs")


def step() -> Iterator[tuple[str, Count]]:
    """Count the HLO of an epoch and of its validation, after XLA's optimizations, for a small model
    with a crop of the nightly size; the body of a scan counts once."""
    import jax
    import numpy as np

    from forecaster.model.fitting import compiled_steps, hlo_dumps, train
    from forecaster.model.fitting.training_plan import choose_recipe
    from tests.panels import panel, spec

    history, small = panel(depots=16), spec(batch_depots=16)
    days = history.history - train.VALIDATION
    recipe = choose_recipe(small, len(history.depot_ids), days)
    sizes, inputs = train._sizes(history, small, recipe), train._training_inputs(history, days, recipe)
    members, key = len(recipe.restraints), jax.random.key(0)
    # Zeros in place of random parameters, which would first be compiled.
    shapes = jax.eval_shape(partial(compiled_steps._initial, sizes.architecture, members), key)._replace(key=())
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    state = compiled_steps.on_devices(zeros._replace(key=key))
    rates = jax.numpy.asarray(recipe.rates()[0])
    programs: dict[str, Callable[[], Any]] = {
        "step": lambda: compiled_steps.training_epoch(sizes, members).lower(state, *inputs, rates),
        "validation": lambda: compiled_steps.validation_step(sizes, members).lower(state, inputs.panel, inputs.facts),
    }
    for name in os.environ.get("COUNTS_PROGRAMS", "").split() or programs:
        # LLVM, which takes most of the time, runs after everything that is counted.
        compiled = programs[name]().compile(compiler_options={"xla_backend_optimization_level": 0})
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / f"module_0000.{name}.after_optimizations.txt").write_text(compiled.as_text(), "utf-8")
            [counted] = hlo_dumps.read_dump(Path(folder))
        yield f"{name}: instructions", (counted.instructions, "HLO instructions")
        yield f"{name}: fusions", (counted.opcodes.get("fusion", 0), "fusions")
        yield f"{name}: FLOPs", (counted.flops, "FLOPs")
        yield f"{name}: bytes", (counted.bytes_accessed, "bytes read and written")
        yield f"{name}: temporaries", (compiled.memory_analysis().temp_size_in_bytes, "bytes")


def onnx() -> Iterator[tuple[str, Count]]:
    """Count nodes, including those of subgraphs, and bytes of the exported graph with its trees."""
    import numpy as np
    import onnx as onnx_format

    from forecaster.model.export import to_onnx
    from forecaster.model.network.features import tree_inputs
    from tests.panels import random_trees

    network = untrained()
    encoding, parameters = network.encoding, network.parameters
    inputs = tree_inputs(encoding.covariates, network.calendar_names, tuple(encoding.statics))
    blend = {**parameters["blend"], "trees": np.float32(0.5)}
    trees = random_trees(len(inputs), network.horizon)
    graph = to_onnx.to_graph(replace(network, parameters={**parameters, "blend": blend, "trees": trees}))

    def nodes(of: Any) -> int:
        inner = (attribute.g for node in of.node for attribute in node.attribute if attribute.HasField("g"))
        return len(of.node) + sum(map(nodes, inner))

    yield "onnx: nodes", (nodes(onnx_format.load_model_from_string(graph).graph), "nodes")
    yield "onnx: bytes", (len(graph), "bytes")


def untrained(hidden: int = 32, layers: int = 2, members: int = 2) -> Any:
    """Return a candidate of the size of the sample's, with initial parameters."""
    import jax
    import numpy as np

    from forecaster.core.forecast import Candidate
    from forecaster.model.network import encoder_decoder
    from tests.panels import LEVELS, panel

    history = panel()
    labels = tuple(len(words) for words in history.encoding.statics.values())
    widths = (history.horizon, len(history.encoding.covariates), len(history.calendar_names), labels)
    shape = encoder_decoder.Architecture(layers, hidden, LEVELS, *widths)
    at_once = {"xla_backend_optimization_level": 0}  # otherwise operations are compiled one by one
    draw = jax.jit(encoder_decoder.initial_parameters, static_argnums=0, compiler_options=at_once)
    drawn = [draw(shape, jax.random.key(seed)) for seed in range(members)]
    constants = {"mean": np.float32(4), "spread": np.float32(1), "yearly": np.float32(1)}
    parameters = {
        "members": jax.tree.map(lambda *leaves: np.stack(leaves), *drawn),
        "constants": {**constants, "calendar": np.ones(shape.calendar, np.float32)},
        "blend": {"members": np.full(members, 1 / members, np.float32), "anchor": np.float32(0.1)},
        "calibration": np.ones((history.horizon, len(LEVELS)), np.float32),
    }
    names = history.calendar_names
    return Candidate(parameters, shape.to_json(), history.encoding, names, LEVELS, history.horizon, {"epochs": 0})


def pages() -> Iterator[tuple[str, Count]]:
    """Count the SQL statements and bytes of each address of the catalogue at its first request to a
    new page, on a ledger of six depots at a fixed noon; and the statements of the second request,
    when the answer is cached."""
    import sqlalchemy as sa

    from dashboards.ops.reading import store
    from tests.dashboards.seed import earlier, fill, publication, remember, with_plans
    from tests.dashboards.visitor import visitor

    store.REREAD_SECONDS = 600.0  # on a busy machine, seconds may pass between two requests
    statements: list[str] = []
    sa.event.listen(sa.Engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        fill(url, earlier(), with_plans(publication()))
        remember(url)
        for address in os.environ.get("COUNTS_ADDRESSES", "").split() or addresses():
            get = visitor(url)
            statements.clear()
            answer = get(address)
            assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text[:200]}"
            yield f"page {address}: queries", (len(statements), "SQL statements")
            yield f"page {address}: bytes", (len(answer.content), "bytes")
            statements.clear()
            get(address)
            yield f"page {address}: queries of the kept answer", (len(statements), "SQL statements")


def addresses() -> list[str]:
    """Return every page and view of the catalogue, and further addresses."""
    from dashboards.ops.views.catalogue import VIEWS

    declared = [view.page for view in VIEWS if view.page and view.page != "/roster"] + [
        f"/api/v1/{view.name}" for view in VIEWS
    ]
    others = ["/depot/BOS-01", "/my-depot?depot=BOS-01", "/day/2025-06-18/BOS-01", "/api/v1/depots/BOS-01"]
    return sorted({*declared, *others})


def packages() -> Iterator[tuple[str, Count]]:
    """Count the packages of the base install: all that its requirements need, directly or not."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    waiting, needed = [Requirement(text) for text in project["dependencies"]], set[str]()
    visited = set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        needed.add(name)
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in visited:
                visited.add((name, extra))
                parts = map(Requirement, requires(name) or ())
                waiting += [part for part in parts if part.marker is None or part.marker.evaluate({"extra": extra})]
    yield "base install: packages", (len(needed), "packages")
    for name in sorted(needed):
        yield f"base install: {name}", (1, "package")


GROUPS: Mapping[str, Callable[[], Iterator[tuple[str, Count]]]] = {
    "training": training,
    "step": step,
    "onnx": onnx,
    "pages": pages,
    "packages": packages,
}


def main() -> None:
    print(json.dumps({name: count for group in sys.argv[1:] for name, count in GROUPS[group]()}))


if __name__ == "__main__":
    main()
