"""Overrides in words: the planner, the reason, and the model's number."""

from __future__ import annotations

from dashboards.ops.formatting import display
from forecaster.core.language import N_, _
from forecaster.ledger.publication import PublishedOverride

REASONS = {
    "local event": N_("local event"),
    "weather": N_("weather"),
    "marketing": N_("marketing"),
    "customer told us": N_("customer told us"),
    "data was wrong": N_("data was wrong"),
    "other": N_("other"),
}


def override_sentence(override: PublishedOverride | None, levels: tuple[float, ...]) -> str:
    """Return a sentence such as "140 orders by Ana (weather: storm), until Tue 24 Jun; the model
    says 120."; empty without an override."""
    if override is None:
        return ""
    return _(
        "{orders} by {planner} ({why}), until {day}; the model says {number}.",
        orders=display.in_orders(override.orders),
        planner=override.by,
        why=why_text(override.reason, override.note),
        day=display.day(override.until),
        number=display.orders(override.quantiles[levels.index(0.5)]),
    )


def planners_number(override: PublishedOverride | None, levels: tuple[float, ...]) -> str:
    """Return a clause such as "Ana’s number; the model says 103"; empty without an override."""
    if override is None:
        return ""
    number = display.orders(override.quantiles[levels.index(0.5)])
    return _("{planner}’s number; the model says {number}", planner=override.by, number=number)


def why_text(reason: str, note: str) -> str:
    """Return a planner's reason with their note."""
    return _("{reason}: {note}", reason=reason_text(reason), note=note) if note else reason_text(reason)


def reason_text(reason: str) -> str:
    """Translate a predefined reason into the reader's language; others stay unchanged."""
    return _(REASONS[reason]) if reason in REASONS else reason
