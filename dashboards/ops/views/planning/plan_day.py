"""The page of a depot's day for planners: the answer to a what-if (scenario), and the day's
override."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import CsvSheet
from dashboards.ops.reading.header import cell_href
from dashboards.ops.views.planning.override_text import override_sentence, reason_text
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.planning.scenario import CLOSED, OPEN, ORDERS, PERCENT, MovedVans, Side, WhatIfAnswer

KINDS = {
    ORDERS: N_("this many orders"),
    PERCENT: N_("more or fewer orders, in per cent"),
    CLOSED: N_("the depot is closed"),
    OPEN: N_("the depot is open"),
}
YES, NO = ":1", ":0"  # suffixes of a binary covariate in the form's list
ALONE, CITY = "depot", "city"  # scopes of a form
MOST_OTHERS = 200  # depots that can be added to the page's depot
MOST_MOVED = 12  # depots with changed vans that a sentence names


@dataclass(frozen=True)
class SelectOption:
    value: str
    text: str
    chosen: bool


@dataclass(frozen=True)
class ComparisonRow:
    """A number before and after, and its change."""

    name: str
    before: str
    after: str
    moved: str


@dataclass(frozen=True)
class PlanPage:
    """A depot's day as planners see it; `answer` is empty without a what-if."""

    depot_id: str
    day: str
    iso: str
    href: str
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
    reasons: tuple[tuple[str, str], ...]  # as declared, and translated
    saves: tuple[tuple[str, str], ...]  # form fields of the override that matches the what-if; empty if there is none


@dataclass(frozen=True)
class PlanOptions:
    """Choices of a planner: what-if kinds, which of them are binary, override reasons, the other
    visible depots, and this depot's city with its number of depots."""

    kinds: tuple[str, ...]
    yes_or_no: Collection[str]
    reasons: tuple[str, ...]
    others: Sequence[str] = ()
    city: str = ""
    city_depots: int = 0
    scope: str = ALONE  # the requested scope


def plan_page(
    depot: PublishedDepot,
    day: PublishedDay,
    levels: tuple[float, ...],
    options: PlanOptions,
    missing: str | None,
    answer: WhatIfAnswer | None,
    some: bool = False,
) -> PlanPage:
    """Return the content of the page; `some` is true if there may be depots that the reader does
    not see."""
    value, last, other_depots = _supposed(answer, day)
    target_dates = [published.target_date for published in depot.days]
    return PlanPage(
        depot.depot_id,
        display.day(day.target_date),
        day.target_date.isoformat(),
        cell_href(depot.depot_id, day.target_date),
        _kind_options(options, answer),
        value or str(_suggested(answer, day, levels)),
        _day_options([target for target in target_dates if target >= day.target_date], last),
        _scopes(depot.depot_id, options),
        tuple(
            SelectOption(other, other, options.scope != CITY and other in other_depots)
            for other in options.others[:MOST_OTHERS]
        ),
        missing,
        *(_answered(answer, some, levels, day) if answer else ("", (), (), (), "")),
        day.open or depot.may_open(day.target_date),
        _suggested(answer, day, levels),
        override_sentence(day.override, levels),
        day.override.id if day.override else None,
        tuple((reason, reason_text(reason)) for reason in options.reasons),
        _saves(answer, options) if answer else (),
    )


def _saves(answer: WhatIfAnswer, options: PlanOptions) -> tuple[tuple[str, str], ...]:
    """Return the form fields that save the what-if as an override; empty unless it is a number of
    orders."""
    supposed = answer.supposed
    if supposed.kind not in (ORDERS, PERCENT):
        return ()
    fields = [("amount", f"{supposed.value:g}"), ("unit", supposed.kind)]
    if supposed.last is not None:
        fields.append(("last", supposed.last.isoformat()))
    if options.scope == CITY:
        return (*fields, ("scope", CITY))
    return (*fields, *(("others", other) for other in supposed.others))


def _supposed(answer: WhatIfAnswer | None, day: PublishedDay) -> tuple[str, date, Collection[str]]:
    """Return the value of the what-if, its last day, and its additional depots."""
    if answer is None:
        return "", day.target_date, ()
    supposed = answer.supposed
    return f"{supposed.value:g}", supposed.last or day.target_date, set(supposed.others)


def _suggested(answer: WhatIfAnswer | None, day: PublishedDay, levels: tuple[float, ...]) -> int:
    """Suggest the orders of an override: those of the answer, else the published median."""
    return round(answer.after.orders if answer and answer.after.open else day.quantiles[levels.index(0.5)])


def _answered(
    answer: WhatIfAnswer, some: bool, levels: tuple[float, ...], day: PublishedDay
) -> tuple[str, tuple[ComparisonRow, ...], tuple[ComparisonRow, ...], tuple[str, ...], str]:
    """Return the what-if in words, the numbers of the depot and of all, vans that move, and a
    remark."""
    rows = comparison(answer, some), together(answer, some)
    return scenario_text(answer), *rows, moved_vans(answer), remark(answer, levels, day)


def kind_and_value(choice: str, value: float | None) -> tuple[str, float | None]:
    """Split an entry of the form's list into kind and value: "promo:1" is `promo` with the value 1."""
    for ending, number in ((YES, 1.0), (NO, 0.0)):
        if choice.endswith(ending):
            return choice.removesuffix(ending), number
    return choice, value


def _kind_options(options: PlanOptions, answer: WhatIfAnswer | None) -> tuple[SelectOption, ...]:
    entries: list[tuple[str, str]] = []
    for kind in options.kinds:
        text = _(KINDS[kind]) if kind in KINDS else kind.replace("=", ": ")
        if kind in options.yes_or_no:
            entries += [
                (kind + YES, _("{covariate}: yes", covariate=text)),
                (kind + NO, _("{covariate}: no", covariate=text)),
            ]
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
    """Return the scopes of an override or a what-if: the page's depot, or its whole city."""
    scopes = [SelectOption(ALONE, depot_id, options.scope != CITY)]
    if options.city and options.city_depots > 1:
        text = ngettext(
            "all {n} depot of {city}",
            "all {n} depots of {city}",
            options.city_depots,
            n=display.number(options.city_depots),
            city=options.city,
        )
        scopes.append(SelectOption(CITY, text, options.scope == CITY))
    return tuple(scopes)


def scenario_text(answer: WhatIfAnswer) -> str:
    """Describe a what-if: "promo is on", "the depot is closed", "300 orders a day at 3 depots, Thu
    19 Jun – Fri 20 Jun"."""
    supposed = answer.supposed
    kind, value = supposed.kind, supposed.value
    if kind == ORDERS:
        text = display.in_orders(value)
    elif kind == PERCENT:
        share = display.percent(abs(value) / 100, 0)
        if value < 0:
            text = _("orders are {share} fewer than the model’s", share=share)
        else:
            text = _("orders are {share} more than the model’s", share=share)
    else:
        text = _(KINDS[kind]) if kind in KINDS else _covariate(kind.replace("=", ": "), value)
    if len(supposed.depot_ids) > 1:
        text = ngettext(
            "{supposition} at {n} depot",
            "{supposition} at {n} depots",
            len(supposed.depot_ids),
            n=display.number(len(supposed.depot_ids)),
            supposition=text,
        )
    if supposed.last not in (None, supposed.target_date):
        text = display.listed([text, display.days([day.target_date for day in answer.days])])
    return text


def _covariate(name: str, value: float) -> str:
    if value == 0.0:
        return _("{covariate} is off", covariate=name)
    if value == 1.0:
        return _("{covariate} is on", covariate=name)
    return _("{covariate} is {value}", covariate=name, value=f"{value:g}")


def together(answer: WhatIfAnswer, some: bool = False) -> tuple[ComparisonRow, ...]:
    """Return sums over several depots or days: their orders and drivers, day by day, and the
    expected cost of all."""
    if len(answer.days) < 2 and len(answer.supposed.depot_ids) < 2:
        return ()
    rows = []
    for of_day in answer.days:
        day = display.day(of_day.target_date)
        for name, before, after in (
            (_("Orders, {day}", day=day), of_day.orders_before, of_day.orders_after),
            (_("Drivers, {day}", day=day), of_day.drivers_before, of_day.drivers_after),
            (_cost_of_all(day, some), of_day.cost_before, of_day.cost_after),
        ):
            if before is not None and after is not None:
                rows.append(ComparisonRow(name, display.orders(before), display.orders(after), _moved(before, after)))
    return tuple(rows)


def moved_vans(answer: WhatIfAnswer) -> tuple[str, ...]:
    """Sentences on the depots that lose or get vans, day by day."""
    sentences = []
    for of_day in answer.days:
        moved = [vans for vans in answer.moved_vans if vans.target_date == of_day.target_date]
        losing = [vans for vans in moved if vans.after < vans.before]
        winning = [vans for vans in moved if vans.after > vans.before]
        for loses, group in ((True, losing), (False, winning)):
            if group:
                sentences.append(_whose_vans(display.day(of_day.target_date), loses, group))
    return tuple(sentences)


def _whose_vans(day: str, loses: bool, group: Sequence[MovedVans]) -> str:
    """Name depots that lose or get a van, with their vans before and after."""
    entries = [f"{vans.depot_id} ({vans.before} → {vans.after})" for vans in group[:MOST_MOVED]]
    depots = display.listed(entries)
    if len(group) > MOST_MOVED:
        depots = _("{depots} and {n} more", depots=depots, n=display.number(len(group) - MOST_MOVED))
    single = all(abs(vans.after - vans.before) == 1 for vans in group)
    if loses:
        text = N_("{day}, lose a van: {depots}.") if single else N_("{day}, lose vans: {depots}.")
    else:
        text = N_("{day}, get a van: {depots}.") if single else N_("{day}, get vans: {depots}.")
    return _(text, day=day, depots=depots)


def what_if_sheet(answer: WhatIfAnswer) -> CsvSheet:
    """Return one row per number of the day, one for the orders of each other day, the sums over all
    depots of the question, and the vans that move."""
    question, before, after = answer.supposed, asdict(answer.before), asdict(answer.after)
    numbers = [(question.target_date, name, before[name], after[name]) for name in before]
    other_days = [(day, ORDERS, now, then) for day, now, then in answer.week if day != question.target_date]
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
    return CsvSheet(columns, [(*supposed, *row) for row in (*numbers, *other_days, *sums, *vans)])


def comparison(answer: WhatIfAnswer, some: bool = False) -> tuple[ComparisonRow, ...]:
    """Return orders, drivers, vans and money, as far as the pipeline counts them."""
    published, changed = answer.before, answer.after
    rows = [
        ComparisonRow(_("Orders"), _orders(published), _orders(changed), _moved(_median(published), _median(changed))),
        ComparisonRow(_("80 % range"), _range(published), _range(changed), ""),
    ]
    for name, before, after in (
        (_("Drivers"), published.drivers, changed.drivers),
        (_("Vans"), published.vans, changed.vans),
        (_("Expected cost of missing and idle drivers"), published.cost, changed.cost),
        (_same_of_all(some), published.cost_of_all, changed.cost_of_all),
    ):
        if before is not None and after is not None:
            rows.append(ComparisonRow(name, display.orders(before), display.orders(after), _moved(before, after)))
    return tuple(rows)


def remark(answer: WhatIfAnswer, levels: tuple[float, ...], day: PublishedDay) -> str:
    """Return remarks: an override that hides the model's number, and other days that change."""
    sentences = []
    if answer.overridden is not None and day.override is not None:
        override = override_sentence(day.override, levels)
        sentences.append(_("An override holds on this day: {override}", override=override))
    other_days = [
        _(
            "{day} {before} → {after}",
            day=display.day(other_day),
            before=display.orders(before),
            after=display.orders(after),
        )
        for other_day, before, after in answer.week
        if other_day != answer.supposed.target_date and round(before) != round(after)
    ]
    if other_days:
        sentences.append(_("Other days move with it: {days}.", days=display.listed(other_days)))
    return " ".join(sentences)


def _cost_of_all(day: str, some: bool) -> str:
    return _("Cost of all your depots, {day}", day=day) if some else _("Cost of all depots, {day}", day=day)


def _same_of_all(some: bool) -> str:
    return _("The same, of all your depots that day") if some else _("The same, of all depots that day")


def _day_options(days: Sequence[date], selected_day: date) -> tuple[SelectOption, ...]:
    return tuple(SelectOption(day.isoformat(), display.day(day), day == selected_day) for day in days)


def _median(side: Side) -> float:
    return side.orders if side.open else 0.0


def _orders(side: Side) -> str:
    return display.orders(side.orders) if side.open else _("closed")


def _range(side: Side) -> str:
    return display.span(side.low, side.high) if side.open else "–"


def _moved(before: float, after: float) -> str:
    return display.signed(round(after) - round(before))
