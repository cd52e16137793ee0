"""Champion page: the current model with its start and reason, earlier champions, and the gate's
recent verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import capitalised, told, told_objections
from dashboards.ops.reading.header import title_of, zone_of
from dashboards.ops.views.accuracy import worth
from forecaster.core.language import _
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.records import Head, Promotion, Run, previous_champion

SHOWN = 20  # promotions
COMMAND = 'forecaster rollback FILE --reason "why"'


@dataclass(frozen=True)
class Reign:
    """A promotion, as the table shows it."""

    at: str
    name: str
    bundle: str
    by: str
    reason: str
    run_id: str
    version: str | None  # of the model in MLflow


@dataclass(frozen=True)
class VerdictLine:
    run_id: str
    began: str
    admitted: bool
    sentence: str


@dataclass(frozen=True)
class Champion:
    title: str
    reigning: Reign | None
    since: str
    published_model: str  # model of the publication
    tier: str
    reigns: tuple[Reign, ...]  # newest first
    verdicts: tuple[VerdictLine, ...]  # newest first
    command: str | None  # None: there is no previous champion
    back_to: Reign | None
    worth: str  # recent error compared with the rivals


def champion(
    head: Head | None, promotions: Sequence[Promotion], runs: Sequence[Run], tallies: Sequence[Tally] = ()
) -> Champion:
    """Return the page. Promotions are oldest first, runs newest first; instants are in the
    publication's zone, or else in UTC."""
    zone = zone_of(head)
    champion_terms = tuple(_reign(promotion, zone) for promotion in reversed(promotions[-SHOWN:]))
    previous = previous_champion(promotions)
    return Champion(
        title_of(head),
        champion_terms[0] if champion_terms else None,
        display.instant(_since(promotions).at, zone) if champion_terms else "",
        head.model if head else "",
        head.tier if head else "",
        champion_terms,
        tuple(_verdict(run, zone) for run in runs if run.verdict is not None),
        COMMAND if previous else None,
        _reign(previous, zone) if previous else None,
        worth(tallies),
    )


def _since(promotions: Sequence[Promotion]) -> Promotion:
    """Return the promotion that introduced the current bundle; later ones confirmed it."""
    first = promotions[-1]
    for promotion in reversed(promotions):
        if promotion.bundle_digest != first.bundle_digest:
            break
        first = promotion
    return first


def _reign(promotion: Promotion, zone: ZoneInfo) -> Reign:
    name = _("version {number}", number=promotion.model_version) if promotion.model_version else _("no version")
    return Reign(
        display.instant(promotion.at, zone),
        name,
        promotion.bundle_digest[:12],
        promotion.by,
        capitalised(told(promotion.reason)),
        promotion.run_id,
        promotion.model_version,
    )


def _verdict(run: Run, zone: ZoneInfo) -> VerdictLine:
    verdict = run.verdict or {}
    objections = told_objections(verdict)
    admitted = bool(verdict.get("admitted"))
    sentence = display.in_one_line(display.clauses(*objections)) or (_("No objection.") if admitted else "–")
    return VerdictLine(run.run_id, display.instant(run.started_at, zone), admitted, sentence)
