from __future__ import annotations

import re

import pytest

from forecaster import errors
from forecaster.errors import ForecasterError

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ForecasterError)]


def drawn_tree() -> dict[str, tuple[str, str | None]]:
    """Return class → its parent and exit code as drawn in the docstring; without a code, that of
    the line above."""
    tree: dict[str, tuple[str, str | None]] = {}
    above = {-1: "Exception"}
    code = None
    for line in (errors.__doc__ or "").splitlines():
        if not (match := re.match(r"    ([│ ├└─]*)([A-Z]\w+)\s", line + " ")):
            continue
        depth = len(match[1]) // 4
        code_match = re.search(r"exit code (\d)", line)
        code = code_match[1] if code_match else code
        above[depth] = match[2]
        tree[match[2]] = (above[depth - 1], code)
    return tree


def test_the_tree_in_the_docstring_matches_the_classes() -> None:
    picture = drawn_tree()
    assert {kind.__name__ for kind in CLASSES} == set(picture)
    for kind in CLASSES:
        parent, code = picture[kind.__name__]
        assert kind.__bases__[0].__name__ == parent
        if kind is not ForecasterError:
            assert str(kind.exit_code) == code


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_shows_its_message(kind: type[ForecasterError]) -> None:
    assert str(kind("found a, wanted b")) == "found a, wanted b"


def test_the_exit_codes_are_stable() -> None:
    codes = (errors.PUBLISHED, errors.OUR_FAULT, errors.WRONG_SPEC, errors.DEGRADED, errors.NO_DATA, errors.BUSY)
    assert codes == (0, 1, 2, 3, 4, 5)
