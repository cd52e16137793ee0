"""Debugging view: compiling and its cache, versions, stages over thirty nights, parity, processor and devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import bars
from dashboards.ops.reading.editions import Logbook
from dashboards.ops.views.accuracy import COMPARED
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
from dashboards.ops.views.boards.on_call import megabytes
from dashboards.ops.views.health import TOTAL, duration
from forecaster.core.language import _, ngettext
from forecaster.core.metric_names import OF_RUNS
from forecaster.ledger.records import Run

LISTED = 10  # trainings, one by one


def debug(book: Logbook) -> Board:
    """The page; nothing of it for whoever does not see every city."""
    if (hidden := hidden_board(book, 2)) is not None:
        return hidden
    address, name = BOARDS[2]
    runs = nights_on_clocks(book)
    trained = [run for run in runs if "compile_misses" in _measures(run)]
    parts = (_compiling(trained), _versions(runs), _stages(runs), _backtests(runs), _processor(runs), _devices(runs))
    return Board(
        title_of(book),
        _(name),
        address,
        eyebrow=_("Programs that the last training took from the cache"),
        number=_from_cache(trained[-1]) if trained else "–",
        under="" if trained else _("No night of the last ones trained a model."),
        notes=(_("Garbage collection, cold answers and scrapes are told to Prometheus alone."),),
        parts=parts,
    )


def debug_out(book: Logbook) -> BoardOut:
    """The same numbers: whatever the last nights measured of themselves, and their stages."""
    if book.cities is not None:
        return BoardOut()
    rows: list[BoardRow] = []
    for run in nights_of(book):
        rows += [BoardRow("stage", stage, run.started_at, float(took), "s") for stage, took in run.timings.items()]
        for name, measure in OF_RUNS.items():
            value = _measures(run).get(name)
            by_label = value if isinstance(value, dict) else {"": value}
            for label, number in by_label.items():
                rows += series_rows(name, label, [(run.started_at, number)], measure.unit)
        rows += series_rows("backtest_wape", "candidate", [(run.started_at, _wape(run, "candidate"))], "share")
    return BoardOut(rows)


def _measures(run: Run) -> Mapping[str, Any]:
    return run.measures or {}


def _days(runs: Sequence[Run]) -> list[str]:
    return [display.short_day(run.started_at.date()) for run in runs]


def _from_cache(run: Run) -> str:
    hits, misses = (round(_measures(run).get(name, 0)) for name in ("compile_hits", "compile_misses"))
    return _("{n} of {all}", n=display.number(hits), all=display.number(hits + misses))


def _compiling(trained: Sequence[Run]) -> BoardPart:
    heading = _("Compiling")
    if not trained:
        return BoardPart(heading, says=_("Nothing is known of it yet."))
    lines = [
        (_("compiling"), [_measures(run).get("compile_seconds") for run in trained]),
        (_("training"), [_measures(run).get("training_seconds") for run in trained]),
    ]
    rows = [
        (
            BoardCell(display.short_day(run.started_at.date())),
            *numbers(duration(_measures(run).get("compile_seconds", 0.0)), _from_cache(run)),
        )
        for run in reversed(trained[-LISTED:])
    ]
    return BoardPart(
        heading,
        picture=picture_of_seconds(_days(trained), lines),
        columns=(_("Night"), _("Took"), _("From the cache")),
        rows=tuple(rows),
    )


def _versions(runs: Sequence[Run]) -> BoardPart:
    """What programs of the last training were compiled for, beside the one before."""
    known = [_measures(run)["versions"] for run in runs if "versions" in _measures(run)]
    heading = _("Compiled for")
    if not known:
        return BoardPart(heading, says=_("Nothing is known of it yet."))
    last, before = known[-1], known[-2] if len(known) > 1 else {}
    rows = [
        (
            BoardCell(name),
            BoardCell(str(value), "fair" if before and before.get(name) != value else ""),
            BoardCell(str(before.get(name, "–"))),
        )
        for name, value in last.items()
    ]
    says = (
        _("As before: programs come from the cache.") if last == before else _("Not as before: programs are compiled.")
    )
    says = says if before else ""
    return BoardPart(heading, says=says, columns=(_("What"), _("Last"), _("Before")), rows=tuple(rows))


def _stages(runs: Sequence[Run]) -> BoardPart:
    stages = list(dict.fromkeys(stage for run in reversed(runs) for stage in run.timings if stage != TOTAL))
    rows = []
    for stage in stages:
        seconds = [run.timings.get(stage, 0.0) for run in runs]
        known = [run.timings[stage] for run in runs if stage in run.timings]
        rows.append(
            (
                BoardCell(stage),
                *numbers(duration(known[-1]), duration(median(known))),
                BoardCell(duration(max(known)), is_number=True, only_wide=True),
                BoardCell("", bars=bars(seconds, len(seconds) - 1)),
            )
        )
    says = ngettext("Of the last {n} night.", "Of the last {n} nights.", len(runs), n=display.number(len(runs)))
    columns = (_("Stage"), _("Last"), _("Usually"), _("At most"), _("Nights"))
    return BoardPart(_("Stages"), says=says, columns=columns if rows else (), rows=tuple(rows))


def _wape(run: Run, model: str) -> float | None:
    compared = (run.verdict or {}).get("compared", {})
    wape: float | None = (compared.get(model) or {}).get("wape")
    return wape


def _backtests(runs: Sequence[Run]) -> BoardPart:
    judged = [run for run in runs if run.verdict and run.verdict.get("compared")]

    def rates(model: str) -> list[float | None]:
        return [None if (wape := _wape(run, model)) is None else 100 * wape for run in judged]

    drawn = picture(
        _days(judged),
        [(_(name), rates(model)) for model, name in COMPARED.items()],
        lambda percent: _("{n} %", n=display.number(percent, 1)),
    )
    parities = [f"{parity:.1e}" for run in runs if (parity := _measures(run).get("parity")) is not None]
    facts = ((_("ONNX against JAX"), parities[-1]),) if parities else ()
    return BoardPart(_("Error on held-out days"), facts=facts, picture=drawn)


def _processor(runs: Sequence[Run]) -> BoardPart:
    """Seconds of processor of the last night, and how fast it trained."""
    if not runs:
        return BoardPart(_("Processor"), says=_("Nothing is known of it yet."))
    measures = _measures(runs[-1])
    facts = [(process, duration(seconds)) for process, seconds in measures.get("cpu_seconds", {}).items()]
    if "training_rows_per_second" in measures:
        facts.append((_("Depot-days in a second"), display.number(measures["training_rows_per_second"])))
    return BoardPart(_("Processor"), facts=tuple(facts), says="" if facts else _("Nothing is known of it yet."))


def _devices(runs: Sequence[Run]) -> BoardPart:
    measures: Mapping[str, Any] = _measures(runs[-1]) if runs else {}
    peaks, limits = (measures.get(f"device_memory_{what}_bytes", {}) for what in ("peak", "limit"))
    busy = measures.get("device_utilisation", {})
    rows = [
        (
            BoardCell(device),
            *numbers(
                megabytes(peak),
                megabytes(limits[device]) if device in limits else "–",
                display.percent(busy[device], 0) if device in busy else "–",
            ),
        )
        for device, peak in peaks.items()
    ]
    if not rows:
        return BoardPart(
            _("Accelerators"), says=_("The last night trained on the processor, which has no memory of its own.")
        )
    return BoardPart(_("Accelerators"), columns=(_("Device"), _("Held"), _("May hold"), _("Busy")), rows=tuple(rows))
