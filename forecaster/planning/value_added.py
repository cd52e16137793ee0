"""What planners' numbers were worth: how much nearer than the model's they came to the orders of their days.

Forecast value added (Gilliland 2010, The Business Forecasting Deal), in orders for each 100 that came: the sum of
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
    planners = _group_by(results, lambda each: each.by)
    named = tuple(each for each in planners if each.days >= min_days)
    return Account(
        _sum_up("all", results),
        _group_by(results, lambda each: each.reason),
        named,
        len(planners) - len(named),
        min_days,
    )


def _group_by(results: Sequence[Result], key: Callable[[Result], str]) -> tuple[Added, ...]:
    names = sorted({key(each) for each in results})
    found = [_sum_up(name, [each for each in results if key(each) == name]) for name in names]
    return tuple(sorted(found, key=lambda each: (-each.days, each.of)))


def _sum_up(of: str, results: Sequence[Result]) -> Added:
    errors = [(abs(each.model - each.actual), abs(each.override - each.actual)) for each in results]
    return Added(
        of,
        len(results),
        sum(override < model for model, override in errors),
        sum(each.actual for each in results),
        sum(model for model, _ in errors),
        sum(override for _, override in errors),
    )
