"""Drift, for the health page and the depot's page: its location, duration and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import href
from forecaster.core.language import _, ngettext
from forecaster.ledger.drift import ALL, CLOSED, COVARIATE, DEPOT, LEVEL, SPREAD, Drift

MOST = 20  # depots that are listed


@dataclass(frozen=True)
class DriftLine:
    """Sentence about a drift; `href` is a depot's page."""

    name: str
    sentence: str
    href: str | None


@dataclass(frozen=True)
class DriftList:
    # network, covariates and cities first, then the depots farthest from their past
    lines: tuple[DriftLine, ...]
    others: int  # depots that are not listed


def drift_list(drifts: Sequence[Drift]) -> DriftList | None:
    """Return the list of drifts; None if there are none, or it is unknown."""
    if not drifts:
        return None
    order = lambda drift: (drift.part == DEPOT, drift.part != ALL, drift.part)  # noqa: E731
    aggregates = [drift for drift in sorted(drifts, key=order) if drift.part != DEPOT]
    depots = [drift for drift in drifts if drift.part == DEPOT]
    return DriftList(tuple(_line(drift) for drift in [*aggregates, *depots[:MOST]]), max(len(depots) - MOST, 0))


def depot_sentence(drifts: Sequence[Drift]) -> str:
    """Sentence about the drifts at one depot; empty if there are none."""
    return " ".join(_sentence(drift) for drift in drifts)


def _line(drift: Drift) -> DriftLine:
    name = _("The network") if drift.part == ALL else drift.label
    return DriftLine(name, _sentence(drift), href(drift.label) if drift.part == DEPOT else None)


def _sentence(drift: Drift) -> str:
    if drift.kind == LEVEL:
        return _level(drift)
    if drift.kind == SPREAD:
        return _spread(drift)
    return _covariate(drift) if drift.part == COVARIATE else _share(drift)


def _level(drift: Drift) -> str:
    share = display.percent(abs(drift.value - 1), 0)
    if drift.direction > 0:
        return ngettext(
            "Actuals are {share} above the forecast for {n} day.",
            "Actuals are {share} above the forecast for {n} days.",
            drift.days,
            n=display.number(drift.days),
            share=share,
        )
    return ngettext(
        "Actuals are {share} below the forecast for {n} day.",
        "Actuals are {share} below the forecast for {n} days.",
        drift.days,
        n=display.number(drift.days),
        share=share,
    )


def _spread(drift: Drift) -> str:
    if drift.direction > 0:
        return _("Forecast errors are larger than they used to be: the ranges are too narrow.")
    return _("Forecast errors are smaller than they used to be: the ranges are too wide.")


def _share(drift: Drift) -> str:
    shares = {"share": display.percent(drift.value, 0), "usual": display.percent(drift.usual or 0.0, 0)}
    if drift.kind == CLOSED:
        return _("{share} of days were closed in four weeks, {usual} in the year before.", **shares)
    return _("{share} of days are not known in four weeks, {usual} in the year before.", **shares)


def _covariate(drift: Drift) -> str:
    if drift.direction == 0:
        return _("Has been the same each day for four weeks, for the first time.")
    means = {"now": display.number(drift.value, 2), "usual": display.number(drift.usual or 0.0, 2)}
    if drift.direction > 0:
        return _("Is higher than in any four weeks before: {now}, at this time of year usually {usual}.", **means)
    return _("Is lower than in any four weeks before: {now}, at this time of year usually {usual}.", **means)
