"""The value of overrides is reported for all first, and for named planners only after enough days."""

from __future__ import annotations

import math

from forecaster.planning.value_added import Result, account


def test_an_override_that_came_nearer_than_the_model_is_worth_what_it_came_nearer() -> None:
    report = account([Result("Ana", "weather", model=100, override=130, actual=140)], 5).everyone
    assert (report.days, report.helped, report.model_error, report.override_error) == (1, 1, 40, 10)
    assert round(report.per_hundred, 4) == round(100 * 30 / 140, 4)


def test_an_override_that_came_further_off_costs() -> None:
    report = account([Result("Ana", "weather", model=100, override=130, actual=90)], 5).everyone
    assert report.per_hundred < 0
    assert report.helped == 0


def test_reasons_come_with_their_counts_and_planners_only_with_enough_days() -> None:
    ana = [Result("Ana", "weather", 100, 110, 110)] * 2
    ben = [Result("Ben", "event", 100, 90, 110)]
    report = account([*ana, *ben], 2)
    assert [(group.of, group.days) for group in report.reasons] == [("weather", 2), ("event", 1)]
    assert [(group.of, group.days) for group in report.planners] == [("Ana", 2)]
    assert (report.unnamed, report.min_days, report.everyone.days) == (1, 2, 3)


def test_nothing_that_came_has_no_share() -> None:
    assert math.isnan(account([], 5).everyone.per_hundred)
    assert math.isnan(account([Result("Ana", "weather", 5, 0, 0)], 5).everyone.per_hundred)
