"""Sentences on a week's plan: its uncovered shifts, and the cost of each contract rule."""

from __future__ import annotations

from collections.abc import Callable

from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.week_plan import ForbiddingRule, RuleCost, WeekPlan

Money = Callable[[float], str]
Number = Callable[[float], str]
RULES = {
    "max_shifts_week": N_("“At most {limit} shifts a week” ({contract}) costs {cost}."),
    "min_rest_hours": N_("“{limit} hours of rest between shifts” ({contract}) costs {cost}."),
    "max_days_in_row": N_("“At most {limit} days in a row” ({contract}) costs {cost}."),
    "hours_week": N_("“{limit} hours a week” ({contract}) costs {cost}."),
}

FORBIDDING: dict[ForbiddingRule, str] = {
    "max_shifts_week": N_("the limit of shifts a week"),
    "min_rest_hours": N_("the rest between shifts"),
    "max_days_in_row": N_("the limit of days in a row"),
    "hours_week": N_("the limit of hours a week"),
    "days_off": N_("a day off"),
    "cannot_work": N_("the list of shifts that the person cannot work"),
    "closed": N_("the opening of the depot, without that shift on that day,"),
    "rules": N_("a combination of rules"),
}


def whole_money(value: float) -> str:
    """Money in a command's output, without a unit: that of the declared costs."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.2f}"


def plain_number(value: float) -> str:
    """Number in a command's output, with its decimals if any."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def summary(plan: WeekPlan, money: Money = whole_money, number: Number = plain_number) -> str:
    """Sentence on the week's uncovered shifts, their expected cost, and the overtime."""
    needed_drivers = sum(cover.wanted for cover in plan.shifts)
    if not needed_drivers:
        return _("No drivers are needed on these days.")
    if plan.missing:
        drivers = ngettext("{n} driver needed", "{n} drivers needed", needed_drivers, n=number(needed_drivers))
        text = ngettext(
            "{drivers} over the week; {n} of them is not covered",
            "{drivers} over the week; {n} of them are not covered",
            plan.missing,
            n=number(plan.missing),
            drivers=drivers,
        )
    else:
        text = ngettext(
            "The {n} driver needed over the week is covered",
            "The {n} drivers needed over the week are covered",
            needed_drivers,
            n=number(needed_drivers),
        )
    if plan.overtime_hours:
        text = ngettext(
            "{text}, with {n} hour of overtime",
            "{text}, with {n} hours of overtime",
            plan.overtime_hours,
            n=number(plan.overtime_hours),
            text=text,
        )
    if plan.cost >= 0.005:
        text = _("{text}, at an expected cost of {cost}", text=text, cost=money(plan.cost))
    if plan.gap <= 0.5:
        return f"{text}."
    gap = _("A plan that costs {amount} less may exist; the time limit was reached.", amount=money(plan.gap))
    return f"{text}. {gap}"


def rule_sentence(rule: RuleCost, money: Money = whole_money, number: Number = plain_number) -> str:
    """Sentence on the cost of a rule this week, with all others in force."""
    if rule.rule == "days_off":
        return _(
            "Days off ({contract}) cost {cost}: people who are off could work open shifts.",
            contract=rule.contract,
            cost=money(rule.cost),
        )
    if rule.rule == "spread_weight":
        return _(
            "Spreading weekend and late shifts over people and granting wishes costs {cost}.", cost=money(rule.cost)
        )
    if rule.rule == "per_depot":
        return _(
            "One more {contract} driver in addition to the {limit} would save {cost}.",
            contract=rule.contract,
            limit=number(rule.limit),
            cost=money(rule.cost),
        )
    return _(RULES[rule.rule], limit=number(rule.limit), contract=rule.contract, cost=money(rule.cost))
