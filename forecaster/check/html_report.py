"""HTML report of a dry run in one self-contained file: the data profile, and plots for each kind of
finding."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from forecaster.check.dry_run import DryRun
from forecaster.check.text_report import render, verdict
from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.terminal import count
from forecaster.errors import SpecError
from forecaster.reports.finding_examples import (
    WHAT_HAPPENS,
    Evidence,
    by_severity,
    examples,
    findings_per_depot,
    printable,
    rows_of,
)
from forecaster.reports.html import Element, document, figure, tag, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISSING_PICTURES = "pictures need: pip install 'harbor-forecaster[train]'"
STATE_DEPOTS = 60
SHOWN_ROWS, SHOWN_BARS = 5, 20
LEGEND = " Red: findings. Band: the middle 80 % of the last 8 same weekdays. Grey: closed."


def write_page(dry_run: DryRun, file: Path | None, *, now: datetime) -> str:
    """Write the page and return a line with its location; by default it is check.html in the state
    folder.

    Raises SpecError when an explicitly named file cannot be written.
    """
    place = file or dry_run.spec.paths.check_report
    try:
        write_atomically(place, page(dry_run, now=now))
    except OSError as error:
        sentence = f"{place} cannot be written: {error.strerror}; wanted a writable file after --html"
        if file is not None:
            raise SpecError(f"--html: {sentence}") from error
        return f"page      {sentence}"
    return f"page      {place}" + ("" if pictures() else f"; {MISSING_PICTURES}")


def pictures() -> bool:
    """True if the plotting library is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def page(dry_run: DryRun, *, now: datetime) -> str:
    """The whole page as HTML."""
    name = dry_run.spec.name
    title = f"{name}: input of a night"
    local = now.astimezone(dry_run.spec.zone)
    subtitle = f"forecaster check, {local:%Y-%m-%d %H:%M} {dry_run.spec.timezone}"
    return document(
        title, [tag("p", subtitle, of="soft"), tag("p", verdict(dry_run), of="verdict")], _sections(dry_run)
    )


def _sections(dry_run: DryRun) -> Iterator[Element]:
    lines = [part for part in render(dry_run, tables=True) if isinstance(part, str)]
    yield tag("section", tag("h2", "In short"), tag("pre", "\n".join(lines), tabindex="0"))
    findings = by_severity(dry_run.ingested.findings) if dry_run.ingested else []
    if dry_run.evidence is not None and pictures():
        yield from _overview(dry_run.evidence, findings)
    elif dry_run.evidence is not None:
        yield tag("section", tag("p", f"{MISSING_PICTURES}."))
    for number, finding in enumerate(findings):
        yield _section(finding, number, dry_run)


def _overview(evidence: Evidence, findings: list[Finding]) -> Iterator[Element]:
    from forecaster.check import figures

    panel = evidence.panel
    span = f"{panel.days[0]} to {panel.cutoff}"
    description = f"Counts of all depots by day from {span}; in the foreground, the 7-day mean."
    yield tag("section", tag("h2", "The network, day by day"), figure(figures.network(panel), description, "network"))
    depots, which = _depots_to_draw(evidence, findings)
    labels = [printable(panel.depot_ids[depot], 24) for depot in depots]
    states, size = figures.state_heat_map(panel, depots, labels)
    binned = f" A column covers {size} days and is red if one of them is missing." if size > 1 else ""
    caption = tag("figcaption", which + binned)
    for state, colour in figures.STATE_COLOURS.items():
        key = tag("span", of="key", style=f"background: {colour}")
        caption.append(key)
        key.tail = state
    shape = figure(states, f"{which} Every day is observed, zero, closed or missing.", "states", caption)
    yield tag("section", tag("h2", "Every depot and day"), shape)
    if len(evidence.rows) and findings:
        yield from _by_file(evidence, findings)


def _depots_to_draw(evidence: Evidence, findings: list[Finding]) -> tuple[list[int], str]:
    """Depots whose states are drawn, as positions in the panel, and a description of the selection."""
    panel, count = evidence.panel, len(evidence.panel.depot_ids)
    if count <= STATE_DEPOTS:
        return list(range(count)), "All depots." if count > 1 else "The only depot."
    most_troubled = [depot for depot, _ in findings_per_depot(findings, evidence).most_common(STATE_DEPOTS)]
    first = [panel.depot_ids.index(depot) for depot in most_troubled]
    rest = [depot for depot in range(count) if depot not in set(first)]
    sample_size = STATE_DEPOTS - len(first)
    sample = [rest[i * len(rest) // sample_size] for i in range(sample_size)]
    description = f"{STATE_DEPOTS} of {count:,} depots: " + (
        f"the {len(first)} with the most findings" if first else ""
    )
    if sample:
        description += f"{' and ' if first else ''}{len(sample)} of the {len(rest):,} others, evenly sampled"
    return [*first, *sample], description + "."


def _by_file(evidence: Evidence, findings: list[Finding]) -> Iterator[Element]:
    from forecaster.check import figures

    row_counts: dict[str, int] = {}
    for finding in findings:
        for source, rows in rows_of(finding, evidence).groupby("source", sort=False):
            row_counts[f"{finding.rule} in {printable(str(source), 30)}"] = len(rows)
    if row_counts:
        most = sorted(row_counts.items(), key=lambda item: -item[1])[:SHOWN_BARS]
        numbers = ", ".join(f"{name} {number:,}" for name, number in most)
        description = f"Rows in quarantine by rule and file: {numbers}."
        shape = figures.bars([name for name, _ in most], [number for _, number in most])
        yield tag("section", tag("h2", "Quarantined rows, by rule and file"), figure(shape, description, "files"))


def _section(finding: Finding, number: int, dry_run: DryRun) -> Element:
    """Section of a finding: its severity, its first sentences, its pictures."""
    summary = f"{finding.count:,} found, {WHAT_HAPPENS[finding.severity]}"
    section = tag("section", tag("h2", f"{finding.rule}: ", tag("span", summary, of=finding.severity)))
    rows = list(rows_of(finding, dry_run.evidence)["message"]) if dry_run.evidence else []
    sentences = rows[:SHOWN_ROWS] or [finding.message]
    section.append(tag("ul", *(tag("li", printable(sentence, 600)) for sentence in sentences), of="said"))
    if len(rows) > SHOWN_ROWS:
        section.append(tag("p", f"The first {SHOWN_ROWS} of {len(rows):,}.", of="soft"))
    if dry_run.evidence and pictures():
        for count, (shape, description) in enumerate(_pictures(finding, dry_run.evidence, dry_run.spec)):
            section.append(figure(shape, description, f"finding-{number}-{count}"))
    return section


def _pictures(finding: Finding, evidence: Evidence, spec: Spec) -> Iterator[tuple[Figure, str]]:
    """Pictures of a finding, each with its description."""
    from forecaster.check import figures

    panel, limit, ages = evidence.panel, spec.demand.rules.late_days, evidence.ages
    if finding.rule == "late" and ages is not None and len(ages):
        late = int((ages > limit).sum())
        share = f"{late:,} of {len(ages):,} counts lie beyond {limit} days (demand.rules.late_days), the dashed line."
        yield (
            figures.reporting_delay(ages, limit),
            f"Delay between each day and the recording of its count, in days. {share}",
        )
    elif finding.rule == "thin_feed":
        yield figures.depots_reporting(panel), f"Number of depots with a count, by day up to {panel.cutoff}."
    elif finding.rule in ("covariate_missing", "covariate_outlier") and panel.encoding.covariates:
        description = f"Known-future covariates, as means over the depots; the days after {panel.cutoff} are shaded."
        yield figures.future_covariates(panel), description
    else:
        for number, example in enumerate(examples(finding, evidence)):
            days = list(example.days)
            when = f"{days[0]}" if len(days) == 1 else f"{count(len(days), 'day')} from {days[0]} to {days[-1]}"
            yield (
                figures.finding_context(panel, example, finding.rule),
                f"{printable(example.depot_id)}, {when}.{LEGEND if not number else ''}",
            )
