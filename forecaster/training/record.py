"""Experiment record of a night's model: parameters, metrics in all and by segment, figures, and a report page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime

from forecaster import __version__
from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Scores, Verdict
from forecaster.core.panel import Panel
from forecaster.evaluation import segments
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from forecaster.reports import run_figures, run_report
from forecaster.serving import totals
from forecaster.training.backtest import CANDIDATE, CHAMPION, NAIVE
from forecaster.training.export import ExportedBundle

BY_PART = ("wape", "bias", "coverage", "days")  # what the registry is told of each part; the files hold all metrics
# What it came to, where the pipeline file leaves it open.
TRAINED = ("epochs", "steps_an_epoch", "batch", "members", "recurrence", "prior")
LABELS = 50  # of a part that are told, the largest; beyond, the files


def record(
    candidate: Candidate,
    panel: Panel,
    scores: Mapping[str, Scores],
    verdict: Verdict,
    exported: ExportedBundle | None,
    spec: Spec,
    *,
    run_id: str,
    as_of: datetime,
    versions: Mapping[str, int],
) -> str:
    """Write down what the registry is to be told of the night (`outbox.send`); gives its report as HTML."""
    candidate_scores, summary = scores[CANDIDATE], candidate.summary
    parts, total_metrics = segments.parts(candidate_scores, panel), totals.score_totals(candidate_scores.folds, panel)
    metrics = {f"{name}/{metric}": v for name, of_model in scores.items() for metric, v in of_model.metrics.items()}
    metrics |= {f"train_{key}": summary[key] for key in ("seconds", "compile_seconds", "compile_misses")}
    metrics |= {f"{CANDIDATE}/{name}": v for name, v in total_metrics.items()}
    metrics |= _of_parts(parts)
    if exported is not None:
        metrics["parity"] = exported.parity.largest
        metrics |= {f"parity/{case}".replace(",", ""): v for case, v in exported.parity.cases.items()}
    parameters = {f"{part}.{key}": str(v) for part in ("model", "training") for key, v in getattr(spec, part)}
    parameters |= {f"trained.{key}": summary[key] for key in TRAINED if key in summary}
    run_record = Record(
        run_id=run_id,
        parameters={**parameters, "as_of": as_of.isoformat(), "cutoff": panel.cutoff, "depots": len(panel.depot_ids)},
        metrics=metrics,
        epochs=tuple(
            _metrics(losses | costs) for losses, costs in zip(summary["history"], summary["measured"], strict=True)
        ),
        tags={
            "spec_digest": spec.digest,
            "lake_versions": str(dict(versions)),
            "verdict": verdict.sentence()[:4000],
            "device": str(summary["device"]),
            "forecaster": __version__,
        },
        inputs=dict(versions),
        bundle=exported.folder.name if exported else None,
    )
    figures = _figures(scores, panel)
    review = run_report.GateReview(run_id, as_of, scores, verdict, total_metrics)
    page = run_report.page(review, panel, figures, spec)
    files = {
        "report.html": page.encode(errors="replace"),
        "spec.json": _json(spec.model_dump(mode="json")),
        "parts.json": _json(parts),
        "depots.json": _json(segments.depots(candidate_scores, panel)),
    }
    outbox.enqueue(run_record, figures | files, spec)
    return page


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


def _of_parts(parts: Mapping[str, Mapping[str, segments.Metrics]]) -> dict[str, float]:
    """Metrics under names that MLflow takes: candidate/by_city/New York/wape."""
    metrics: dict[str, float] = {}
    for part, labels in parts.items():
        largest = sorted(labels, key=lambda label: -labels[label]["days"])[:LABELS]
        for label in [label for label in labels if label in largest]:
            name = re.sub(r"[^\w. :-]", "_", label)[:100]
            metrics |= {f"{CANDIDATE}/by_{part.replace(' ', '_')}/{name}/{m}": labels[label][m] for m in BY_PART}
    return metrics


def _metrics(epoch: Mapping[str, float]) -> dict[str, float]:
    """What an epoch told, under the names of `metric_names.METRICS`."""
    names = {"loss": "train_loss", "validation": "validation_loss"}
    return {names.get(key, key): value for key, value in epoch.items() if key != "number"}


def _json(value: Mapping[str, object]) -> bytes:
    def plain(content: object) -> object:
        if isinstance(content, Mapping):
            return {key: plain(inner) for key, inner in content.items()}
        return None if content != content else content  # JSON knows no NaN

    return json.dumps(plain(value), indent=1, ensure_ascii=False).encode()
