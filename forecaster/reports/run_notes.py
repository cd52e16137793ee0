"""Description of a run and its model in Markdown: the verdict, the scores compared with its
rivals', the differences from the previous champion, and the model card.

The card has the sections of Mitchell et al. (2019), "Model Cards for Model Reporting", as far as a
night records them: intended use, training data, limits, drift, and metrics by slice. Equal inputs
give an equal card: it is part of the bundle, whose digest must not change when a night is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from forecaster.core.forecast import Scores, Verdict
from forecaster.core.panel import Panel
from forecaster.core.terminal import count
from forecaster.evaluation import drift, input_drift, segments
from forecaster.reports.finding_examples import printable

MOST_NAMED = 8  # depots, or keys of the pipeline file
MOST_TEXT = 4000  # characters of a verdict
MOST_SLICES = 14  # slices of one kind
NOT_MEASURED, NO_LEVEL = "not measured", "0 above or below"
COLUMNS = {"mape": "MAPE", "wape": "WAPE", "mase": "MASE", "bias": "bias", "coverage": "80 % covers"}


@dataclass(frozen=True)
class ReigningBefore:
    """The champion that a candidate was compared with: the manifest of its bundle, and the changes
    of the pipeline file since."""

    bundle: str
    manifest: Mapping[str, Any]
    # path, before, now; None: its file is no longer available
    changed_keys: Sequence[tuple[str, Any, Any]] | None


@dataclass(frozen=True)
class MeasuredDrift:
    """Drift of earlier models' publications, as measured by a night."""

    day: date  # day of that night
    measures: Mapping[str, Any]  # measures of `metric_names.OF_RUNS`


def description(
    verdict: Verdict,
    scores: Mapping[str, Scores],
    panel: Panel,
    tier: str | None,
    before: ReigningBefore | None,
    *,
    candidate: str,
    measured: MeasuredDrift | None = None,
) -> str:
    """Return the whole description; `tier` is that of the night's publication, `candidate` the
    model of the card, `measured` the drift on the card."""
    verdict_text = printable(verdict.sentence(), MOST_TEXT)
    models = {name: of_model.metrics for name, of_model in scores.items()}
    published = f"The night's forecasts are out with tier {tier}. " if tier else ""
    files = "`report.html` among the artifacts has the plots, `parts.json` and `depots.json` have every metric."
    paragraphs = (
        f"**{verdict_text[:1].upper()}{verdict_text[1:]}.**",
        _table("model", models),
        _against(panel, before),
        published + files,
    )
    return "\n\n".join((*paragraphs, card(scores[candidate], panel, measured)))


def card(scores: Scores | None, panel: Panel, measured: MeasuredDrift | None) -> str:
    """Return the model card in Markdown; None means not measured."""
    paragraphs = (_about(panel), _drift(measured), _metrics(scores, panel))
    return "\n\n".join(("## Model card", *(text for part in paragraphs for text in part)))


def _about(panel: Panel) -> Iterator[str]:
    yield (
        f"**Intended use.** Quantiles of daily demand at each of {count(len(panel.depot_ids), 'depot')}, up to "
        f"{count(panel.horizon, 'day')} ahead, to plan crews and vans. Not for other series, and not for single orders."
    )
    is_open = panel.open[:, : panel.history]
    missing = float(np.isnan(panel.demand)[is_open].mean()) if is_open.any() else 0.0
    covariates = ", ".join((*panel.calendar_names, *panel.encoding.covariates)) or "none"
    yield (
        f"**Training data.** Daily counts from {panel.days[0]} to {panel.cutoff}, {missing:.1%} of those on open days "
        f"missing; covariates: {covariates}. `cutoff` and `lake_versions` of the bundle's manifest and the parameter "
        "`as_of` of the run in MLflow name the data exactly."
    )
    yield (
        "**Limits.** It learns an event that no covariate declares, a new depot, or a shift of level only from the "
        "counts after it. Metrics of slices with few days are uncertain. The gate judges each new model against this "
        "one. Who let it forecast is known only later: `forecaster champions` says so, and in MLflow the tags "
        "`promoted_by`, `promoted_at` and `promoted_because` of the version."
    )


def _drift(measured: MeasuredDrift | None) -> Iterator[str]:
    if measured is None:
        yield "**Drift** before this model: not measured."
        return
    yield (
        f"**Drift** before this model, measured on {measured.day}: significant differences from the past, of at least "
        f"{drift.LEAST_RATIO:.0%} at a depot and {drift.LEAST_GROUP_RATIO:.0%} in a city or the network."
    )
    measures, margin = measured.measures, f"{100 * input_drift.MARGIN:.0f} points"
    tested = f"{drift.ALERTED_SHARE:.0%} of {measures.get('depots_drift_tested', 'those')} tested"
    limits = {"depots": tested, "cities": NO_LEVEL, "network": NO_LEVEL, "covariates": "0"}
    rows = [(name, _drifted(measures.get(f"{name}_drifted")), limit) for name, limit in limits.items()]
    now, usual = measures.get("days_lacking", {}), measures.get("days_lacking_usual", {})
    for kind in ("unknown", "closed"):
        usual_share = f"{usual[kind]:.1%}" if kind in usual else "the share"
        share = f"{now[kind]:.1%}" if kind in now else NOT_MEASURED
        rows.append((f"{kind} days", share, f"{margin} from {usual_share} of the year before"))
    lines = (f"| {' | '.join(row)} |" for row in (("drift of", "measured", "limit"), ("---", "---", "---"), *rows))
    yield "\n".join(lines)


def _drifted(number: int | Mapping[str, int] | None) -> str:
    """Return the number of drifting items and, if there are several directions, the number in each."""
    if number is None:
        return NOT_MEASURED
    if not isinstance(number, Mapping):
        return str(number)
    directions = ", ".join(f"{of} {name.replace('_', ' ')}" for name, of in number.items() if of)
    return f"{sum(number.values())}" + (f" ({directions})" if directions else "")


def _metrics(scores: Scores | None, panel: Panel) -> Iterator[str]:
    held_out = sorted({day for fold in scores.folds for day in fold.forecast.target_dates}) if scores else []
    if scores is None or not held_out:
        yield "**Metrics**: not measured."
        return
    days = f"{count(len(held_out), 'day')} from {held_out[0]} to {held_out[-1]}"
    yield f"**Metrics** of days that training did not see, {days}, by slice:"
    # the prior is scored on a sample of a large fleet
    scored, overall = scores.folds[0].forecast.depot_ids, {"all": scores.metrics}
    of_parts = segments.parts(scores, panel if scored == panel.depot_ids else panel.among(scored))
    slices = {
        f"{part}: {printable(label)}": metrics
        for part, labels in of_parts.items()
        for label, metrics in list(labels.items())[:MOST_SLICES]
    }
    yield _table("slice", overall | slices)


def _table(heading: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    lines = [f"| {heading} | {' | '.join(COLUMNS.values())} |", "| --- |" + " ---: |" * len(COLUMNS)]
    lines += [
        f"| {name} | " + " | ".join(_number(metric, metrics[metric]) for metric in COLUMNS) + " |"
        for name, metrics in rows.items()
    ]
    return "\n".join(lines)


def _number(metric: str, value: float) -> str:
    if value != value:
        return "–"
    if metric == "mase":
        return f"{value:.3f}"
    return f"{value:+.1%}" if metric == "bias" else f"{value:.1%}"


def _against(panel: Panel, before: ReigningBefore | None) -> str:
    if before is None:
        return "What changed: there was no champion before it."
    lines = "\n".join(f"- {line}" for line in _changes(panel, before))
    return f"What changed since the champion before it, bundle `{before.bundle}`:\n\n{lines}"


def _changes(panel: Panel, before: ReigningBefore) -> Iterator[str]:
    cutoff = date.fromisoformat(str(before.manifest["cutoff"]))
    days = (panel.cutoff - cutoff).days
    yield f"newest reading: {panel.cutoff}, " + (f"then {cutoff}, {count(days, 'day')} before" if days else "as then")
    earlier_depots, now = set(before.manifest["depots"]), set(panel.depot_ids)
    yield f"depots: {_names('new', now - earlier_depots)}, {_names('gone', earlier_depots - now)}"
    if before.changed_keys is None:
        yield "pipeline file: that of then is not kept any more"
        return
    if not before.changed_keys:
        yield "pipeline file: the same"
    for path, then, value in before.changed_keys[:MOST_NAMED]:
        yield f"pipeline file, `{path}`: {printable(str(then))[:80]} → {printable(str(value))[:80]}"
    if len(before.changed_keys) > MOST_NAMED:
        yield f"pipeline file: {count(len(before.changed_keys) - MOST_NAMED, 'further key')}"


def _names(state: str, depots: set[str]) -> str:
    if not depots:
        return f"none {state}"
    some = ", ".join(printable(depot) for depot in sorted(depots)[:MOST_NAMED])
    return f"{len(depots)} {state} ({some}{', …' if len(depots) > MOST_NAMED else ''})"
