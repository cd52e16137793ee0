"""Health page, run history: outcomes of the latest runs, their data-quality findings, and the
duration of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import capitalised, told
from dashboards.ops.reading.header import text_of_tier, title_of, zone_of
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger import value
from forecaster.ledger.records import Head, Run

LOST = timedelta(hours=36)  # a run without an end that began longer ago was killed
TOTAL = "night"  # key of the total in the timings
# most serious first: the consequence, and the next step
SEVERITIES: Mapping[str, tuple[str, str]] = {
    "stop": (
        N_("the whole batch is quarantined"),
        N_(
            "No row of this batch counts: the forecasts use the earlier readings. List its rows with the command "
            "below, and correct the source; the next night reads it again."
        ),
    ),
    "quarantine": (
        N_("the rows are quarantined"),
        N_(
            "Quarantined rows are not lost. The command below shows each with its reason. "
            "Correct them in the source; the next night reads them again."
        ),
    ),
    "warn": (
        N_("the rows are accepted"),
        N_("Accepted rows need no action; check the depots named."),
    ),
}
COMMAND = "forecaster quarantine list FILE"
OUTCOMES: Mapping[str, tuple[str, str, str]] = {  # name, rating and meaning
    "published": (N_("published"), "good", N_("New forecasts are out.")),
    "degraded": (N_("degraded"), "fair", N_("New forecasts are out, but not everything worked.")),
    "failed": (
        N_("failed"),
        "bad",
        N_("It published nothing: the numbers shown are older, and the log shows where it stopped."),
    ),
    "no_data": (N_("no data"), "bad", N_("The readings do not allow a new forecast: the numbers shown are older.")),
    "running": (N_("running"), "fair", N_("It is not over yet.")),
    "busy": (N_("not begun"), "fair", N_("Another run was active.")),
    "done": (N_("done"), "good", N_("It publishes nothing.")),
    "lost": (N_("broken off"), "bad", N_("It did not finish: it was killed, or the machine went down.")),
}


@dataclass(frozen=True)
class NightLine:
    """A run, as the table shows it."""

    run_id: str
    began: str
    outcome: str
    quality: str  # "good", "fair" or "bad"
    meaning: str
    tier: str
    as_of: str
    took: str
    message: str


@dataclass(frozen=True)
class FindingLine:
    rule: str
    severity: str
    what_happens: str
    count: str
    sentence: str


@dataclass(frozen=True)
class StageLine:
    """Duration of a stage, and its median over the shown runs."""

    name: str
    took: str
    usually: str
    share: float  # of the longest stage's duration, in percent


@dataclass(frozen=True)
class Health:
    title: str
    last: NightLine | None  # the last ended run, else the running one
    nights: tuple[NightLine, ...]  # newest first
    findings: tuple[FindingLine, ...]  # of the last run, most serious first
    steps: tuple[str, ...]
    command: str | None
    nothing_found: str  # text if there are no findings
    stages: tuple[StageLine, ...]
    total: str
    # computing cost of the last run's forecasts; empty if unknown or hidden from the reader
    computing: str


def health(runs: Sequence[Run], head: Head | None, now: datetime, withheld: str = "") -> Health:
    """Return the content of the page; runs are newest first. Instants are in the publication's
    zone, or else in UTC. `withheld` explains findings that are hidden from the reader."""
    last = _last(runs)
    if last is None:
        return Health(title_of(head), None, (), (), (), None, withheld, (), "", "")
    zone, findings = zone_of(head), by_severity(last.findings)
    severities = {finding["severity"] for finding in findings}
    return Health(
        title=title_of(head),
        last=_night(last, zone, now),
        nights=tuple(_night(run, zone, now) for run in runs),
        findings=tuple(map(_finding, findings)),
        steps=tuple(_(step) for severity, (_consequence, step) in SEVERITIES.items() if severity in severities),
        command=COMMAND if severities & {"stop", "quarantine"} else None,
        nothing_found=withheld or _nothing_found(last),
        stages=_stages(last, runs),
        total=duration(last.timings[TOTAL]) if TOTAL in last.timings else "",
        computing=_computing(last),
    )


def _last(runs: Sequence[Run]) -> Run | None:
    """Return the last ended run, else the running one."""
    return next((run for run in runs if run.finished_at is not None), next(iter(runs), None))


def _nothing_found(run: Run) -> str:
    """Explain the absence of findings: all readings were fine, or none were read."""
    if "ingest" in run.timings:
        return _("Nothing: all readings passed the checks.")
    still = run.finished_at is None
    if still:
        return _("No readings have been read yet.")
    return _("No readings were read, so nothing is known about them.")


def by_severity(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort findings: most serious first; within a severity, most frequent first."""
    order = list(SEVERITIES)
    return sorted(findings, key=lambda finding: (order.index(finding["severity"]), -finding["count"]))


def duration(seconds: float) -> str:
    """Format a duration: "0.4 s", "38 s", "12 min 5 s", "1 h 2 min"."""
    if seconds < 9.95:
        return _("{n} s", n=display.number(seconds, 1))
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return _("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)
    return _("{minutes} min {seconds} s", minutes=minutes, seconds=rest) if minutes else _("{n} s", n=rest)


def _night(run: Run, zone: ZoneInfo, now: datetime) -> NightLine:
    is_lost = run.finished_at is None and now - run.started_at > LOST
    outcome, quality, meaning = OUTCOMES["lost" if is_lost else run.outcome]
    return NightLine(
        run.run_id,
        display.instant(run.started_at, zone),
        _(outcome),
        quality,
        _(meaning),
        text_of_tier(run.tier) if run.tier else "–",
        display.instant(run.as_of, zone),
        duration((run.finished_at - run.started_at).total_seconds()) if run.finished_at else "–",
        capitalised(told(run.message or "")),
    )


def _computing(run: Run) -> str:
    """Sentence about the computing time and cost of a run and of each of its forecasts."""
    computed = value.computed_run(run.kind, run.timings, run.computing)
    if computed is None:
        return ""
    sentence = ngettext(
        "Training {training}, prediction {prediction}, for {n} forecast of a depot and a day.",
        "Training {training}, prediction {prediction}, for {n} forecasts of a depot and a day.",
        computed.forecasts,
        n=display.number(computed.forecasts),
        training=duration(computed.training_seconds),
        prediction=duration(computed.prediction_seconds),
    )
    if computed.cost is None or computed.cost_per_forecast is None:
        return sentence
    of_night, of_each = (
        display.small_money(amount, computed.currency) for amount in (computed.cost, computed.cost_per_forecast)
    )
    cost = _("It cost {amount}, {each} per forecast.", amount=of_night, each=of_each)
    return f"{sentence} {cost}"


def _finding(finding: Mapping[str, Any]) -> FindingLine:
    severity = finding["severity"]
    consequence = _(SEVERITIES[severity][0])
    return FindingLine(
        finding["rule"], severity, consequence, display.number(finding["count"]), told(finding["message"])
    )


def _stages(last: Run, runs: Sequence[Run]) -> tuple[StageLine, ...]:
    """Return the stages in the order in which they ended."""
    timings = {name: seconds for name, seconds in last.timings.items() if name != TOTAL}
    return tuple(
        StageLine(
            name,
            duration(seconds),
            duration(median(run.timings[name] for run in runs if name in run.timings)),
            round(100 * seconds / (max(timings.values()) or 1), 1),
        )
        for name, seconds in timings.items()
    )
