"""Run report (Prefect artifact) for people: a page of Markdown, and a table of its depots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flows.night import Night
from forecaster.core.forecast import Verdict
from forecaster.core.terminal import count
from forecaster.ledger.store import Ledger
from forecaster.reports.run_measures import measured

SHOWN = ("mape", "wape", "mase", "bias", "coverage")


def markdown(night: Night) -> str:
    """Return outcome, stage times, scores, verdict, measures and findings."""
    return "\n".join(_lines(night)) + "\n"


def depots(night: Night) -> list[dict[str, Any]]:
    """Return one row per depot of the publication: tomorrow's orders with their 80 % interval, and
    drivers."""
    number = night.publication.get("publication_id")
    if number is None:
        return []
    with Ledger.open_reader(night.spec.ledger_url) as ledger:
        head, published = ledger.current(night.spec.name), ledger.depots(number)
    if head is None or head.publication_id != number:
        return []
    low, middle, high = (head.levels.index(level) for level in (0.1, 0.5, 0.9))
    rows = []
    for depot in published:
        day = depot.days[0]
        rows.append(
            {
                "depot": depot.depot_id,
                "day": day.target_date.isoformat(),
                "orders": round(day.quantiles[middle]),
                "80 %": f"{day.quantiles[low]:.0f} to {day.quantiles[high]:.0f}" if day.open else "closed",
                "drivers": day.drivers,
            }
        )
    return rows


def _lines(night: Night) -> Iterator[str]:
    local = night.as_of.astimezone(night.spec.zone)
    yield f"# {night.spec.name}: {night.outcome}"
    yield f"\nRun `{night.run_id}` ({night.kind}), as of {local:%Y-%m-%d %H:%M} {night.spec.timezone}."
    if night.publication:
        page = night.publication
        depots = count(page["depots"], "depot")
        yield f"\n{depots} from {page['model']}, tier **{page['tier']}**, cutoff {page['cutoff']}."
    if night.message:
        yield f"\n> {night.message}"
    if night.progress.timings:
        yield "\n## Stages\n\n| stage | seconds |\n|---|---|"
        yield from (f"| {stage} | {seconds:.1f} |" for stage, seconds in night.progress.timings.items())
    if night.verdict is not None:
        yield from _score_lines(night.verdict)
    if lines := list(measured(night.measures)):
        yield "\n## Measures\n\n| measure | value | |\n|---|---|---|"
        yield from (f"| {name} | {value} | {meaning} |" for name, value, meaning in lines)
    if night.findings:
        yield "\n## Findings\n\n| severity | rule | count | |\n|---|---|---|---|"
        for finding in night.findings:
            yield f"| {finding.severity} | {finding.rule} | {finding.count} | {finding.message} |"


def _score_lines(verdict: Verdict) -> Iterator[str]:
    yield f"\n## Scores\n\n| model | {' | '.join(SHOWN)} |\n|---|{'---|' * len(SHOWN)}"
    for model, metrics in verdict.compared.items():
        yield f"| {model} | " + " | ".join(f"{metrics[name]:.4f}" for name in SHOWN) + " |"
    yield f"\nThe candidate {verdict.sentence()}."
