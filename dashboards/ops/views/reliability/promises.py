"""Service level objectives and their status, for the health page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import capitalised, told
from dashboards.ops.reading.editions import Logbook
from forecaster.core.language import N_, _
from forecaster.monitoring import slo
from forecaster.monitoring.slo import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forecaster.config import Spec

NOT_KNOWN = "–"  # placeholder of a number
QUALITIES = {"kept": "good", "burning": "fair", "broken": "bad", "unknown": "fair"}
STATES = {"kept": N_("met"), "burning": N_("burning"), "broken": N_("broken"), "unknown": N_("not known")}
TITLES = {  # key and name → title of an objective
    ("S1", "deadline"): N_("Nights published in time"),
    ("S2", "tier"): N_("Forecast by a model"),
    ("S3", "availability"): N_("Answers without an error"),
    ("S4", "latency"): N_("Answers within 0.2 s"),
    ("S5", "–"): N_("Inference answers in time"),
    ("S6", "–"): N_("Inference is warm"),
    ("S7", "cache"): N_("Programs from the cache"),
    ("S8", "night_time"): N_("Nights in their usual time"),
    ("S9", "error_ratio"): N_("Error as judged"),
    ("S9", "coverage"): N_("Ranges are calibrated"),
    ("S9", "bias"): N_("Neither too high nor too low"),
}


@dataclass(frozen=True)
class PromiseLine:
    """An objective, as the table shows it."""

    promise: str
    measured: str
    state: str
    quality: str  # "good", "fair" or "bad"
    budget: str
    burns: str
    title: str  # short title


@dataclass(frozen=True)
class Promises:
    lines: tuple[PromiseLine, ...]
    frozen: str  # reason why runs may not promote a model; empty if they may


def promises(book: Logbook, spec: Spec | None) -> Promises | None:
    """Return the objectives; None without any, and for a reader who does not see every city, whose
    data these numbers include."""
    if spec is None or spec.slo is None or book.cities is not None:
        return None
    freeze = slo.freeze(spec, book.ledger, book.now)
    return Promises(
        tuple(_line(status) for status in slo.standings(spec, book.ledger, book.now)),
        capitalised(told(freeze.sentence)) if freeze else "",
    )


def standings_of(book: Logbook) -> Sequence[Standing]:
    """Return the status of every declared objective; empty without any, and for readers of some
    cities."""
    if book.spec is None or book.spec.slo is None or book.cities is not None:
        return ()
    return slo.standings(book.spec, book.ledger, book.now)


def standing_lines(book: Logbook) -> tuple[PromiseLine, ...]:
    """Return the same as lines of a table."""
    return tuple(map(_line, standings_of(book)))


def _line(status: Standing) -> PromiseLine:
    title = _(TITLES[status.key, status.name])
    return PromiseLine(
        capitalised(told(status.promise)),
        display.in_one_line(told(status.measured)),
        _(STATES[status.state]),
        QUALITIES[status.state],
        NOT_KNOWN if status.budget_left is None else display.percent(status.budget_left, 0),
        NOT_KNOWN if status.burn_rate is None else display.number(status.burn_rate, 1),
        f"{status.key} {title}",
    )
