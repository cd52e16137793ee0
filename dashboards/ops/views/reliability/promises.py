"""What is promised (service level objectives), and how each promise stands, for the page of the last nights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboards.ops.reading.editions import Logbook
from forecaster.core.language import N_, _
from forecaster.monitoring import slo
from forecaster.monitoring.slo import Standing

if TYPE_CHECKING:
    from forecaster.config import Spec

QUALITIES = {"kept": "good", "burning": "fair", "broken": "bad", "unknown": "fair"}
STATES = {"kept": N_("kept"), "burning": N_("burning"), "broken": N_("broken"), "unknown": N_("not known")}


@dataclass(frozen=True)
class PromiseLine:
    """A promise, as the table shows it."""

    promise: str
    measured: str
    state: str
    quality: str  # "good", "fair" or "bad"
    budget: str
    burns: str


@dataclass(frozen=True)
class Promises:
    lines: tuple[PromiseLine, ...]
    frozen: str  # why no night promotes a model; empty where it may


def promises(book: Logbook, spec: Spec | None) -> Promises | None:
    """None where nothing is promised, and for whoever does not see every city, of which these numbers tell."""
    if spec is None or spec.slo is None or book.cities is not None:
        return None
    freeze = slo.freeze(spec, book.ledger, book.now)
    return Promises(
        tuple(_line(standing) for standing in slo.standings(spec, book.ledger, book.now)),
        freeze.sentence[:1].upper() + freeze.sentence[1:] if freeze else "",
    )


def _line(standing: Standing) -> PromiseLine:
    return PromiseLine(
        standing.promise[:1].upper() + standing.promise[1:],
        standing.measured,
        _(STATES[standing.state]),
        QUALITIES[standing.state],
        "–" if standing.budget_left is None else f"{standing.budget_left:.0%}",
        "–" if standing.burn_rate is None else f"{standing.burn_rate:.1f}",
    )
