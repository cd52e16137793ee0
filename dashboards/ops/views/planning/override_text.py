"""Overrides in words: whose number stands in front, why, and what the model says."""

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
    """ "140 orders by Ana (weather: storm), until Tue 24 Jun; the model says 120."; empty without
    an override."""
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
    """ "Ana’s number; the model says 103"; empty without an override."""
    if override is None:
        return ""
    number = display.orders(override.quantiles[levels.index(0.5)])
    return _("{planner}’s number; the model says {number}", planner=override.by, number=number)


def why_text(reason: str, note: str) -> str:
    """A planner's reason, and what they wrote next to it."""
    return _("{reason}: {note}", reason=reason_text(reason), note=note) if note else reason_text(reason)


def reason_text(reason: str) -> str:
    """A reason in the reader's language, where it is one of those that every pipeline has."""
    return _(REASONS[reason]) if reason in REASONS else reason
