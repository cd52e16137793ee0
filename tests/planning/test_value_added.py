"""The value of overrides is reported for all first, and for named planners only after enough days."""

from __future__ import annotations

import math

from forecaster.planning.value_added import Result, account


def test_value_of_a_better_override_is_its_reduction_of_the_error() -> None:
    report = account([Result("Ana", "weather", model=100, override=130, actual=140)], 5).everyone
    assert (report.days, report.helped, report.model_error, report.override_error) == (1, 1, 40, 10)
    assert round(report.per_hundred, 4) == round(100 * 30 / 140, 4)


def test_worse_override_has_negative_value() -> None:
    report = account([Result("Ana", "weather", model=100, override=130, actual=90)], 5).everyone
    assert report.per_hundred < 0
    assert report.helped == 0


def test_reasons_are_always_listed_and_planners_only_with_enough_days() -> None:
    ana = [Result("Ana", "weather", 100, 110, 110)] * 2
    ben = [Result("Ben", "event", 100, 90, 110)]
    report = account([*ana, *ben], 2)
    assert [(group.of, group.days) for group in report.reasons] == [("weather", 2), ("event", 1)]
    assert [(group.of, group.days) for group in report.planners] == [("Ana", 2)]
    assert (report.unnamed, report.min_days, report.everyone.days) == (1, 2, 3)


def test_value_is_nan_without_actual_orders() -> None:
    assert math.isnan(account([], 5).everyone.per_hundred)
    assert math.isnan(account([Result("Ana", "weather", 5, 0, 0)], 5).everyone.per_hundred)
