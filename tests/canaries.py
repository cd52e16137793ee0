"""A fleet with exactly known models, and its nights: forecasts of champion and canary are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from flows import lines, steps
from flows.night import Night
from forecaster.config import Spec, load
from forecaster.core.forecast import CanaryTrial, Candidate, Fold, Scores
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.lake import Lake
from forecaster.ledger.publication import Publication
from forecaster.ledger.store import Ledger
from forecaster.ledger.trials import canaries
from forecaster.model.export import to_onnx
from forecaster.publishing.predict import predict
from forecaster.serving import bundle as bundles
from forecaster.serving import keys
from forecaster.serving.predict import Predictor
from forecaster.training import onnx_cache
from forecaster.training.score_rows import append_scores
from tests.fleets import untrained
from tests.panels import LEVELS

FIRST, DAYS, DEPOTS = date(2026, 1, 1), 120, 24
WEEK = (1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7)
NOISE, SHARED = 0.1, 0.03  # of a depot's day, and common to all depots of a day, in log counts
PIPELINE = f"""
name: known
horizon: 3
demand: {{source: {{kind: csv, path: demand.csv}}, recorded: next_day}}
depots: {{source: {{kind: csv, path: depots.csv}}, static: [city]}}
calendar: {{holidays: false}}
model: {{layers: 1, hidden: 4, quantiles: {list(LEVELS)}, boosted: false}}
gate: {{coverage: [0.0, 1.0]}}
staffing: {{orders_per_driver: 20, cost_short: 38, cost_idle: 22}}
canary: {{share: 0.1, nights: 6}}
"""


def level(depot: int, day: int) -> float:
    return 40 * (2 + depot % 5) * WEEK[day % 7]


@dataclass(frozen=True)
class Known:
    """The pipeline, and bundles by the factor of their medians."""

    file: Path
    bundles: dict[float, str]

    @property
    def spec(self) -> Spec:
        return load(self.file)


def build(folder: Path, *factors: float, more: str = "") -> Known:
    """Build a fleet whose champion is the first of the bundles."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE + more, "utf-8")
    rng = np.random.default_rng(7)
    noise = SHARED * rng.standard_normal(DAYS + 30) + NOISE * rng.standard_normal((DEPOTS, DAYS + 30))
    rows = [
        f"D{depot:02d},{FIRST + timedelta(day)},{round(level(depot, day) * np.exp(noise[depot, day]))}"
        for day in range(DAYS + 30)
        for depot in range(DEPOTS)
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows[: DAYS * DEPOTS], ""]), "utf-8")
    (folder / "later.csv").write_text("\n".join([*rows[DAYS * DEPOTS :], ""]), "utf-8")
    cities = [f"D{depot:02d},{('Ulm', 'Bonn', 'Kiel')[depot % 3]}" for depot in range(DEPOTS)]
    (folder / "depots.csv").write_text("\n".join(["depot_id,city", *cities, ""]), "utf-8")
    known = Known(file, {})
    run = begin(known, 0)
    with run.ends_in_an_outcome():
        steps.ingest(run)
        _, panel = steps.panel(run)
        candidate = untrained(panel)
        for factor in factors:
            known.bundles[factor] = _write_bundle(known.spec, panel, _scaled(candidate, factor))
        run.promote(known.bundles[factors[0]])
        run.settle(
            {"tier": "fresh", "note": None, "trouble": None, "remark": None, "bundle_digest": None, "depots": 1}
            | {"model": "known", "publication_id": None}
        )
    return known


def _write_bundle(spec: Spec, panel: Panel, candidate: Candidate) -> str:
    """Write a bundle without the checks of an export, which cost more than the graph."""
    about = {**to_onnx.about(candidate), "pipeline": spec.name, "depots": list(panel.depot_ids)}
    signer = keys.signer(spec.paths.folder)
    graph, weights = onnx_cache.graph(candidate, spec), to_onnx.weights(candidate)
    return bundles.write(spec.paths.bundles, graph, weights, about, signer).name


def _scaled(candidate: Candidate, factor: float) -> Candidate:
    """Return a model that forecasts `factor` times the same weekdays before (its anchor), with a
    range around it."""
    members = candidate.parameters["members"]
    bias = np.full_like(members["out"]["bias"], -2.0)
    bias[:, LEVELS.index(0.5)] = np.log(factor)
    out = {**members["out"], "kernel": np.zeros_like(members["out"]["kernel"]), "bias": bias}
    return replace(candidate, parameters={**candidate.parameters, "members": {**members, "out": out}})


def at(day: int) -> datetime:
    """Return the morning a number of days after the first night."""
    last = FIRST + timedelta(days=DAYS - 1 + day)
    return datetime(last.year, last.month, last.day, 3, 15, tzinfo=UTC) + timedelta(days=1)


def begin(known: Known, day: int) -> Night:
    """Begin a night that trains nothing, and knows the counts of `day` more days."""
    folder = known.file.parent
    before = (folder / "demand.csv").read_text("utf-8").splitlines()
    wanted = 1 + (DAYS + day) * DEPOTS
    later = (folder / "later.csv").read_text("utf-8").splitlines()
    rows = [*before, *later[len(before) - 1 - DAYS * DEPOTS :]][:wanted]
    (folder / "demand.csv").write_text("\n".join([*rows, ""]), "utf-8")
    return Night.begin(str(known.file), at(day), trains=False)


def run_night(known: Known, day: int, then: Callable[[Night, Panel], None] = lambda *_: None) -> Night:
    """Run a night without training, recording or child processes; `then` runs before its
    prediction."""
    night, built = begin(known, day), list[Panel]()

    def panel(run: Night) -> Any:
        knowledge, of_night = steps.panel(run)
        built.append(of_night)
        return knowledge, of_night

    def publish(run: Night) -> None:
        then(run, built[0])
        published = predict(run.spec, as_of=run.as_of, bundle=None, run_id=run.run_id, note=None)
        run.settle(published.report())

    taken: Any = SimpleNamespace(
        ingest=steps.ingest,
        panel=panel,
        judge=steps.judge,
        preview=steps.preview,
        predict=publish,
        register=lambda _: None,
    )
    return night.run(lambda: lines.nightly(night, taken))


def admit(known: Known, factor: float, backtested: float | None = None) -> Callable[[Night, Panel], None]:
    """Return the steps of a night with a bundle that the gate admitted, and with the backtest of
    the bundle `backtested`."""

    def then(night: Night, panel: Panel) -> None:
        of_champion, of_candidate = known.bundles[1.0], known.bundles[backtested or factor]
        scored = {
            name: _scores(night.spec, panel, name, digest)
            for name, digest in (("candidate", of_candidate), ("champion", of_champion))
        }
        append_scores(scored, Lake.of(night.spec), run_id=night.run_id, now=datetime.now(UTC))
        exported: Any = SimpleNamespace(folder=night.spec.paths.bundle(known.bundles[factor]))
        steps.promote(night, exported, panel)

    return then


def _scores(spec: Spec, panel: Panel, model: str, digest: str) -> Scores:
    predictor = Predictor(bundles.load(spec.paths.bundle(digest), spec.paths.folder))
    cutoffs = [panel.cutoff - timedelta(days=3 * number) for number in range(9, 0, -1)]
    folds = tuple(Fold(predictor(panel.at(cutoff)), panel.actuals(cutoff)) for cutoff in cutoffs)
    scale = seasonal_scale(panel.demand, panel.open[:, : panel.history])
    return Scores(model, folds, measure(folds, scale), scale)


def said(known: Known, day: int, factor: float) -> dict[tuple[str, date], tuple[float, ...]]:
    """Return a bundle's forecast for each depot and day on a morning."""
    spec = known.spec
    panel = panels.build(read_as_of(spec, as_of=at(day)), spec)
    forecast = Predictor(bundles.load(spec.paths.bundle(known.bundles[factor]), spec.paths.folder))(panel)
    return {
        (depot, target): tuple(map(float, forecast.quantiles[row, step]))
        for row, depot in enumerate(forecast.depot_ids)
        for step, target in enumerate(forecast.target_dates)
    }


def shown(known: Known) -> Publication:
    with Ledger.open_reader(known.spec.ledger_url) as ledger:
        head = ledger.current(known.spec.name)
        assert head is not None
        return ledger.whole(head)


def trials(known: Known) -> tuple[CanaryTrial, ...]:
    with Ledger.open_reader(known.spec.ledger_url) as ledger, ledger.transaction() as connection:
        return canaries.history(connection, known.spec.name)
