"""Write a trial down as one HTML page that needs nothing else: the profile, and a picture for each kind of finding.

The page is built as a tree, so that whatever the data hold becomes text and never markup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from forecaster.errors import SpecError
from forecaster.spec import Spec
from forecaster.stages.check import Trial
from forecaster.stages.check_text import told, verdict
from forecaster.stages.evidence import WHAT_HAPPENS, Evidence, by_severity, places, rows_of, shown, troubled
from forecaster.values import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Element = ElementTree.Element
MISSING_PICTURES = "pictures need: pip install 'forecaster[train]'"
STATE_DEPOTS = 60
SHOWN_ROWS, SHOWN_BARS = 5, 20
LEGEND = " Red: what was found. Band: the middle 80 % of the last 8 same weekdays. Grey: closed."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root { color-scheme: light dark; --ground: #f4f6f8; --card: #fff; --ink: #16222e; --soft: #51606f; --line: #dde3e9;
  --came: #33566f; --band: #a9cde0; --found: #b3261e; --shut: #e6eaee; --warn: #6f4700; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e151c; --card: #17212b; --ink: #e8eef4; --soft: #a5b4c2;
  --line: #2b3947; --came: #9cc9e4; --band: #2b5670; --found: #ff9d94; --shut: #26323e; --warn: #f5cf83; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; font-variant-numeric: tabular-nums; }
h1, h2, h3, p, figure, pre { margin: 0; } h1 { font-size: 1.5rem; } h2 { font-size: 1.125rem; } h3 { font-size: 1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem 1.25rem;
  margin-top: 1rem; display: grid; gap: .75rem; } section > * { min-width: 0; }
.soft, figcaption { color: var(--soft); font-size: .875rem; } .said { overflow-wrap: anywhere; }
.verdict { font-weight: 650; } .stop, .quarantine { color: var(--found); } .warn { color: var(--warn); }
pre { overflow-x: auto; font-size: .8125rem; line-height: 1.4; }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 3px solid var(--came); }
ul { margin: 0; padding-left: 1.125rem; display: grid; gap: .25rem; font-size: .9375rem; }
svg { display: block; width: 100%; min-width: 36rem; height: auto; } svg * { stroke-linejoin: round; }
.key { display: inline-block; width: .75rem; height: .75rem; margin: 0 .25rem 0 .75rem; vertical-align: -.0625rem; }
"""


def written(trial: Trial, file: Path | None, *, now: datetime) -> str:
    """Write the page and say where it is; by default it is check.html in the state folder.

    Raises SpecError when a file was named that cannot be written.
    """
    place = file or trial.spec.state_folder / "check.html"
    try:
        _replace(place, page(trial, now=now))
    except OSError as error:
        sentence = f"{place} cannot be written: {error.strerror}; wanted a file of yours after --html"
        if file is not None:
            raise SpecError(f"--html: {sentence}") from error
        return f"page      {sentence}"
    return f"page      {place}" + ("" if pictures() else f"; {MISSING_PICTURES}")


def _replace(file: Path, text: str) -> None:
    """Written beside, then put in its place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8", errors="replace")
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def pictures() -> bool:
    """Is there what draws pictures?"""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def page(trial: Trial, *, now: datetime) -> str:
    """The whole page as HTML."""
    name = trial.spec.name
    title = f"{name}: what a night would start from"
    head = _tag("head", _tag("meta", charset="utf-8"), _tag("title", title))
    head.append(_tag("meta", name="viewport", content="width=device-width, initial-scale=1"))
    head.append(_tag("meta", http_equiv="Content-Security-Policy", content=POLICY))
    head.append(_tag("style", STYLE))
    local = now.astimezone(trial.spec.zone)
    tried = f"forecaster check, {local:%Y-%m-%d %H:%M} {trial.spec.timezone}"
    top = _tag("header", _tag("h1", title), _tag("p", tried, of="soft"), _tag("p", verdict(trial), of="verdict"))
    body = _tag("body", top, _tag("main", *_sections(trial)))
    return "<!doctype html>\n" + ElementTree.tostring(_tag("html", head, body, lang="en"), "unicode", method="html")


def _sections(trial: Trial) -> Iterator[Element]:
    lines = [part for part in told(trial, tables=True) if isinstance(part, str)]
    yield _tag("section", _tag("h2", "In short"), _tag("pre", "\n".join(lines), tabindex="0"))
    findings = by_severity(trial.ingested.findings) if trial.ingested else []
    if trial.evidence is not None and pictures():
        yield from _overview(trial.evidence, findings)
    elif trial.evidence is not None:
        yield _tag("section", _tag("p", f"{MISSING_PICTURES}."))
    for number, finding in enumerate(findings):
        yield _section(finding, number, trial)


def _overview(evidence: Evidence, findings: list[Finding]) -> Iterator[Element]:
    from forecaster.stages import finding_pictures as drawn

    panel = evidence.panel
    said = f"What all depots counted each day from {panel.days[0]} to {panel.cutoff}; in front the mean of 7 days."
    yield _tag("section", _tag("h2", "The network, day by day"), _figure(drawn.network(panel), said, "network"))
    depots, which = _chosen(evidence, findings)
    labels = [shown(panel.depot_ids[depot], 24) for depot in depots]
    figure, size = drawn.four_states(panel, depots, labels)
    binned = f" A column is {size} days, and red when one of them is missing." if size > 1 else ""
    caption = _tag("figcaption", which + binned)
    for state, colour in drawn.STATE_COLOURS.items():
        key = _tag("span", of="key", style=f"background: {colour}")
        caption.append(key)
        key.tail = state
    shape = _figure(figure, f"{which} Every day is observed, zero, closed or missing.", "states", caption)
    yield _tag("section", _tag("h2", "Every depot and day"), shape)
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
    from forecaster.stages import finding_pictures as drawn

    counted: dict[str, int] = {}
    for finding in findings:
        for source, rows in rows_of(finding, evidence).groupby("source", sort=False):
            counted[f"{finding.rule} in {shown(str(source), 30)}"] = len(rows)
    if counted:
        most = sorted(counted.items(), key=lambda item: -item[1])[:SHOWN_BARS]
        said = "Rows in quarantine by rule and file: " + ", ".join(f"{name} {number:,}" for name, number in most) + "."
        figure = drawn.bars([name for name, _ in most], [number for _, number in most])
        yield _tag("section", _tag("h2", "Rows kept aside, by rule and file"), _figure(figure, said, "files"))


def _section(finding: Finding, number: int, trial: Trial) -> Element:
    """A finding: how grave it is, its first sentences, its pictures."""
    what = f"{finding.count:,} found, {WHAT_HAPPENS[finding.severity]}"
    found = _tag("section", _tag("h2", f"{finding.rule}: ", _tag("span", what, of=finding.severity)))
    rows = list(rows_of(finding, trial.evidence)["message"]) if trial.evidence else []
    sentences = rows[:SHOWN_ROWS] or [finding.message]
    found.append(_tag("ul", *(_tag("li", shown(sentence, 600)) for sentence in sentences), of="said"))
    if len(rows) > SHOWN_ROWS:
        found.append(_tag("p", f"The first {SHOWN_ROWS} of {len(rows):,}.", of="soft"))
    if trial.evidence and pictures():
        for count, (figure, said) in enumerate(_drawn(finding, trial.evidence, trial.spec)):
            found.append(_figure(figure, said, f"finding-{number}-{count}"))
    return found


def _drawn(finding: Finding, evidence: Evidence, spec: Spec) -> Iterator[tuple[Figure, str]]:
    """The pictures of a finding, each with what it shows."""
    from forecaster.stages import finding_pictures as drawn

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


def _figure(figure: Figure, said: str, name: str, caption: Element | None = None) -> Element:
    from forecaster.stages.inline_svg import inline

    wide = _tag("div", inline(figure, said, name), of="wide", tabindex="0")
    return _tag("figure", wide, _tag("figcaption", said) if caption is None else caption)


def _tag(tag: str, /, *inside: Element | str, of: str | None = None, **attributes: str) -> Element:
    """An element with its text and children; `of` is its class."""
    element = Element(tag, {key.replace("_", "-"): value for key, value in attributes.items()})
    if of is not None:
        element.set("class", of)
    for part in inside:
        if isinstance(part, Element):
            element.append(part)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + part
        else:
            element.text = (element.text or "") + part
    return element
