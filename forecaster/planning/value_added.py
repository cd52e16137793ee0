"""Forecast value added of overrides: how much closer to the actual orders they were than the
model's numbers.

After Gilliland 2010 (The Business Forecasting Deal), per 100 actual orders: the sum of |model -
actual| less that of |override - actual|. Above 0 the overrides helped. Aggregates come first; a
planner is named only after enough days to rule out chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """An overridden day and its actual, in orders."""

    by: str
    reason: str
    model: float
    override: float
    actual: float


@dataclass(frozen=True)
class Added:
    """Sums over some days, in orders; `of` names the group."""

    of: str
    days: int
    helped: int  # days on which the override was closer than the model
    actual: float
    model_error: float  # sum of |model - actual|
    override_error: float

    @property
    def per_hundred(self) -> float:
        """Orders of error saved per 100 actual orders; NaN if there were none."""
        return 100 * (self.model_error - self.override_error) / self.actual if self.actual else float("nan")


@dataclass(frozen=True)
class Account:
    """A fair account: of all overrides, by reason, and by planners with enough days."""

    everyone: Added
    reasons: tuple[Added, ...]
    planners: tuple[Added, ...]
    unnamed: int  # planners with fewer days
    min_days: int


def account(results: Sequence[Result], min_days: int) -> Account:
    """Account of all results; groups are ordered by their days, largest first."""
    planners = _group_by(results, lambda result: result.by)
    often = tuple(planner for planner in planners if planner.days >= min_days)
    return Account(
        everyone=_sum_up("all", results),
        reasons=_group_by(results, lambda result: result.reason),
        planners=often,
        unnamed=len(planners) - len(often),
        min_days=min_days,
    )


def _group_by(results: Sequence[Result], key: Callable[[Result], str]) -> tuple[Added, ...]:
    names = sorted({key(result) for result in results})
    groups = [_sum_up(name, [result for result in results if key(result) == name]) for name in names]
    return tuple(sorted(groups, key=lambda group: (-group.days, group.of)))


def _sum_up(of: str, results: Sequence[Result]) -> Added:
    errors = [(abs(result.model - result.actual), abs(result.override - result.actual)) for result in results]
    return Added(
        of,
        len(results),
        sum(override < model for model, override in errors),
        sum(result.actual for result in results),
        sum(model for model, _ in errors),
        sum(override for _, override in errors),
    )
