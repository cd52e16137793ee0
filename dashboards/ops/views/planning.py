"""Planning pages: the answer to a what-if (scenario), a day's override, the overrides and their value added."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import CsvSheet
from dashboards.ops.views.change import signed
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedOverride
from forecaster.planning.overrides import Override, find_superseded
from forecaster.planning.scenario import CLOSED, OPEN, ORDERS, Side, WhatIfAnswer
from forecaster.planning.value_added import Account, Added

KINDS = {ORDERS: "this many orders", CLOSED: "the depot is closed", OPEN: "the depot is open"}


@dataclass(frozen=True)
class SelectOption:
    value: str
    text: str
    chosen: bool


@dataclass(frozen=True)
class ComparisonRow:
    """A number before and after, and by how much it moves."""

    name: str
    before: str
    after: str
    moved: str


@dataclass(frozen=True)
class PlanPage:
    """A depot's day as planners see it; `answer` is empty where nothing was supposed."""

    depot_id: str
    day: str
    iso: str
    days: tuple[SelectOption, ...]
    kinds: tuple[SelectOption, ...]
    value: str
    missing: str | None
    scenario: str
    answer: tuple[ComparisonRow, ...]
    remark: str
    open: bool
    suggested: int
    override: str
    override_id: int | None
    reasons: tuple[str, ...]


def plan_page(
    depot: PublishedDepot,
    day: PublishedDay,
    levels: tuple[float, ...],
    kinds: tuple[str, ...],
    missing: str | None,
    answer: WhatIfAnswer | None,
    reasons: tuple[str, ...],
    some: bool = False,
) -> PlanPage:
    """Everything the page says; `some` says that there may be other depots, which the reader does not see."""
    median = day.quantiles[levels.index(0.5)]
    kind = answer.supposed.kind if answer else ""
    return PlanPage(
        depot.depot_id,
        display.day(day.target_date),
        day.target_date.isoformat(),
        tuple(_day_option(ahead.target_date, day.target_date) for ahead in depot.days),
        tuple(SelectOption(name, KINDS.get(name, name.replace("=", ": ")), name == kind) for name in kinds),
        f"{answer.supposed.value:g}" if answer else "1",
        missing,
        scenario_text(answer) if answer else "",
        comparison(answer, some) if answer else (),
        remark(answer, levels, day) if answer else "",
        day.open or depot.may_open(day.target_date),
        round(answer.after.orders if answer and answer.after.open else median),
        override_sentence(day.override, levels),
        day.override.id if day.override else None,
        reasons,
    )


def scenario_text(answer: WhatIfAnswer) -> str:
    """ "promo is 1", "the depot is closed", "300 orders"."""
    kind, value = answer.supposed.kind, answer.supposed.value
    if kind == ORDERS:
        return f"{display.orders(value)} orders"
    return KINDS.get(kind) or f"{kind.replace('=', ': ')} is {value:g}"


def what_if_sheet(answer: WhatIfAnswer) -> CsvSheet:
    """A row for each number of the day, and one for the orders of each other day."""
    question, before, after = answer.supposed, asdict(answer.before), asdict(answer.after)
    numbers = [(question.target_date, name, before[name], after[name]) for name in before]
    others = [(day, ORDERS, now, then) for day, now, then in answer.week if day != question.target_date]
    supposed = (question.depot_id, question.target_date, question.kind, question.value)
    columns = ("depot_id", "supposed_for", "kind", "value", "target_date", "number", "before", "after")
    return CsvSheet(columns, [(*supposed, *row) for row in (*numbers, *others)])


def worth_sheet(account: Account) -> CsvSheet:
    """A row for all, for each reason, and for each planner who is told of."""
    names = tuple(field.name for field in fields(Added))
    parts = [("all", account.everyone), *(("reason", reason) for reason in account.reasons)]
    parts += [("planner", planner) for planner in account.planners]
    rows = [(part, *(getattr(added, name) for name in names)) for part, added in parts]
    return CsvSheet(("part", *names), rows)


def comparison(answer: WhatIfAnswer, some: bool = False) -> tuple[ComparisonRow, ...]:
    """Orders, drivers, vans and money, those that the pipeline counts."""
    published, changed = answer.before, answer.after
    rows = [
        ComparisonRow("Orders", _orders(published), _orders(changed), _moved(_median(published), _median(changed))),
        ComparisonRow("80 % range", _range(published), _range(changed), ""),
    ]
    for name, before, after in (
        ("Drivers", published.drivers, changed.drivers),
        ("Vans", published.vans, changed.vans),
        ("Expected cost of too few and too many", published.cost, changed.cost),
        (f"The same, of all {'your ' if some else ''}depots that day", published.cost_of_all, changed.cost_of_all),
    ):
        if before is not None and after is not None:
            rows.append(ComparisonRow(name, display.orders(before), display.orders(after), _moved(before, after)))
    return tuple(rows)


def remark(answer: WhatIfAnswer, levels: tuple[float, ...], day: PublishedDay) -> str:
    """What else is to be known: an override that hides the model, other days that move."""
    sentences = []
    if answer.overridden is not None and day.override is not None:
        sentences.append(f"An override holds on this day: {override_sentence(day.override, levels)}")
    others = [
        f"{display.day(other_day)} {display.orders(before)} → {display.orders(after)}"
        for other_day, before, after in answer.week
        if other_day != answer.supposed.target_date and round(before) != round(after)
    ]
    if others:
        sentences.append(f"Other days move with it: {', '.join(others)}.")
    return " ".join(sentences)


def override_sentence(override: PublishedOverride | None, levels: tuple[float, ...]) -> str:
    """ "140 orders by Ana (weather: storm), until Tue 24 Jun; the model says 120."; empty without an override."""
    if override is None:
        return ""
    why = f"{override.reason}: {override.note}" if override.note else override.reason
    model = display.orders(override.quantiles[levels.index(0.5)])
    whose = f"{override.orders:,} orders by {override.by} ({why}), until {display.day(override.until)}"
    return f"{whose}; the model says {model}."


@dataclass(frozen=True)
class OverrideRow:
    """An override, as the list of all shows it."""

    number: int
    depot_id: str
    day: str
    orders: str
    why: str
    by: str
    state: str
    withdrawable: bool


@dataclass(frozen=True)
class Worth:
    of: str
    days: str
    helped: str
    saved: str


@dataclass(frozen=True)
class OverrideBook:
    entries: tuple[OverrideRow, ...]  # the newest first
    everyone: Worth | None
    reasons: tuple[Worth, ...]
    planners: tuple[Worth, ...]
    unnamed: str


def book(overrides: tuple[Override, ...], account: Account, as_of: date, most: int = 200) -> OverrideBook:
    """The newest overrides, and what those of past days were worth."""
    unnamed = ""
    if account.unnamed:
        unnamed = f"{display.count(account.unnamed, 'planner')} with fewer than {account.min_days} days not named."
    newer = find_superseded(overrides)
    return OverrideBook(
        tuple(_override_row(override, as_of, newer.get(override.id)) for override in reversed(overrides[-most:])),
        _worth(account.everyone) if account.everyone.days else None,
        tuple(map(_worth, account.reasons)),
        tuple(map(_worth, account.planners)),
        unnamed,
    )


def _override_row(override: Override, as_of: date, newer: int | None) -> OverrideRow:
    over = override.target_date < as_of
    state = f"until {display.day(override.until)}"
    if override.withdrawn is not None:
        state = f"withdrawn on {display.day(override.withdrawn.date())}"
    elif over or not override.holds(as_of):
        state = "over"
    elif newer is not None:
        state = f"replaced by {newer}"
    return OverrideRow(
        override.id,
        override.depot_id,
        display.day(override.target_date),
        f"{override.orders:,}",
        f"{override.reason}: {override.note}" if override.note else override.reason,
        override.by,
        state,
        override.withdrawn is None and newer is None and not over,
    )


def _worth(added: Added) -> Worth:
    saved = "–" if added.per_hundred != added.per_hundred else f"{added.per_hundred:+.1f}".replace("-", "−")
    return Worth(added.of, f"{added.days:,}", f"{added.helped:,}", saved)


def _day_option(day: date, chosen: date) -> SelectOption:
    return SelectOption(day.isoformat(), display.day(day), day == chosen)


def _median(side: Side) -> float:
    return side.orders if side.open else 0.0


def _orders(side: Side) -> str:
    return display.orders(side.orders) if side.open else "closed"


def _range(side: Side) -> str:
    return display.span(side.low, side.high) if side.open else "–"


def _moved(before: float, after: float) -> str:
    return signed(round(after) - round(before))
