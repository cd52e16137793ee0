"""Forecast value added of overrides: how much nearer than the model's numbers they came to the
orders of their days.

After Gilliland 2010 (The Business Forecasting Deal), in orders for each 100 that came: the sum of
|model - actual| less that of |override - actual|. Above 0 the overrides helped. Aggregates come first; a planner is
named only after so many days that chance does not speak for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """A day that was overridden, and what came, in orders."""

    by: str
    reason: str
    model: float
    override: float
    actual: float


@dataclass(frozen=True)
class Added:
    """Some days together; sums are of orders, `of` says whose days they are."""

    of: str
    days: int
    helped: int  # days on which the override came nearer than the model
    actual: float
    model_error: float  # sum of |model - actual|
    override_error: float

    @property
    def per_hundred(self) -> float:
        """Orders of error saved for each 100 orders that came; NaN where none came."""
        return 100 * (self.model_error - self.override_error) / self.actual if self.actual else float("nan")


@dataclass(frozen=True)
class Account:
    """Everything that can be said fairly: of all, by reason, and of planners with enough days."""

    everyone: Added
    reasons: tuple[Added, ...]
    planners: tuple[Added, ...]
    unnamed: int  # planners with fewer days
    min_days: int


def account(results: Sequence[Result], min_days: int) -> Account:
    """The account of all results; parts are in the order of their days, the most first."""
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
