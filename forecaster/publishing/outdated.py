"""Decide whether a publication stays, since all days of a new forecast are over."""

from __future__ import annotations

from datetime import date, datetime

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.planning.overrides import as_of_day


def outdated_by(spec: Spec, cutoff: date, as_of: datetime) -> Head | None:
    """The publication that stays, since all days of a new forecast are over by its own instant, and those of the shown
    one were not by its own: the clock may be wrong, or the feed has stopped. Raises LedgerError."""
    if (as_of.astimezone(spec.zone).date() - cutoff).days <= spec.horizon:
        return None
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
    return head if head is not None and (as_of_day(head) - head.cutoff).days <= head.horizon else None


def trouble(head: Head) -> str:
    """What is said of a forecast in whose place a publication stays."""
    template = N_(
        "all days of the new forecast are over, and publication {id} stays: look at the clock and at the newest reading"
    )
    return sentence(template, id=head.publication_id)
