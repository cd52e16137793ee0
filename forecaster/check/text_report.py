"""Text report of a dry run on one screen: at most 40 lines of 100 columns, for terminals and pipes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from forecaster.check.dry_run import DryRun
from forecaster.check.profile import STATES, Profile
from forecaster.core.knowledge import Finding
from forecaster.core.terminal import count
from forecaster.demand.ingest import IngestResult
from forecaster.reports.finding_examples import by_severity, printable

WIDTH = 100
MOST_FINDINGS = 7
RULES_IN_A_LINE = 5
SPARKS = ("▁▂▃▄▅▆▇█", "_.-=+*#@")  # second one in ASCII
MARKS = ("█0·!", "#0.!")  # one for each of STATES
_BAR, _SPARKS, _ID = 20, 48, 20
_LINES_A_FINDING = 2
_PADDING = 14  # width of the table's padding


def render(dry_run: DryRun, *, tables: bool, width: int = WIDTH, ascii_only: bool = False) -> Iterator[str | Table]:
    """Render the report of a dry run, as a sequence of lines and tables; without `tables` every
    finding is a plain line.

    `width` is that of the screen, in characters; the last line is the verdict.
    """
    spec, ingested = dry_run.spec, dry_run.ingested
    yield f"pipeline  {spec.name}: the file is valid (digest {spec.digest[:12]})"
    for source in dry_run.sources:
        rows = "can be read" if source.rows is None else _counted(source.rows, "row")
        yield f"source    {source.place}: {source.fault or f'{source.name}, {rows}'}"
    if ingested is not None:
        yield (
            f"contract  {count(ingested.read, 'row')} read = {ingested.accepted:,} accepted + "
            f"{ingested.unchanged:,} unchanged + {ingested.quarantined:,} quarantined"
        )
        if ingested.left_out:
            yield f"where     {count(ingested.left_out, 'row')} left out by demand.where"
        if ingested.stopped:
            yield printable(f"stopped   {ingested.stopped}: no row of this batch counts", _LINES_A_FINDING * width)
        yield from _findings(ingested, tables, width)
    if dry_run.profile is not None:
        yield from (printable(line, WIDTH) for line in _profile(dry_run.profile, ascii_only))
    for sentence in (*dry_run.contradictions, *dry_run.caveats):
        yield f"caveat    {sentence}"


def verdict(dry_run: DryRun) -> str:
    """Last line: whether a forecast can start from this data."""
    if dry_run.fault:
        return f"not usable: {dry_run.fault}"
    but = f"usable, but {printable(dry_run.caution, _LINES_A_FINDING * WIDTH)}" if dry_run.caution else "usable"
    return f"{but}; nothing else was changed"


def suspects(dry_run: DryRun, width: int = WIDTH) -> list[str]:
    """Suspicions about the readings, as plain lines; empty if there are none."""
    if dry_run.ingested is None or not dry_run.ingested.findings:
        return []
    return [str(line) for line in _findings(dry_run.ingested, False, width)]


def _findings(ingested: IngestResult, tables: bool, width: int) -> Iterator[str | Table]:
    findings = by_severity(ingested.findings)
    first = findings[:MOST_FINDINGS]
    if not findings:
        yield "suspect   nothing"
        return
    yield f"suspect   {_counts(findings)}"
    if tables:
        yield _table(first, width)
    else:
        for finding in first:
            line = f"finding   {finding.rule} ({finding.severity}, {finding.count:,}): {finding.message}"
            yield printable(line, _LINES_A_FINDING * width)
    if more := findings[MOST_FINDINGS:]:
        yield f"          and {_counted(len(more), 'more finding')}, which the page shows"


def _counts(findings: Sequence[Finding]) -> str:
    """Number of findings by rule, highest first."""
    most = sorted(findings, key=lambda finding: -finding.count)
    counts = ", ".join(f"{finding.rule} {finding.count:,}" for finding in most[:RULES_IN_A_LINE])
    more = len(most) - RULES_IN_A_LINE
    return counts + (f" and {_counted(more, 'other rule')}" if more > 0 else "")


def _table(findings: Sequence[Finding], width: int) -> Table:
    """Table with one row per finding, of at most two lines."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("rule", "severity", "count", "the first of them"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="right" if name == "count" else "left")
    other_columns = (
        max(len(finding.rule) + len(f"{finding.count:,}") for finding in findings) + len("quarantine") + _PADDING
    )
    for finding in findings:
        sentence = printable(finding.message, _LINES_A_FINDING * width)
        lines = wrap(sentence, max(width - other_columns, 20), max_lines=_LINES_A_FINDING, placeholder=" …")
        table.add_row(*map(Text, (finding.rule, finding.severity, f"{finding.count:,}", "\n".join(lines))))
    return table


def _profile(profile: Profile, ascii_only: bool) -> Iterator[str]:
    silent = f", {profile.silent:,} of them without any count" if profile.silent else ""
    yield f"depots    {profile.depots:,}{silent}; attributes: {', '.join(profile.statics) or 'none'}"
    yield f"days      {profile.days:,}, {profile.first} to {profile.cutoff}: {profile.depot_days:,} depot days"
    yield f"states    {_bar(profile, MARKS[ascii_only])}"
    yield f"gaps      {_gaps(profile)}"
    yield f"counts    median {profile.median:,.0f} a day on {profile.open_days:,} open depot days"
    if profile.capped:
        yield f"capped    {_counted(profile.capped, 'count')} below demand; demand is estimated on these days"
    if profile.busiest:
        yield f"busiest   {_depots(profile.busiest)}"
    if profile.quietest:
        yield f"quietest  {_depots(profile.quietest)}"
    if profile.weekly:
        low, high = min(profile.weekly), max(profile.weekly)
        marks = _sparkline(profile.weekly, SPARKS[ascii_only])
        yield f"demand    {marks}  {_counted(len(profile.weekly), 'week')} of {low:,.0f} to {high:,.0f}"
    yield f"ahead     known covariates: {', '.join(profile.covariates) or 'nothing but the calendar'}"
    yield f"forecast  from cutoff {profile.cutoff}, for {profile.targets[0]} to {profile.targets[1]}"


def _bar(profile: Profile, marks: str) -> str:
    """Share of the four states, as numbers and as a bar in which each existing state is visible."""
    shares = [profile.share(state) for state in STATES]
    cells = [max(round(share * _BAR), 1) if share else 0 for share in shares]
    cells[int(np.argmax(cells))] += _BAR - sum(cells)
    bar = "".join(mark * count for mark, count in zip(marks, cells, strict=True))
    legend = "  ".join(
        f"{mark} {name} {_percent(share)}" for mark, name, share in zip(marks, STATES, shares, strict=True)
    )
    return f"{bar}  {legend}"


def _sparkline(values: Sequence[float], marks: str) -> str:
    """One mark per value, from the lowest to the highest; if there are too many values, means of
    neighbors."""
    means = np.array([part.mean() for part in np.array_split(np.array(values), min(len(values), _SPARKS))])
    span = float(np.ptp(means)) or 1.0
    return "".join(marks[int(place)] for place in (means - means.min()) / span * (len(marks) - 1))


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def _gaps(profile: Profile) -> str:
    if profile.longest is None:
        return "none: every open depot day has a count"
    gap = profile.longest
    return (
        f"{_counted(profile.states['missing'], 'open depot day')} without a count, in {_counted(profile.gaps, 'gap')}; "
        f"the longest {_counted(gap.days, 'day')}: {printable(gap.depot_id, _ID)} from {gap.first}"
    )


def _depots(ranked: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{printable(depot, _ID)} {median:,.0f}" for depot, median in ranked)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
