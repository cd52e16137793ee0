"""On-call view: is something out, did the night go as usual, does the page answer, and what to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import bars
from dashboards.ops.reading.editions import Logbook
from dashboards.ops.reading.header import text_of_tier
from dashboards.ops.views.boards.board import (
    BOARDS,
    Board,
    BoardCell,
    BoardOut,
    BoardPart,
    BoardRow,
    hidden_board,
    nights_of,
    nights_on_clocks,
    numbers,
    picture,
    picture_of_seconds,
    series_rows,
    title_of,
)
from dashboards.ops.views.health import OUTCOMES, TOTAL, duration
from dashboards.ops.views.reliability.drift import drift_list
from forecaster.core.language import N_, _
from forecaster.ledger.publication import TIERS
from forecaster.ledger.records import Run
from forecaster.ledger.store import TIMED_RUNS
from forecaster.monitoring import page_answers, readings
from forecaster.monitoring.page_answers import Answers

DAY = timedelta(days=1)
STALE = timedelta(hours=26)
SLOW = 1.5  # times the usual
TIER_QUALITY = {"fresh": "good", "champion": "fair", "prior": "fair", "fallback": "bad"}
RUNBOOKS: Mapping[str, str] = {  # pages of dashboards/runbooks, and when each helps
    "stale-forecast": N_("nothing new is out"),
    "page-down": N_("nobody answers, or a ledger cannot be read"),
    "page-errors": N_("answers are errors, or slow"),
    "inference-service": N_("other programs get no answers, late ones, or those of an older model"),
    "out-of-memory": N_("runs are killed"),
    "no-model": N_("the same weekday is repeated, as no model could forecast"),
    "compile-regression": N_("nights compile anew, or take too long"),
    "worse-forecasts": N_("forecasts are worse than judged"),
    "registry-down": N_("MLflow is not told"),
    "quarantine-flood": N_("many rows are kept aside"),
}

Told = Mapping[tuple[str, ...], float]


def on_call(book: Logbook) -> Board:
    """The page; nothing of it for whoever does not see every city."""
    if (hidden := hidden_board(book, 1)) is not None:
        return hidden
    address, name = BOARDS[1]
    runs, told = nights_on_clocks(book), _told(book)
    age = book.now - book.head.published_at if book.head else None
    tier = book.head.tier if book.head else ""
    parts = (_shown(book, told), *_last_night(runs), _durations(runs), _outcomes(runs), *_aside(runs))
    return Board(
        title_of(book),
        _(name),
        address,
        eyebrow=_("Age of what is shown"),
        number=duration(age.total_seconds()) if age is not None else "–",
        under=_("No night has been missed.") if _missing(told) == 0 else "",
        tag=(TIER_QUALITY[tier], text_of_tier(tier)) if tier else ("", ""),
        notes=tuple(_notes(age, told)),
        parts=(*parts, *_drift(book), _answers(book), _memory(runs), _runbooks()),
    )


def on_call_out(book: Logbook) -> BoardOut:
    """The same numbers."""
    if book.cities is not None:
        return BoardOut()
    runs = nights_of(book)
    rows: list[BoardRow] = []
    if book.head is not None:
        rows.append(BoardRow("age", "publication", None, (book.now - book.head.published_at).total_seconds(), "s"))
    for (name, *labels), number in _told(book).items():
        if name in ("nights_missing", "registry_waiting", "runs", "depots_shown"):
            rows.append(BoardRow(name, " ".join(labels), None, number, "count"))
    rows += series_rows("night", "seconds", [(run.started_at, _seconds(run)) for run in runs], "s")
    rows += series_rows("night", "usual", zip([run.started_at for run in runs], _usual(runs), strict=True), "s")
    for run in runs[-1:]:
        rows += [BoardRow("stage", stage, run.started_at, seconds, "s") for stage, seconds in _stages(run).items()]
    for rule in _rules(runs):
        rows += series_rows("quarantine", rule, [(run.started_at, _kept(run, rule)) for run in runs], "rows")
    for process in _processes(runs):
        rows += series_rows("memory", process, [(run.started_at, _held(run, process)) for run in runs], "bytes")
    answers = _counted(book)
    for name in ("total", "errors", "slow"):
        rows += series_rows("page_answers", name, [(None, float(getattr(answers, name)))] if answers else [], "count")
    return BoardOut(rows)


def _told(book: Logbook) -> Told:
    """What Prometheus would be told of the ledger; nothing without a pipeline file."""
    if book.spec is None:
        return {}
    return {(row.name, *row.labels): row.value for row in readings.read(book.spec, book.ledger, book.now)}


def _missing(told: Told) -> int | None:
    counts = [number for (name, *_labels), number in told.items() if name == "nights_missing"]
    return round(sum(counts)) if counts else None


def _notes(age: timedelta | None, told: Told) -> Iterator[str]:
    if age is not None and age > STALE:
        yield _("That is older than a day and two hours.")
    if missing := _missing(told):
        yield _("Nights without forecasts: {n}.", n=display.number(missing))
    if killed := sum(number for (name, *labels), number in told.items() if name == "runs" and labels[1] == "killed"):
        yield _("Runs that were killed, of all that are remembered: {n}.", n=display.number(killed))


def _shown(book: Logbook, told: Told) -> BoardPart:
    zone = ZoneInfo(book.head.timezone if book.head else "UTC")
    facts = []
    if book.head is not None:
        facts.append((_("Published"), display.instant(book.head.published_at, zone)))
        facts.append((_("Newest reading"), display.day(book.head.cutoff)))
    by_tier = [(tier, round(told.get(("depots_shown", tier), 0.0))) for tier in TIERS]
    facts += [(text_of_tier(tier), display.depots(depots)) for tier, depots in by_tier if depots]
    if ("deadline",) in told:
        facts.append((_("Due by"), display.instant(datetime.fromtimestamp(told["deadline",], UTC), zone)))
    for (name, *_labels), number in told.items():
        if name == "run_started_at":
            facts.append((_("Running since"), display.instant(datetime.fromtimestamp(number, UTC), zone)))
    if ("registry_waiting",) in told:
        facts.append((_("Waiting for MLflow"), display.number(told["registry_waiting",])))
    return BoardPart(_("What is shown"), facts=tuple(facts))


def _seconds(run: Run) -> float | None:
    return (run.finished_at - run.started_at).total_seconds() if run.finished_at else None


def _usual(runs: Sequence[Run]) -> list[float | None]:
    """Of each night the median of the fourteen before it."""
    seconds = [_seconds(run) or 0.0 for run in runs]
    return [median(seconds[max(0, i - TIMED_RUNS) : i]) if i else None for i in range(len(seconds))]


def _stages(run: Run) -> dict[str, float]:
    return {stage: seconds for stage, seconds in run.timings.items() if stage != TOTAL}


def _last_night(runs: Sequence[Run]) -> Iterator[BoardPart]:
    if not runs or not (stages := _stages(runs[-1])):
        return
    rows = []
    for stage, seconds in stages.items():
        before = [run.timings[stage] for run in runs[-TIMED_RUNS - 1 : -1] if stage in run.timings]
        slow = bool(before) and seconds > max(SLOW * median(before), median(before) + 1)
        took = BoardCell(duration(seconds), "fair" if slow else "", is_number=True)
        rows.append((BoardCell(stage), took, *numbers(duration(median(before)) if before else "–")))
    yield BoardPart(
        _("How long the stages of the last night took"),
        columns=(_("Stage"), _("Took"), _("Usually")),
        rows=tuple(rows),
    )


def _durations(runs: Sequence[Run]) -> BoardPart:
    drawn = picture_of_seconds(
        [display.short_day(run.started_at.date()) for run in runs],
        [(_("the night"), [_seconds(run) for run in runs]), (_("as usual"), _usual(runs))],
    )
    says = "" if drawn else _("Drawn from the second night on.")
    return BoardPart(_("How long the last nights took"), says=says, picture=drawn)


def _outcomes(runs: Sequence[Run]) -> BoardPart:
    counts = Counter(run.outcome for run in runs)
    rows = [
        (BoardCell(_(OUTCOMES[outcome][0]), OUTCOMES[outcome][1]), *numbers(display.number(number)))
        for outcome, number in counts.most_common()
    ]
    says = "" if rows else _("Nothing is known of it yet.")
    return BoardPart(_("How the last nights ended"), says=says, columns=(_("Outcome"), _("Nights")), rows=tuple(rows))


def _rules(runs: Sequence[Run]) -> list[str]:
    counts: Counter[str] = Counter()
    for run in runs:
        for finding in run.findings:
            if finding["severity"] == "quarantine":
                counts[finding["rule"]] += finding["count"]
    return [rule for rule, _number in counts.most_common()]


def _kept(run: Run, rule: str) -> float:
    findings = [finding for finding in run.findings if finding["severity"] == "quarantine"]
    return float(sum(finding["count"] for finding in findings if finding["rule"] == rule))


def _aside(runs: Sequence[Run]) -> Iterator[BoardPart]:
    rows = []
    for rule in _rules(runs):
        counts = [_kept(run, rule) for run in runs]
        rows.append(
            (
                BoardCell(rule),
                *numbers(display.number(counts[-1])),
                BoardCell("", bars=bars(counts, len(counts) - 1)),
            )
        )
    if rows:
        heading = _("Kept aside, by rule")
        yield BoardPart(heading, columns=(_("Rule"), _("Last night"), _("Nights")), rows=tuple(rows))


def _drift(book: Logbook) -> Iterator[BoardPart]:
    """What comes in unlike what was forecast, where anything does."""
    if (drifting := drift_list(book.drifts())) is not None:
        yield BoardPart(_("What drifts"), facts=tuple((line.name, line.sentence) for line in drifting.lines))


def _counted(book: Logbook) -> Answers | None:
    """The page's answers of a day; None where no page counts them."""
    if book.spec is None:
        return None
    answers = page_answers.between(book.spec.paths.page_answers, book.now - DAY, book.now)
    return answers if answers.total else None


def _answers(book: Logbook) -> BoardPart:
    answers = _counted(book)
    others = _("How long readers wait, who is turned away and what is in flight is told to Prometheus alone.")
    if answers is None:
        uncounted = _("No page counts its answers: start it with --metrics.")
        return BoardPart(_("The page"), says=f"{uncounted} {others}")
    facts = (
        (_("Answers of a day"), display.number(answers.total)),
        (_("Errors"), f"{display.number(answers.errors)} ({display.percent(answers.errors / answers.total, 2)})"),
        (_("Above 0.2 s"), f"{display.number(answers.slow)} ({display.percent(answers.slow / answers.total, 2)})"),
    )
    return BoardPart(_("The page"), says=others, facts=facts)


def _processes(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in (run.measures or {}).get("peak_memory_bytes", {})))


def _held(run: Run, process: str) -> float | None:
    held: float | None = (run.measures or {}).get("peak_memory_bytes", {}).get(process)
    return held


def megabytes(value: float) -> str:
    """Bytes as "1,517 MB"."""
    return _("{n} MB", n=display.number(value / 1e6))


def _memory(runs: Sequence[Run]) -> BoardPart:
    processes = _processes(runs)
    drawn = picture(
        [display.short_day(run.started_at.date()) for run in runs],
        [(process, [_held(run, process) for run in runs]) for process in processes],
        megabytes,
        unit=1e6,
    )
    rows = [
        (BoardCell(process), *numbers(megabytes(held[-1]), megabytes(max(held))))
        for process in processes
        if (held := [number for run in runs if (number := _held(run, process)) is not None])
    ]
    says = "" if rows else _("Nothing is known of it yet.")
    columns = (_("Process"), _("Last"), _("At most"))
    return BoardPart(_("Memory"), says=says, picture=drawn, columns=columns if rows else (), rows=tuple(rows))


def _runbooks() -> BoardPart:
    code = tuple((f"dashboards/runbooks/{name}.md", _(when)) for name, when in RUNBOOKS.items())
    return BoardPart(_("What to read"), code=code)
