"""Write a trial down as one HTML page that needs nothing else: the profile, and a picture for each kind of finding."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from forecaster.check.dry_run import Trial
from forecaster.check.text_report import told, verdict
from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.errors import SpecError
from forecaster.reports.finding_examples import WHAT_HAPPENS, Evidence, by_severity, places, rows_of, shown, troubled
from forecaster.reports.html import Element, document, figure, put, tag

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISSING_PICTURES = "pictures need: pip install 'forecaster[train]'"
STATE_DEPOTS = 60
SHOWN_ROWS, SHOWN_BARS = 5, 20
LEGEND = " Red: what was found. Band: the middle 80 % of the last 8 same weekdays. Grey: closed."


def written(trial: Trial, file: Path | None, *, now: datetime) -> str:
    """Write the page and say where it is; by default it is check.html in the state folder.

    Raises SpecError when a file was named that cannot be written.
    """
    place = file or trial.spec.paths.check_report
    try:
        put(place, page(trial, now=now))
    except OSError as error:
        sentence = f"{place} cannot be written: {error.strerror}; wanted a file of yours after --html"
        if file is not None:
            raise SpecError(f"--html: {sentence}") from error
        return f"page      {sentence}"
    return f"page      {place}" + ("" if pictures() else f"; {MISSING_PICTURES}")


def pictures() -> bool:
    """Is there what draws pictures?"""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def page(trial: Trial, *, now: datetime) -> str:
    """The whole page as HTML."""
    name = trial.spec.name
    title = f"{name}: what a night would start from"
    local = now.astimezone(trial.spec.zone)
    tried = f"forecaster check, {local:%Y-%m-%d %H:%M} {trial.spec.timezone}"
    return document(title, [tag("p", tried, of="soft"), tag("p", verdict(trial), of="verdict")], _sections(trial))


def _sections(trial: Trial) -> Iterator[Element]:
    lines = [part for part in told(trial, tables=True) if isinstance(part, str)]
    yield tag("section", tag("h2", "In short"), tag("pre", "\n".join(lines), tabindex="0"))
    findings = by_severity(trial.ingested.findings) if trial.ingested else []
    if trial.evidence is not None and pictures():
        yield from _overview(trial.evidence, findings)
    elif trial.evidence is not None:
        yield tag("section", tag("p", f"{MISSING_PICTURES}."))
    for number, finding in enumerate(findings):
        yield _section(finding, number, trial)


def _overview(evidence: Evidence, findings: list[Finding]) -> Iterator[Element]:
    from forecaster.check import figures as drawn

    panel = evidence.panel
    said = f"What all depots counted each day from {panel.days[0]} to {panel.cutoff}; in front the mean of 7 days."
    yield tag("section", tag("h2", "The network, day by day"), figure(drawn.network(panel), said, "network"))
    depots, which = _chosen(evidence, findings)
    labels = [shown(panel.depot_ids[depot], 24) for depot in depots]
    states, size = drawn.four_states(panel, depots, labels)
    binned = f" A column is {size} days, and red when one of them is missing." if size > 1 else ""
    caption = tag("figcaption", which + binned)
    for state, colour in drawn.STATE_COLOURS.items():
        key = tag("span", of="key", style=f"background: {colour}")
        caption.append(key)
        key.tail = state
    shape = figure(states, f"{which} Every day is observed, zero, closed or missing.", "states", caption)
    yield tag("section", tag("h2", "Every depot and day"), shape)
    if len(evidence.rows) and findings:
        yield from _by_file(evidence, findings)


def _chosen(evidence: Evidence, findings: list[Finding]) -> tuple[list[int], str]:
    """The depots whose states are drawn, as places in the panel, and in words which they are."""
    panel, count = evidence.panel, len(evidence.panel.depot_ids)
    if count <= STATE_DEPOTS:
        return list(range(count)), "All depots." if count > 1 else "The only depot."
    found = [depot for depot, _ in troubled(findings, evidence).most_common(STATE_DEPOTS)]
    first = [panel.depot_ids.index(depot) for depot in found]
    rest = [depot for depot in range(count) if depot not in set(first)]
    wanted = STATE_DEPOTS - len(first)
    sample = [rest[i * len(rest) // wanted] for i in range(wanted)]
    words = f"{STATE_DEPOTS} of {count:,} depots: " + (f"the {len(first)} with the most findings" if first else "")
    if sample:
        words += f"{' and ' if first else ''}{len(sample)} of the {len(rest):,} others, evenly taken"
    return [*first, *sample], words + "."


def _by_file(evidence: Evidence, findings: list[Finding]) -> Iterator[Element]:
    from forecaster.check import figures as drawn

    counted: dict[str, int] = {}
    for finding in findings:
        for source, rows in rows_of(finding, evidence).groupby("source", sort=False):
            counted[f"{finding.rule} in {shown(str(source), 30)}"] = len(rows)
    if counted:
        most = sorted(counted.items(), key=lambda item: -item[1])[:SHOWN_BARS]
        said = "Rows in quarantine by rule and file: " + ", ".join(f"{name} {number:,}" for name, number in most) + "."
        shape = drawn.bars([name for name, _ in most], [number for _, number in most])
        yield tag("section", tag("h2", "Rows kept aside, by rule and file"), figure(shape, said, "files"))


def _section(finding: Finding, number: int, trial: Trial) -> Element:
    """A finding: how grave it is, its first sentences, its pictures."""
    what = f"{finding.count:,} found, {WHAT_HAPPENS[finding.severity]}"
    found = tag("section", tag("h2", f"{finding.rule}: ", tag("span", what, of=finding.severity)))
    rows = list(rows_of(finding, trial.evidence)["message"]) if trial.evidence else []
    sentences = rows[:SHOWN_ROWS] or [finding.message]
    found.append(tag("ul", *(tag("li", shown(sentence, 600)) for sentence in sentences), of="said"))
    if len(rows) > SHOWN_ROWS:
        found.append(tag("p", f"The first {SHOWN_ROWS} of {len(rows):,}.", of="soft"))
    if trial.evidence and pictures():
        for count, (shape, said) in enumerate(_drawn(finding, trial.evidence, trial.spec)):
            found.append(figure(shape, said, f"finding-{number}-{count}"))
    return found


def _drawn(finding: Finding, evidence: Evidence, spec: Spec) -> Iterator[tuple[Figure, str]]:
    """The pictures of a finding, each with what it shows."""
    from forecaster.check import figures as drawn

    panel, limit, ages = evidence.panel, spec.demand.rules.late_days, evidence.ages
    if finding.rule == "late" and ages is not None and len(ages):
        late = int((ages > limit).sum())
        said = f"Days from each day to the recording of its count. {late:,} of {len(ages):,} counts lie beyond {limit} "
        yield drawn.lateness(ages, limit), said + "days (demand.rules.late_days), the dashed line."
    elif finding.rule == "thin_feed":
        yield drawn.reporting(panel), f"How many depots have a count, day by day up to {panel.cutoff}."
    elif finding.rule == "covariate_missing" and panel.encoding.covariates:
        said = f"Known-future covariates, as means over the depots; the days after {panel.cutoff} are shaded."
        yield drawn.ahead(panel), said
    else:
        for number, place in enumerate(places(finding, evidence)):
            days = list(place.days)
            when = f"{days[0]}" if len(days) == 1 else f"{len(days):,} days from {days[0]} to {days[-1]}"
            yield (
                drawn.around(panel, place, finding.rule),
                f"{shown(place.depot_id)}, {when}.{LEGEND if not number else ''}",
            )
