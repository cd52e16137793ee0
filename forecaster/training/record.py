"""Write a night's model down for those who review it: parameters, metrics in all and part by part, pictures, a page."""

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
from forecaster.reports.html import put
from forecaster.serving import totals
from forecaster.training.backtest import CANDIDATE, CHAMPION, NAIVE
from forecaster.training.export import Exported

BY_PART = ("wape", "bias", "coverage", "days")  # what the registry is told of each part; the files hold all metrics
# What it came to, where the pipeline file leaves it open.
TRAINED = ("epochs", "steps_an_epoch", "batch", "members", "recurrence")
LABELS = 50  # of a part that are told, the largest; beyond, the files


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
    """Write down what the registry is to be told of the night (`remember.tell`), and the page of the latest night."""
    mine, summary = scores[CANDIDATE], candidate.summary
    parts, summed = segments.parts(mine, panel), totals.measure(mine.folds, panel)
    metrics = {f"{name}/{metric}": v for name, found in scores.items() for metric, v in found.metrics.items()}
    metrics |= {f"train_{key}": summary[key] for key in ("seconds", "compile_seconds", "compile_misses")}
    metrics |= {f"{CANDIDATE}/{name}": v for name, v in summed.items()}
    metrics |= _of_parts(parts)
    if exported is not None:
        metrics["parity"] = exported.parity.largest
        metrics |= {f"parity/{case}".replace(",", ""): v for case, v in exported.parity.cases.items()}
    parameters = {f"{part}.{key}": str(v) for part in ("model", "training") for key, v in getattr(spec, part)}
    parameters |= {f"trained.{key}": summary[key] for key in TRAINED if key in summary}
    told = Record(
        run_id=run_id,
        parameters={**parameters, "as_of": as_of.isoformat(), "cutoff": panel.cutoff, "depots": len(panel.depot_ids)},
        metrics=metrics,
        epochs=tuple(_metrics(told | took) for told, took in zip(summary["history"], summary["measured"], strict=True)),
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
    drawn = _drawn(scores, panel)
    judged = run_report.Judged(run_id, as_of, scores, verdict, summed)
    page = run_report.page(judged, panel, drawn, spec)
    put(spec.paths.run_report, page)  # the latest one, for whoever has no registry at hand
    files = {
        "report.html": page.encode(errors="replace"),
        "spec.json": _json(spec.model_dump(mode="json")),
        "parts.json": _json(parts),
        "depots.json": _json(segments.depots(mine, panel)),
    }
    outbox.write_down(told, drawn | files, spec)


def _drawn(scores: Mapping[str, Scores], panel: Panel) -> dict[str, bytes]:
    figures = {
        "forecasts.png": run_figures.forecasts(scores[CANDIDATE], panel),
        "calibration.png": run_figures.calibration(scores),
        "errors.png": run_figures.errors(scores),
        "candidate_against_naive.png": run_figures.duel(scores[CANDIDATE], scores[NAIVE]),
    }
    if CHAMPION in scores:
        figures["candidate_against_champion.png"] = run_figures.duel(scores[CANDIDATE], scores[CHAMPION])
    return {name: run_figures.png(figure) for name, figure in figures.items()}


def _of_parts(parts: Mapping[str, Mapping[str, segments.Metrics]]) -> dict[str, float]:
    """Metrics under names that MLflow takes: candidate/by_city/New York/wape."""
    found: dict[str, float] = {}
    for part, labels in parts.items():
        largest = sorted(labels, key=lambda label: -labels[label]["days"])[:LABELS]
        for label in (each for each in labels if each in largest):
            name = re.sub(r"[^\w. :-]", "_", label)[:100]
            found |= {f"{CANDIDATE}/by_{part.replace(' ', '_')}/{name}/{m}": labels[label][m] for m in BY_PART}
    return found


def _metrics(epoch: Mapping[str, float]) -> dict[str, float]:
    """What an epoch told, under the names of `telemetry.METRICS`."""
    names = {"loss": "train_loss", "validation": "validation_loss"}
    return {names.get(key, key): value for key, value in epoch.items() if key != "number"}


def _json(value: Mapping[str, object]) -> bytes:
    def plain(each: object) -> object:
        if isinstance(each, Mapping):
            return {key: plain(inner) for key, inner in each.items()}
        return None if each != each else each

    return json.dumps(plain(value), indent=1, ensure_ascii=False).encode()
