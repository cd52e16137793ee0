"""Tables for the comparison of runs: metrics by model and part, by depot, by epoch, and the
headline.

A table is `{"columns": [...], "data": [[...], ...]}`, the format of `mlflow.log_table`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forecaster.core.forecast import Scores
from forecaster.core.metric_names import METRICS
from forecaster.core.panel import Panel
from forecaster.evaluation import segments

HEADLINE = ("wape", "mase", "bias", "coverage", "wql", "mape")  # metrics of the candidate
RIVALS = ("champion", "seasonal_naive")  # models of which only the WAPE is included
ALL = "all"
MOST_DEPOTS = 2000  # rows of the table of depots; those with the most scored days are kept
CURVES = ("train_loss", "validation_loss", "learning_rate", "depot_days_a_second")


def headline(scores: Mapping[str, Scores], candidate: str) -> dict[str, float]:
    """Return at most eight headline numbers of a model: its own metrics, and the WAPE of two rivals
    on the same days."""
    metrics = {f"{candidate}/{name}": scores[candidate].metrics[name] for name in HEADLINE}
    return metrics | {f"{rival}/wape": scores[rival].metrics["wape"] for rival in RIVALS if rival in scores}


def parts(
    scores: Mapping[str, Scores], candidate: str, panel: Panel, totals: Mapping[str, Mapping[str, float]]
) -> bytes:
    """Return all metrics of every model on all days, of the candidate by part, and of its totals
    over depots."""
    rows: list[dict[str, Any]] = [
        {"model": name, "part": ALL, "label": ALL, **of_model.metrics} for name, of_model in scores.items()
    ]
    for part, labels in segments.parts(scores[candidate], panel).items():
        rows += [{"model": candidate, "part": part, "label": label, **metrics} for label, metrics in labels.items()]
    rows += [{"model": candidate, "part": "sums of depots", "label": part, **sums} for part, sums in totals.items()]
    return table(rows)


def depots(scores: Scores, panel: Panel) -> bytes:
    """Return one row per depot, sorted by id, for comparison between runs."""
    metrics_of = segments.depots(scores, panel)
    cities = dict(zip(panel.depot_ids, panel.attributes.get("city", ("",) * len(panel.depot_ids)), strict=True))
    selection = sorted(metrics_of, key=lambda depot: -metrics_of[depot]["days"])[:MOST_DEPOTS]
    return table(
        {"depot": depot, **{name: metrics_of[depot].get(name) for name in (*HEADLINE, "days")}, "city": cities[depot]}
        for depot in sorted(selection)
    )


def epochs(curves: Sequence[Mapping[str, float]]) -> bytes:
    """Return all training metrics by epoch; the curves are a selection of them."""
    return table({"epoch": number, **epoch} for number, epoch in enumerate(curves, 1))


def parity(largest: float, cases: Mapping[str, float]) -> bytes:
    """Return the largest relative difference between ONNX and JAX, overall and by case."""
    rows = [("largest", largest), *cases.items()]
    return table({"case": case, METRICS["parity"].meaning: value} for case, value in rows)


def table(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a table; missing columns and NaN are empty."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    data = [[_plain(row.get(name)) for name in columns] for row in rows]
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False).encode(errors="replace")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value else None
    return value
