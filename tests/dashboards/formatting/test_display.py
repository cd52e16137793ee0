"""Numbers as the pages write them."""

from __future__ import annotations

import pytest

from dashboards.ops.formatting import display, locale


@pytest.mark.parametrize(
    ("value", "english", "german"),
    [(40.0, "40", "40"), (37.5, "37.5", "37,5"), (7.25, "7.25", "7,25"), (1317.999, "1,318", "1.318")],
)
def test_a_number_has_the_decimals_that_it_needs_two_at_most(value: float, english: str, german: str) -> None:
    assert display.decimal(value) == english
    with locale.active(locale.reader_locale("de")):
        assert display.decimal(value) == german
