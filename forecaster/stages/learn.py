"""Tonight's model, from the panel to a bundle that may reign: train, backtest, judge, export, record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forecaster import totals
from forecaster.demand import panel as panels
from forecaster.errors import ForecasterError, MissingExtra, SpecError
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import baselines, calibrate, gate
from forecaster.lake import TABLES, Lake
from forecaster.model import compiling, export, hosts, train
from forecaster.model.epochs import Epoch
from forecaster.model.train import VALIDATION
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.spec import Spec
from forecaster.stages import remember
from forecaster.values import Candidate, Knowledge, Panel, Scores, Verdict

CANDIDATE, CHAMPION, NAIVE = "candidate", "champion", "seasonal_naive"
ALWAYS = (NAIVE, "seasonal_window_average")


@dataclass(frozen=True)
class Exported:
    """A bundle on disk that said what the trained model says."""

    folder: Path
    parity: float  # largest relative difference between ONNX and JAX


def fit(
    panel: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """A candidate trained and calibrated on what lies before the backtest's first cutoff.

    A training that was killed goes on from its checkpoint. `on_trouble` hears what else happened on the way; `profile`
    is a folder for a trace of two epochs.
    Raises NoUsableData when the history is too short, TrainingError when the loss stops being a number.
    """
    before = panel.at(backtests.cutoffs(panel, spec.backtest.days)[0])
    candidate = train_alone(panel, spec, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile)
    held_out = backtests.folds(export.forecaster(candidate), before, backtests.cutoffs(before, VALIDATION))
    factors = calibrate.factors(held_out)
    return replace(
        candidate,
        parameters={**candidate.parameters, "calibration": factors},
        summary={**candidate.summary, "calibration": factors.tolist()},
    )


def train_alone(
    panel: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """The candidate of `fit`, not yet calibrated. Its last checkpoint stays, from which `fit` picks it up."""
    before = panel.at(backtests.cutoffs(panel, spec.backtest.days)[0])
    return _together(before, spec, 0, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile)


def assist(spec: Spec, number: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """Train as host `number` of `training.hosts` beside the night's own, whose panel comes to this one.

    Raises SpecError where the pipeline file names no such host, TrainingError as `fit` does.
    """
    if spec.training.hosts is None:
        raise SpecError("training.hosts is not in the pipeline file: the night trains on its own machine alone")
    _together(None, spec, number, on_epoch=on_epoch)


def _together(
    panel: Panel | None,
    spec: Spec,
    number: int,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """Train as host `number`, with the others where there are any; each ends with the same candidate."""
    declared = spec.training.hosts
    compiling.configure(spec.state_folder / "jax_cache")
    hosts.join(hosts.Hosts(declared.coordinator, declared.count, number) if declared else None)
    try:
        return train.fit(
            hosts.agreed(panel, spec),
            spec,
            on_epoch=on_epoch,
            on_trouble=on_trouble,
            checkpoints=spec.state_folder / "checkpoints",
            profile=profile,
        )
    finally:
        hosts.part()


def backtest(
    candidate: Candidate,
    champion: Path | None,
    panel: Panel,
    knowledge: Knowledge,
    spec: Spec,
    *,
    on_model: Callable[[str], None] | None = None,
) -> tuple[dict[str, Scores], list[str]]:
    """The scores of candidate, baselines and champion on the same last days, which none of them trained on.

    `on_model` hears each one's name before it is fitted. The second value says why a champion or a declared baseline
    could not be compared, empty when all were.
    """
    levels, days = candidate.levels, spec.backtest.days
    tell = on_model or (lambda name: None)
    tell(CANDIDATE)
    scores = backtests.run({CANDIDATE: export.forecaster(candidate)}, panel, days)
    before, troubles = panel.at(backtests.cutoffs(panel, days)[0]), []
    for name in dict.fromkeys((*ALWAYS, *spec.backtest.baselines)):
        tell(name)
        try:
            scores |= backtests.run({name: _baseline(name, before, levels)}, panel, days)
        except MissingExtra as error:
            troubles.append(str(error))
    if champion is not None:
        tell(CHAMPION)
        try:
            reigning = Predictor(bundles.read(champion))
            its_panel = panels.build(knowledge, spec, reigning.bundle.encoding)
            scores |= backtests.run({CHAMPION: reigning}, its_panel, days)
        except ForecasterError as error:
            troubles.append(f"the champion could not be compared: {error}")
    return scores, troubles


def _baseline(name: str, before: Panel, levels: tuple[float, ...]) -> backtests.Predictor:
    if name == NAIVE:  # the one that goes out as the fallback
        return lambda panel: seasonal_naive(panel, levels)
    return baselines.fit(name, before, levels)


def judge(scores: Mapping[str, Scores], spec: Spec) -> Verdict:
    """The gate's verdict on the candidate."""
    rivals = {name: found for name, found in scores.items() if name != CANDIDATE}
    return gate.judge(scores[CANDIDATE], rivals, spec.gate)


def keep_scores(scores: Mapping[str, Scores], lake: Lake, *, run_id: str, now: datetime) -> int:
    """Append every fold's forecasts and actuals to the lake in one commit, so that any metric can be computed later."""
    tables = [_rows(found, run_id, now) for found in scores.values()]
    return lake.append("scores", pa.concat_tables(tables))


def _rows(scores: Scores, run_id: str, now: datetime) -> pa.Table:
    parts = []
    for fold in scores.folds:
        said = fold.forecast
        depots, horizon, levels = said.quantiles.shape
        count = depots * horizon
        days = np.asarray(said.target_dates, "datetime64[D]")
        columns = {
            "run_id": pa.repeat(run_id, count),
            "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
            "model": pa.repeat(scores.model, count),
            "cutoff": pa.repeat(pa.scalar(said.cutoff, pa.date32()), count),
            "depot_id": pa.array(np.repeat(np.asarray(said.depot_ids, object), horizon)),
            "target_date": pa.array(np.tile(days, depots)),
            "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
            "levels": lists(np.tile(np.asarray(said.levels, np.float64), (count, 1))),
            "quantiles": lists(said.quantiles.reshape(count, levels)),
            "actual": pa.array(fold.actuals.reshape(count), from_pandas=True),
        }
        parts.append(pa.table(columns).select(TABLES["scores"].names).cast(TABLES["scores"]))
    return pa.concat_tables(parts)


def _metrics(epoch: Mapping[str, float]) -> dict[str, float]:
    """What an epoch told, under the names of `telemetry.METRICS`."""
    names = {"loss": "train_loss", "validation": "validation_loss"}
    return {names.get(key, key): value for key, value in epoch.items() if key != "number"}


def lists(rows: NDArray[Any]) -> pa.Array:
    """A column of lists from a (rows, levels) array."""
    offsets = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))


def to_bundle(
    candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], knowledge: Knowledge, spec: Spec
) -> Exported:
    """Export the candidate, compare ONNX with JAX on a real batch, and only then write the bundle.

    Raises ExportError when they differ: such a model never reigns.
    """
    graph = export.to_graph(candidate)
    largest = export.parity(candidate, graph, panel)
    about = {
        **export.about(candidate),
        "pipeline": spec.name,
        "spec_digest": spec.digest,
        "lake_versions": {table: knowledge.versions[table] for table in ("demand", "depots", "events")},
        "cutoff": str(panel.cutoff),
        "depots": list(panel.depot_ids),
        "scores": {
            name: {key: float(f"{value:.6g}") for key, value in found.metrics.items() if value == value}
            for name, found in scores.items()
            if name != CHAMPION
        },
    }
    folder = bundles.write(bundle_folder(spec), graph, export.weights(candidate), about)
    bundles.read(folder)
    return Exported(folder, largest)


def bundle_folder(spec: Spec) -> Path:
    return spec.state_folder / "bundles"


def record(
    candidate: Candidate,
    panel: Panel,
    scores: Mapping[str, Scores],
    verdict: Verdict,
    exported: Exported | None,
    spec: Spec,
    *,
    run_id: str,
    as_of: datetime,
    versions: Mapping[str, int],
) -> None:
    """Write down what the registry is to be told of the night (`remember.tell`)."""
    from forecaster import pictures

    summary = candidate.summary
    metrics = {f"{name}/{metric}": v for name, found in scores.items() for metric, v in found.metrics.items()}
    metrics |= {f"train_{key}": summary[key] for key in ("seconds", "compile_seconds", "compile_misses")}
    metrics |= {f"{CANDIDATE}/{name}": v for name, v in totals.measure(scores[CANDIDATE].folds, panel).items()}
    if exported is not None:
        metrics["parity"] = exported.parity
    parameters = {f"{part}.{key}": str(v) for part in ("model", "training") for key, v in getattr(spec, part)}
    told = remember.Record(
        run_id=run_id,
        parameters={**parameters, "as_of": as_of.isoformat(), "cutoff": panel.cutoff, "depots": len(panel.depot_ids)},
        metrics=metrics,
        epochs=tuple(_metrics(told | took) for told, took in zip(summary["history"], summary["measured"], strict=True)),
        tags={
            "spec_digest": spec.digest,
            "lake_versions": str(dict(versions)),
            "verdict": verdict.sentence()[:4000],
            "device": str(summary["device"]),
        },
        inputs=dict(versions),
        bundle=exported.folder.name if exported else None,
    )
    drawn = {
        "forecasts.png": pictures.forecasts(scores[CANDIDATE], panel),
        "calibration.png": pictures.calibration(scores),
        "errors.png": pictures.errors(scores),
        "candidate_against_naive.png": pictures.duel(scores[CANDIDATE], scores[NAIVE]),
    }
    if CHAMPION in scores:
        drawn["candidate_against_champion.png"] = pictures.duel(scores[CANDIDATE], scores[CHAMPION])
    remember.write_down(told, {name: pictures.png(figure) for name, figure in drawn.items()}, spec)
