"""Untrusted text cannot control the terminal."""

from __future__ import annotations

import pytest

from forecaster.core.terminal import escaped, escaped_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zürich Süd, 3 % – “fête”", "Zürich Süd, 3 % – “fête”"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\x9b31m", r"\x9b31m"),
        ("", ""),
    ],
)
def test_invisible_characters_are_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected
    assert escaped(text).isprintable()


def test_lines_stay_lines() -> None:
    assert escaped_lines("a\x07\nb") == "a\\x07\nb"
