"""The page of a depot's day for planners: the answer to a what-if (scenario), and the day's override."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import CsvSheet
from dashboards.ops.views.change import signed
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedOverride
from forecaster.planning.scenario import CLOSED, OPEN, ORDERS, PERCENT, Side, WhatIfAnswer

KINDS = {
    ORDERS: "this many orders",
    PERCENT: "more or fewer orders, in per cent",
    CLOSED: "the depot is closed",
    OPEN: "the depot is open",
}
YES, NO = ":1", ":0"  # behind a covariate that is on or off, in the form's list
ALONE, CITY = "depot", "city"  # whom a form is for
MOST_OTHERS = 200  # depots to choose from beside the one of the page
MOST_MOVED = 12  # depots with other vans that a sentence names


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
    last_days: tuple[SelectOption, ...]
    scopes: tuple[SelectOption, ...]
    others: tuple[SelectOption, ...]
    missing: str | None
    scenario: str
    answer: tuple[ComparisonRow, ...]
    together: tuple[ComparisonRow, ...]
    vans: tuple[str, ...]
    remark: str
    open: bool
    suggested: int
    override: str
    override_id: int | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PlanOptions:
    """What a planner may choose from: kinds of suppositions, those of them that are on or off, reasons of overrides,
    other depots that the reader sees, and the city of this one with its number of depots."""

    kinds: tuple[str, ...]
    yes_or_no: Collection[str]
    reasons: tuple[str, ...]
    others: Sequence[str] = ()
    city: str = ""
    city_depots: int = 0


def plan_page(
    depot: PublishedDepot,
    day: PublishedDay,
    levels: tuple[float, ...],
    options: PlanOptions,
    missing: str | None,
    answer: WhatIfAnswer | None,
    some: bool = False,
) -> PlanPage:
    """Everything the page says; `some` says that there may be other depots, which the reader does not see."""
    median = day.quantiles[levels.index(0.5)]
    last = answer.supposed.last if answer and answer.supposed.last else day.target_date
    chosen = set(answer.supposed.others) if answer else set()
    ahead = [published.target_date for published in depot.days]
    return PlanPage(
        depot.depot_id,
        display.day(day.target_date),
        day.target_date.isoformat(),
        tuple(_day_option(target, day.target_date) for target in ahead),
        _kind_options(options, answer),
        f"{answer.supposed.value:g}" if answer else "",
        tuple(_day_option(target, last) for target in ahead if target >= day.target_date),
        _scopes(depot.depot_id, options),
        tuple(SelectOption(other, other, other in chosen) for other in options.others[:MOST_OTHERS]),
        missing,
        scenario_text(answer) if answer else "",
        comparison(answer, some) if answer else (),
        together(answer, some) if answer else (),
        moved_vans(answer) if answer else (),
        remark(answer, levels, day) if answer else "",
        day.open or depot.may_open(day.target_date),
        round(answer.after.orders if answer and answer.after.open else median),
        override_sentence(day.override, levels),
        day.override.id if day.override else None,
        options.reasons,
    )


def kind_and_value(choice: str, value: float | None) -> tuple[str, float | None]:
    """What an entry of the form's list stands for: "promo:1" is `promo` with the value 1."""
    for ending, number in ((YES, 1.0), (NO, 0.0)):
        if choice.endswith(ending):
            return choice.removesuffix(ending), number
    return choice, value


def _kind_options(options: PlanOptions, answer: WhatIfAnswer | None) -> tuple[SelectOption, ...]:
    entries: list[tuple[str, str]] = []
    for kind in options.kinds:
        text = KINDS.get(kind, kind.replace("=", ": "))
        if kind in options.yes_or_no:
            entries += [(kind + YES, f"{text}: yes"), (kind + NO, f"{text}: no")]
        else:
            entries.append((kind, text))
    supposed = answer.supposed if answer else None
    return tuple(
        SelectOption(
            choice,
            text,
            supposed is not None and kind_and_value(choice, supposed.value) == (supposed.kind, supposed.value),
        )
        for choice, text in entries
    )


def _scopes(depot_id: str, options: PlanOptions) -> tuple[SelectOption, ...]:
    """Whom a wish or a question is for: the depot of the page, or its whole city."""
    scopes = [SelectOption(ALONE, depot_id, True)]
    if options.city and options.city_depots > 1:
        scopes.append(SelectOption(CITY, f"all {display.count(options.city_depots, 'depot')} of {options.city}", False))
    return tuple(scopes)


def scenario_text(answer: WhatIfAnswer) -> str:
    """ "promo is on", "the depot is closed", "300 orders a day at 3 depots, Thu 19 Jun – Fri 20 Jun"."""
    supposed = answer.supposed
    kind, value = supposed.kind, supposed.value
    if kind == ORDERS:
        text = display.count(round(value), "order")
    elif kind == PERCENT:
        text = f"orders are {display.percent(abs(value) / 100, 0)} {'fewer' if value < 0 else 'more'} than the model’s"
    else:
        word = {0.0: "off", 1.0: "on"}.get(value, f"{value:g}")
        text = KINDS.get(kind) or f"{kind.replace('=', ': ')} is {word}"
    if len(supposed.depot_ids) > 1:
        text += f" at {display.count(len(supposed.depot_ids), 'depot')}"
    if supposed.last not in (None, supposed.target_date):
        text += f", {display.days([day.target_date for day in answer.days])}"
    return text


def together(answer: WhatIfAnswer, some: bool = False) -> tuple[ComparisonRow, ...]:
    """Where several depots or days were asked about: their orders and drivers together, day by day, and what all are
    expected to cost."""
    if len(answer.days) < 2 and len(answer.supposed.depot_ids) < 2:
        return ()
    rows = []
    for of_day in answer.days:
        day = display.day(of_day.target_date)
        for name, before, after in (
            (f"Orders, {day}", of_day.orders_before, of_day.orders_after),
            (f"Drivers, {day}", of_day.drivers_before, of_day.drivers_after),
            (f"Cost of all {'your ' if some else ''}depots, {day}", of_day.cost_before, of_day.cost_after),
        ):
            if before is not None and after is not None:
                rows.append(ComparisonRow(name, display.orders(before), display.orders(after), _moved(before, after)))
    return tuple(rows)


def moved_vans(answer: WhatIfAnswer) -> tuple[str, ...]:
    """Sentences about which depots lose a van by it, and which win one, day by day."""
    sentences = []
    for of_day in answer.days:
        moved = [vans for vans in answer.moved_vans if vans.target_date == of_day.target_date]
        for verb, group in (
            ("lose", [vans for vans in moved if vans.after < vans.before]),
            ("get", [vans for vans in moved if vans.after > vans.before]),
        ):
            if group:
                named = [f"{vans.depot_id} ({vans.before} → {vans.after})" for vans in group[:MOST_MOVED]]
                more = f" and {len(group) - MOST_MOVED:,} more" if len(group) > MOST_MOVED else ""
                article = "a van" if all(abs(vans.after - vans.before) == 1 for vans in group) else "vans"
                sentences.append(f"{display.day(of_day.target_date)}, {verb} {article}: {', '.join(named)}{more}.")
    return tuple(sentences)


def what_if_sheet(answer: WhatIfAnswer) -> CsvSheet:
    """A row for each number of the day, one for the orders of each other day, those of all depots of the question
    together, and of the vans that move."""
    question, before, after = answer.supposed, asdict(answer.before), asdict(answer.after)
    numbers = [(question.target_date, name, before[name], after[name]) for name in before]
    others = [(day, ORDERS, now, then) for day, now, then in answer.week if day != question.target_date]
    sums = []
    if len(answer.days) > 1 or len(question.depot_ids) > 1:
        for day in answer.days:
            sums += [
                (day.target_date, "orders_together", day.orders_before, day.orders_after),
                (day.target_date, "drivers_together", day.drivers_before, day.drivers_after),
                (day.target_date, "cost_of_all", day.cost_before, day.cost_after),
            ]
    vans = [(moved.target_date, f"vans of {moved.depot_id}", moved.before, moved.after) for moved in answer.moved_vans]
    supposed = (question.depot_id, question.target_date, question.kind, question.value)
    columns = ("depot_id", "supposed_for", "kind", "value", "target_date", "number", "before", "after")
    return CsvSheet(columns, [(*supposed, *row) for row in (*numbers, *others, *sums, *vans)])


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
    whose = f"{display.count(override.orders, 'order')} by {override.by} ({why}), until {display.day(override.until)}"
    return f"{whose}; the model says {model}."


def planners_number(override: PublishedOverride | None, levels: tuple[float, ...]) -> str:
    """ "Ana’s number; the model says 103"; empty without an override."""
    if override is None:
        return ""
    return f"{override.by}’s number; the model says {display.orders(override.quantiles[levels.index(0.5)])}"


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
