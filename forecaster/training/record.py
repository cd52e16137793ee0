"""Experiment record of a night's model: headline metrics, curves, tables, inputs, an example call,
and a report."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from forecaster import __version__
from forecaster.config import Spec, credentials
from forecaster.core.forecast import Candidate, Scores, Verdict
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from forecaster.reports import run_figures, run_notes, run_report, run_tables
from forecaster.serving import totals
from forecaster.training.backtest import CANDIDATE, CHAMPION, NAIVE
from forecaster.training.export import ExportedBundle
from forecaster.training.recording import input_tables, model_folder

# chosen values for settings that the pipeline file leaves open
TRAINED = ("epochs", "steps_an_epoch", "batch", "members", "recurrence", "prior")
# Read by `mlflow.load_table`; the first is the default for comparing runs in MLflow.
TABLES = ("depots.json", "parts.json", "epochs.json", "parity.json")


@dataclass(frozen=True)
class NightFacts:
    """Facts about a night at the time of its record."""

    run_id: str
    file: Path  # the pipeline file
    as_of: datetime
    began: datetime
    knowledge: Knowledge
    tier: str | None = None  # of its publication
    measures: Mapping[str, Any] | None = None  # measures of `metric_names.OF_RUNS`
    system: Sequence[Mapping[str, float]] = ()  # samples of the machine
    before: run_notes.ReigningBefore | None = None  # model that the candidate was compared with
    drift: run_notes.MeasuredDrift | None = None  # quoted in the model card


def record(
    candidate: Candidate,
    panel: Panel,
    scores: Mapping[str, Scores],
    verdict: Verdict,
    exported: ExportedBundle | None,
    spec: Spec,
    night: NightFacts,
) -> str:
    """Write the record of the night for the registry (`outbox.send`); return its report as HTML."""
    candidate_scores, summary = scores[CANDIDATE], candidate.summary
    total_metrics = totals.score_totals(candidate_scores.folds, panel, spec.levels)
    epochs = [_metrics(losses | costs) for losses, costs in zip(summary["history"], summary["measured"], strict=True)]
    tables = _tables(candidate_scores, scores, panel, total_metrics, epochs, exported)
    inputs = {name: v for name, v in night.knowledge.versions.items() if v >= 0}
    run_record = Record(
        run_id=night.run_id,
        parameters=_parameters(spec, summary, panel, night),
        metrics=run_tables.headline(scores, CANDIDATE),
        epochs=tuple({name: epoch[name] for name in run_tables.CURVES if name in epoch} for epoch in epochs),
        tags={
            "spec_digest": spec.digest,
            "lake_versions": str(inputs),
            "verdict": verdict.sentence()[:4000],
            "admitted": str(verdict.admitted).lower(),
            "device": str(summary["device"]),
            "forecaster": __version__,
        }
        | ({"tier": night.tier} if night.tier else {}),
        inputs=inputs,
        bundle=exported.folder.name if exported else None,
        description=credentials.hide(
            run_notes.description(
                verdict, scores, panel, night.tier, night.before, candidate=CANDIDATE, measured=night.drift
            )
        ),
        began=night.began.isoformat(),
        user=_user(),
        source=str(night.file.resolve()),
        datasets=(*input_tables.tables_read(night.knowledge), input_tables.held_out_days(candidate_scores)),
        tables=tuple(name for name in TABLES if name in tables),
        system=_system(night),
        example=model_folder.example(spec, night.knowledge, panel) if exported else None,
    )
    figures = _figures(scores, panel)
    review = run_report.GateReview(night.run_id, night.as_of, scores, verdict, total_metrics, night.measures or {})
    page = run_report.page(review, panel, figures, spec)
    files = {"report.html": page.encode(errors="replace"), "spec.json": _json(spec.model_dump(mode="json")), **tables}
    outbox.enqueue(run_record, figures | files, spec, model_folder.files(spec, night.knowledge) if exported else {})
    return page


def _parameters(spec: Spec, summary: Mapping[str, Any], panel: Panel, night: NightFacts) -> dict[str, Any]:
    """Return the settings of the pipeline file, and the values that training chose for open ones."""
    settings = {f"{part}.{key}": str(v) for part in ("model", "training") for key, v in getattr(spec, part)}
    trained = {f"trained.{key}": summary[key] for key in TRAINED if key in summary}
    boosted = summary.get("boosted", {})
    trees = {f"trained.trees_{key}": boosted[key] for key in ("weight", "ramps_mean") if boosted}
    night_parameters = {"as_of": night.as_of.isoformat(), "cutoff": panel.cutoff, "depots": len(panel.depot_ids)}
    return settings | trained | trees | night_parameters


def _tables(
    candidate: Scores,
    scores: Mapping[str, Scores],
    panel: Panel,
    total_metrics: Mapping[str, Mapping[str, float]],
    epochs: Sequence[Mapping[str, float]],
    exported: ExportedBundle | None,
) -> dict[str, bytes]:
    tables = {
        "parts.json": run_tables.parts(scores, CANDIDATE, panel, total_metrics),
        "depots.json": run_tables.depots(candidate, panel),
        "epochs.json": run_tables.epochs(epochs),
    }
    if exported is not None:
        tables["parity.json"] = run_tables.parity(exported.parity.largest, exported.parity.cases)
    return tables


def _figures(scores: Mapping[str, Scores], panel: Panel) -> dict[str, bytes]:
    figures = {
        "forecasts.png": run_figures.forecasts(scores[CANDIDATE], panel),
        "calibration.png": run_figures.calibration(scores),
        "errors.png": run_figures.errors(scores),
        "candidate_against_naive.png": run_figures.duel(scores[CANDIDATE], scores[NAIVE]),
    }
    if CHAMPION in scores:
        figures["candidate_against_champion.png"] = run_figures.duel(scores[CANDIDATE], scores[CHAMPION])
    return {name: run_figures.png(figure) for name, figure in figures.items() if figure is not None}


def _metrics(epoch: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of an epoch under the names of `metric_names.METRICS`."""
    names = {"loss": "train_loss", "validation": "validation_loss"}
    return {names.get(key, key): value for key, value in epoch.items() if key != "number"}


def _system(night: NightFacts) -> tuple[Mapping[str, float], ...]:
    """Return the samples of the machine; the last one also has the utilization of accelerators by
    the training, which is known only in total. The resources that processes used are in the ledger."""
    if not night.system:
        return ()
    busy = (night.measures or {}).get("device_utilisation", {})
    used = {f"gpu_{device}_utilization_percentage": 100 * share for device, share in busy.items()}
    return (*night.system[:-1], {**night.system[-1], **used})


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return ""


def _json(value: Mapping[str, object]) -> bytes:
    def plain(content: object) -> object:
        if isinstance(content, Mapping):
            return {key: plain(inner) for key, inner in content.items()}
        return None if content != content else content  # JSON has no NaN

    return json.dumps(plain(value), indent=1, ensure_ascii=False).encode()
