"""On-call facts, for the health page: deadline, missed runs, waiting runs, answers, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Logbook
from forecaster.core.language import N_, _
from forecaster.monitoring import page_answers, readings

DAY = timedelta(days=1)
RUNBOOKS: Mapping[str, str] = {  # pages of dashboards/runbooks, with the symptom of each
    "stale-forecast": N_("nothing new is out"),
    "page-down": N_("nobody answers, or a ledger cannot be read"),
    "page-errors": N_("answers are errors, or slow"),
    "inference-service": N_("other programs get no answers, late ones, or those of an older model"),
    "out-of-memory": N_("runs are killed"),
    "no-model": N_("the same weekday is repeated, as no model could forecast"),
    "compile-regression": N_("nights recompile, or take too long"),
    "worse-forecasts": N_("forecasts are worse than judged"),
    "registry-down": N_("MLflow does not have the run"),
    "quarantine-flood": N_("many rows are quarantined"),
}

Readings = Mapping[tuple[str, ...], float]


@dataclass(frozen=True)
class OnCall:
    """Facts (term, description), and runbooks (file, symptom)."""

    facts: tuple[tuple[str, str], ...]
    runbooks: tuple[tuple[str, str], ...]


def on_call(book: Logbook) -> OnCall | None:
    """Return the facts; None for a reader who does not see every city, and without a pipeline file."""
    if book.cities is not None or book.spec is None:
        return None
    values = {(row.name, *row.labels): row.value for row in readings.read(book.spec, book.ledger, book.now)}
    facts = (*_instants(book, values), *_counts(values), *_answers(book), *_memory(book))
    return OnCall(facts, tuple((f"dashboards/runbooks/{name}.md", _(when)) for name, when in RUNBOOKS.items()))


def _instants(book: Logbook, values: Readings) -> Iterator[tuple[str, str]]:
    zone = ZoneInfo(book.head.timezone if book.head else "UTC")
    names = {"deadline": _("Due by"), "run_started_at": _("Running since")}
    for (name, *_labels), seconds in values.items():
        if name in names:
            yield names[name], display.instant(datetime.fromtimestamp(seconds, UTC), zone)


def _counts(values: Readings) -> Iterator[tuple[str, str]]:
    yield _("Nights without forecasts"), display.number(_sum(values, "nights_missing"))
    yield _("Runs that were killed"), display.number(_sum(values, "runs", "killed"))
    yield _("Waiting for MLflow"), display.number(_sum(values, "registry_waiting"))


def _sum(values: Readings, measure: str, label: str = "") -> float:
    return sum(value for (name, *labels), value in values.items() if name == measure and (not label or label in labels))


def _answers(book: Logbook) -> Iterator[tuple[str, str]]:
    """Yield the page's answers of the last day; none if no page counts them."""
    assert book.spec is not None
    answers = page_answers.between(book.spec.paths.page_answers, book.now - DAY, book.now)
    if answers.total:
        yield _("Answers of a day"), display.number(answers.total)
        yield _("Errors"), f"{display.number(answers.errors)} ({display.percent(answers.errors / answers.total, 2)})"
        yield _("Above 0.2 s"), f"{display.number(answers.slow)} ({display.percent(answers.slow / answers.total, 2)})"


def _memory(book: Logbook) -> Iterator[tuple[str, str]]:
    """Yield the peak memory of each process of the last run."""
    last = next((run for run in book.runs if run.finished_at is not None), None)
    peaks: Mapping[str, float] = ((last.measures if last else None) or {}).get("peak_memory_bytes", {})
    for process, most in peaks.items():
        yield _("Memory of {process}", process=process), _("{n} MB", n=display.number(most / 1e6))
