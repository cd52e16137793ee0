"""Review page of a night's model: the gate's verdict, the scores compared with its rivals', the
plots."""

from __future__ import annotations

import base64
import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forecaster.config import Spec
from forecaster.core.forecast import Scores, Verdict
from forecaster.core.metric_names import METRICS
from forecaster.core.panel import Panel
from forecaster.evaluation import segments
from forecaster.evaluation.metrics import scored
from forecaster.reports.finding_examples import printable
from forecaster.reports.html import Element, document, tag
from forecaster.reports.run_measures import measured

COLUMNS = ("mape", "wape", "mase", "bias", "wql", "coverage", "width", "days")
WORST = 10  # depots
PICTURES = {
    "forecasts.png": "Forecasts with their 80 % interval, and what came: the best depot, the worst, and some between.",
    "calibration.png": "How often actuals lay at or below each quantile level; on the diagonal it holds its promise.",
    "errors.png": "WAPE by days ahead and by weekday.",
    "candidate_against_naive.png": "Each depot's WAPE against the seasonal naive one's: below the line ours is better.",
    "candidate_against_champion.png": "Each depot's WAPE against the champion's: below the line, better.",
}


@dataclass(frozen=True)
class GateReview:
    """The gate's review of a candidate: scores and verdict."""

    run_id: str
    as_of: datetime
    scores: Mapping[str, Scores]  # the candidate's first
    verdict: Verdict
    totals: Mapping[str, Mapping[str, float]]  # from `score_totals`
    # measures of the night so far (`metric_names.OF_RUNS`)
    measures: Mapping[str, Any] = field(default_factory=dict)


def page(review: GateReview, panel: Panel, pictures: Mapping[str, bytes], spec: Spec) -> str:
    """Return the page as HTML, with embedded pictures (PNG files by name)."""
    local = review.as_of.astimezone(spec.zone)
    subtitle = f"night {review.run_id}, as of {local:%Y-%m-%d %H:%M} {spec.timezone}, newest reading {panel.cutoff}"
    kind = "verdict" if review.verdict.admitted else "verdict stop"
    top = [tag("p", subtitle, of="soft"), tag("p", f"The candidate was {review.verdict.sentence()}.", of=kind)]
    return document(f"{spec.name}: how tonight's model did", top, _sections(review, panel, pictures))


def _sections(review: GateReview, panel: Panel, pictures: Mapping[str, bytes]) -> Iterator[Element]:
    candidate = next(iter(review.scores.values()))
    days = scored(candidate.folds, candidate.scale).day
    when = (
        f"{days.min()} to {days.max()}, each forecast from what was known at its cutoff." if len(days) else "No days."
    )
    rows = {name: scores.metrics for name, scores in review.scores.items()}
    meanings = tag("ul", *(tag("li", f"{name}: {METRICS[name].meaning}") for name in COLUMNS), of="soft")
    yield tag("section", tag("h2", "All on the same days"), tag("p", when, of="soft"), _table("model", rows), meanings)
    if review.totals:
        table = _table("sums of", review.totals, ("coverage", "bias", "width"))
        yield tag("section", tag("h2", "Totals of groups and weeks, from joint paths"), table)
    for name, content in pictures.items():
        source = "data:image/png;base64," + base64.b64encode(content).decode()
        picture = tag("img", src=source, alt=PICTURES[name], style="max-width: 100%; height: auto")
        yield tag("section", tag("figure", picture, tag("figcaption", PICTURES[name])))
    for part, metrics in segments.parts(candidate, panel).items():
        yield tag("section", tag("h2", f"By {part}"), _table(part, metrics))
    yield from _worst_depots(segments.depots(candidate, panel))
    if lines := list(measured(review.measures)):
        cells = [
            tag("tr", tag("th", name, scope="row", title=meaning), tag("td", value)) for name, value, meaning in lines
        ]
        yield tag("section", tag("h2", "What the night measured of itself"), tag("table", tag("tbody", *cells)))


def _worst_depots(metrics_of: Mapping[str, Mapping[str, float]]) -> Iterator[Element]:
    scored_depots = [depot for depot, metrics in metrics_of.items() if not math.isnan(metrics["wape"])]
    worst = {printable(d): metrics_of[d] for d in heapq.nlargest(WORST, scored_depots, lambda d: metrics_of[d]["wape"])}
    if worst:
        heading = f"The {len(worst)} depots of {len(metrics_of):,} with the highest WAPE"
        yield tag("section", tag("h2", heading), _table("depot", worst))


def _table(label: str, rows: Mapping[str, Mapping[str, float]], columns: Sequence[str] = COLUMNS) -> Element:
    right = "text-align: right; padding: .125rem .625rem"
    heads = [tag("th", name, scope="col", style=right, title=METRICS[name].meaning) for name in columns]
    table = tag("table", tag("thead", tag("tr", tag("th", label, scope="col", style="text-align: left"), *heads)))
    body = tag("tbody")
    for name, metrics in rows.items():
        cells = [tag("td", _number(column, metrics[column]), style=right) for column in columns]
        body.append(tag("tr", tag("th", name, scope="row", style="text-align: left; font-weight: 500"), *cells))
    table.append(body)
    return tag("div", table, of="wide", tabindex="0", role="region", aria_label=f"Metrics by {label}")


def _number(metric: str, value: float) -> str:
    if value != value:
        return "–"
    if metric == "days":
        return f"{value:,.0f}"
    if metric == "mase":
        return f"{value:.3f}"
    return f"{value:+.1%}" if metric.endswith("bias") else f"{value:.1%}"
