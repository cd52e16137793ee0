"""Sentences of a week's plan: what is uncovered, and what each rule of the contracts costs."""

from __future__ import annotations

from collections.abc import Callable

from forecaster.ledger.week_plan import RuleCost, WeekPlan

Money = Callable[[float], str]
RULES = {
    "max_shifts_week": "at most {limit} shifts a week",
    "min_rest_hours": "{limit} hours of rest between shifts",
    "max_days_in_row": "at most {limit} days in a row",
    "hours_week": "{limit} hours a week",
}


def whole_money(value: float) -> str:
    """Money as a command writes it, without a unit: that is the unit of the declared costs."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.2f}"


def summary(plan: WeekPlan, money: Money = whole_money) -> str:
    """What of the week is uncovered, what that is expected to cost, and how much overtime there is."""
    wanted = sum(cover.wanted for cover in plan.shifts)
    if not wanted:
        return "Nobody is wanted in these days."
    if plan.missing:
        were = "1 of them is" if plan.missing == 1 else f"{plan.missing} of them are"
        text = f"{_count(wanted, 'driver')} wanted over the week; {were} not covered"
    else:
        text = f"The {_count(wanted, 'driver')} wanted over the week {'is' if wanted == 1 else 'are'} covered"
    hours = "hour" if plan.overtime_hours == 1 else "hours"
    overtime = f", with {plan.overtime_hours:g} {hours} of overtime" if plan.overtime_hours else ""
    cost = f", at an expected cost of {money(plan.cost)}" if plan.cost >= 0.005 else ""
    gap = f" A plan that costs {money(plan.gap)} less may exist: the time was over." if plan.gap > 0.5 else ""
    return f"{text}{overtime}{cost}.{gap}"


def rule_sentence(rule: RuleCost, money: Money = whole_money) -> str:
    """What the rule costs this week, all others in force."""
    if rule.rule == "days_off":
        return f"Days off ({rule.contract}) cost {money(rule.cost)}: shifts are open that those who are off could work."
    if rule.rule == "per_depot":
        return f"One more {rule.contract} driver beside the {rule.limit:g} would save {money(rule.cost)}."
    text = RULES[rule.rule].format(limit=f"{rule.limit:g}")
    return f"“{text[:1].upper()}{text[1:]}” ({rule.contract}) costs {money(rule.cost)}."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
