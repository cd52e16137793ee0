"""Tell a trial on one screen: at most 40 lines of 100 columns, for a terminal and for a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from forecaster.check.dry_run import Trial
from forecaster.check.profile import STATES, Profile
from forecaster.core.knowledge import Finding
from forecaster.demand.ingest import IngestResult
from forecaster.reports.finding_examples import by_severity, shown

WIDTH = 100
MOST_FINDINGS = 7
RULES_IN_A_LINE = 5
SPARKS = ("▁▂▃▄▅▆▇█", "_.-=+*#@")  # and in ASCII
MARKS = ("█0·!", "#0.!")  # one for each of STATES
_BAR, _SPARKS, _ID = 20, 48, 20
_LINES_A_FINDING = 2
_PADDING = 14  # of the table's columns


def told(trial: Trial, *, tables: bool, width: int = WIDTH, ascii_only: bool = False) -> Iterator[str | Table]:
    """The trial for people, one line or table after another; without `tables` every finding is a plain line.

    `width` is that of the screen, in characters; the last line is the verdict.
    """
    spec, done = trial.spec, trial.ingested
    yield f"pipeline  {spec.name}: the file is valid (digest {spec.digest[:12]})"
    for source in trial.reached:
        rows = "can be read" if source.rows is None else _counted(source.rows, "row")
        yield f"source    {source.place}: {source.fault or f'{source.name}, {rows}'}"
    if done is not None:
        yield (
            f"contract  {done.read:,} rows read = {done.accepted:,} accepted + {done.unchanged:,} unchanged "
            f"+ {done.quarantined:,} quarantined"
        )
        if done.stopped:
            yield shown(f"stopped   {done.stopped}: nothing of this batch counts", _LINES_A_FINDING * width)
        yield from _findings(done, tables, width)
    if trial.profile is not None:
        yield from (shown(line, WIDTH) for line in _profile(trial.profile, ascii_only))
    for sentence in trial.caveats:
        yield f"caveat    {sentence}"


def verdict(trial: Trial) -> str:
    """The last line: can a forecast start from this?"""
    return f"not usable: {trial.fault}" if trial.fault else "usable; nothing else was changed"


def _findings(done: IngestResult, tables: bool, width: int) -> Iterator[str | Table]:
    found = by_severity(done.findings)
    first = found[:MOST_FINDINGS]
    if not found:
        yield "suspect   nothing"
        return
    yield f"suspect   {_counts(found)}"
    if tables:
        yield _table(first, width)
    else:
        for finding in first:
            line = f"finding   {finding.rule} ({finding.severity}, {finding.count:,}): {finding.message}"
            yield shown(line, _LINES_A_FINDING * width)
    if more := found[MOST_FINDINGS:]:
        yield f"          and {_counted(len(more), 'more finding')}, which the page shows"


def _counts(found: Sequence[Finding]) -> str:
    """How many by rule, the most first."""
    most = sorted(found, key=lambda finding: -finding.count)
    told = ", ".join(f"{finding.rule} {finding.count:,}" for finding in most[:RULES_IN_A_LINE])
    more = len(most) - RULES_IN_A_LINE
    return told + (f" and {_counted(more, 'other rule')}" if more > 0 else "")


def _table(found: Sequence[Finding], width: int) -> Table:
    """A row a finding, of two lines at most."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("rule", "severity", "count", "the first of them"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="right" if name == "count" else "left")
    taken = max(len(finding.rule) + len(f"{finding.count:,}") for finding in found) + len("quarantine") + _PADDING
    for finding in found:
        sentence = shown(finding.message, _LINES_A_FINDING * width)
        lines = wrap(sentence, max(width - taken, 20), max_lines=_LINES_A_FINDING, placeholder=" …")
        table.add_row(*map(Text, (finding.rule, finding.severity, f"{finding.count:,}", "\n".join(lines))))
    return table


def _profile(found: Profile, ascii_only: bool) -> Iterator[str]:
    silent = f", {found.silent:,} of them without any count" if found.silent else ""
    yield f"depots    {found.depots:,}{silent}; attributes: {', '.join(found.statics) or 'none'}"
    yield f"days      {found.days:,}, {found.first} to {found.cutoff}: {found.depot_days:,} depot days"
    yield f"states    {_bar(found, MARKS[ascii_only])}"
    yield f"gaps      {_gaps(found)}"
    yield f"counts    median {found.median:,.0f} a day on {found.open_days:,} open depot days"
    if found.busiest:
        yield f"busiest   {_depots(found.busiest)}"
    if found.quietest:
        yield f"quietest  {_depots(found.quietest)}"
    if found.weekly:
        low, high = min(found.weekly), max(found.weekly)
        marks = _sparkline(found.weekly, SPARKS[ascii_only])
        yield f"demand    {marks}  {_counted(len(found.weekly), 'week')} of {low:,.0f} to {high:,.0f}"
    yield f"ahead     known covariates: {', '.join(found.covariates) or 'nothing but the calendar'}"
    yield f"forecast  from cutoff {found.cutoff}, for {found.targets[0]} to {found.targets[1]}"


def _bar(found: Profile, marks: str) -> str:
    """The four states as a bar in which each that occurs has its place, and in numbers."""
    shares = [found.share(state) for state in STATES]
    cells = [max(round(share * _BAR), 1) if share else 0 for share in shares]
    cells[int(np.argmax(cells))] += _BAR - sum(cells)
    bar = "".join(mark * count for mark, count in zip(marks, cells, strict=True))
    told = "  ".join(
        f"{mark} {name} {_percent(share)}" for mark, name, share in zip(marks, STATES, shares, strict=True)
    )
    return f"{bar}  {told}"


def _sparkline(values: Sequence[float], marks: str) -> str:
    """One mark a value, from the lowest to the highest; of more values than fit, the means of neighbours."""
    means = np.array([part.mean() for part in np.array_split(np.array(values), min(len(values), _SPARKS))])
    span = float(np.ptp(means)) or 1.0
    return "".join(marks[int(place)] for place in (means - means.min()) / span * (len(marks) - 1))


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def _gaps(found: Profile) -> str:
    if found.longest is None:
        return "none: every open depot day has a count"
    gap = found.longest
    return (
        f"{_counted(found.states['missing'], 'open depot day')} without a count, in {_counted(found.gaps, 'gap')}; "
        f"the longest {_counted(gap.days, 'day')}: {shown(gap.depot_id, _ID)} from {gap.first}"
    )


def _depots(ranked: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{shown(depot, _ID)} {median:,.0f}" for depot, median in ranked)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
