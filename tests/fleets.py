"""A small pipeline on disk, its lake filled, and a champion that was exported but never trained."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

from forecaster.config import Spec, load
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.ledger.store import Ledger
from tests import shared
from tests.panels import LEVELS, quickly

FIRST, DAYS = date(2024, 1, 1), 100
CITIES = {"A": "Ulm", "B": "Bonn", "C": "Ulm", "D": "Bonn"}
AS_OF = datetime(2024, 4, 10, 8, tzinfo=UTC)  # the morning after the last reading
PIPELINE = f"""
name: small
horizon: 3
demand: {{source: {{kind: csv, path: demand.csv}}, recorded: next_day, rules: {{max_age_days: 5}}}}
depots: {{source: {{kind: csv, path: depots.csv}}, static: [city]}}
calendar: {{country: DE, known_future: [promo]}}
model: {{layers: 1, hidden: 4, quantiles: {list(LEVELS)}, boosted: false}}
state: var
"""


@dataclass(frozen=True)
class Fleet:
    """Location of the fleet, and the bundle of its champion."""

    file: Path
    spec: Spec
    bundle: Path


def counts(depots: str, days: int = DAYS, first: int = 0) -> list[str]:
    return [
        f"{depot},{FIRST + timedelta(days=day)},{40 + 7 * (day % 7) + ord(depot) % 5},{int(day % 9 == 0)}"
        for depot in depots
        for day in range(first, days)
    ]


def fill(spec: Spec, rows: list[str], cities: dict[str, str], *, now: datetime = AS_OF) -> None:
    """Write both sources and ingest them into the lake."""
    (spec.folder / "demand.csv").write_text("\n".join(["depot_id,date,demand,promo", *rows, ""]), "utf-8")
    listed = [f"{depot},{city}" for depot, city in cities.items()]
    (spec.folder / "depots.csv").write_text("\n".join(["depot_id,city", *listed, ""]), "utf-8")
    ingest(spec, now=now)


def untrained(panel: Panel) -> Candidate:
    """Return a small network for a panel."""
    return untrained_network(panel.encoding, panel.calendar_names, panel.horizon, LEVELS)


def untrained_network(
    encoding: Encoding,
    calendar_names: tuple[str, ...],
    horizon: int,
    levels: tuple[float, ...],
    *,
    layers: int = 1,
    hidden: int = 4,
) -> Candidate:
    """Return a network of a given size before its first step."""
    import jax
    import numpy as np

    from forecaster.model.network import encoder_decoder

    labels = tuple(len(words) for words in encoding.statics.values())
    sizes = (horizon, len(encoding.covariates), len(calendar_names), labels)
    shape = encoder_decoder.Architecture(layers, hidden, levels, *sizes)
    members = jax.tree.map(
        lambda leaf: np.asarray(leaf)[None], encoder_decoder.initial_parameters(shape, jax.random.key(0))
    )
    constants = {"mean": np.float32(4), "spread": np.float32(1), "yearly": np.float32(0)}
    constants["calendar"] = np.ones(shape.calendar, np.float32)
    parameters = {
        "members": members,
        "constants": constants,
        "blend": {"members": np.ones(1, np.float32), "anchor": np.float32(0)},
        "calibration": np.ones((horizon, len(levels)), np.float32),
    }
    summary = {"epochs": 0, "seconds": 0.1}
    return Candidate(parameters, shape.to_json(), encoding, calendar_names, levels, horizon, summary)


@contextmanager
def _graphs_of_the_session(spec: Spec) -> Iterator[None]:
    """Share graphs exported by other tests; with encrypted bundles, no graph is kept."""
    if spec.encrypt_bundles:
        yield
        return
    with shared.locked("graphs") as graphs:
        shutil.copytree(graphs, spec.paths.graphs)
        yield
        shutil.copytree(spec.paths.graphs, graphs, dirs_exist_ok=True)


def build_fleet(folder: Path, more: str = "", horizon: int = 3, recorded: str = "next_day") -> Fleet:
    """Build the whole fleet in a folder; `more` are further lines of the pipeline file."""
    name = f"fleet-{shared.digest(more, horizon, recorded)}"
    shared.copy(name, partial(_build, more=more, horizon=horizon, recorded=recorded), folder)
    return found(folder)


def build_own_fleet(folder: Path) -> Fleet:
    """Build the same fleet in this process, without a shared copy."""
    folder.mkdir()
    _build(folder, more="", horizon=3, recorded="next_day")
    return found(folder)


def found(folder: Path) -> Fleet:
    """Return the fleet in a folder, with the bundle of its champion."""
    spec = load(folder / "pipeline.yaml")
    with Ledger.open_reader(spec.ledger_url) as ledger:
        champion = ledger.champion(spec.name)
    assert champion is not None
    return Fleet(folder / "pipeline.yaml", spec, spec.paths.bundle(champion.bundle_digest))


def _build(folder: Path, more: str, horizon: int, recorded: str) -> None:
    from forecaster.training import export

    content = PIPELINE.replace("horizon: 3", f"horizon: {horizon}").replace("next_day", recorded)
    (folder / "pipeline.yaml").write_text(content + more, "utf-8")
    spec = load(folder / "pipeline.yaml")
    fill(spec, counts("ABCD"), CITIES)
    knowledge = read_as_of(spec, as_of=AS_OF)
    panel = panels.build(knowledge, spec)
    with quickly(), _graphs_of_the_session(spec):
        # not a test of parity
        bundle = export.to_bundle(untrained(panel), panel, {}, knowledge, spec, quick=True).folder
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=bundle.name, by="test", reason="the first")
