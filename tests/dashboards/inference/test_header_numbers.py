"""A number in a header is digits within bounds, however many zeros stand before them."""

from __future__ import annotations

import pytest

from dashboards.inference.header_numbers import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("60", 60),
        ("0060", 60),
        ("0" * 5000 + "7", 7),
        ("0", None),
        ("61", None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_a_number_is_digits_within_bounds(text: str, number: int | None) -> None:
    assert whole_number(text, 1, 60) == number
