"""Arguments as a file can say them: NumPy's numbers and arrays as Python's."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from forecaster.errors import SpecError


def plain(value: Any) -> Any:
    """A copy of mappings, sequences and NumPy's values made of dicts, lists and Python's own numbers; what is neither
    stays as it is."""
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers, an Index of pandas
        return value.tolist()
    if isinstance(value, Mapping):
        return {plain(name): plain(content) for name, content in value.items()}
    return [plain(content) for content in value] if isinstance(value, list | tuple) else value


def whole_number(argument: str, value: Any, *, least: int) -> int:
    """An argument that counts something. Raises SpecError where it is no whole number, or less than the least."""
    if not isinstance(value, Integral) or int(value) < least:
        raise SpecError(f"{argument}: found {value!r}, wanted a whole number of {least} or more")
    return int(value)
