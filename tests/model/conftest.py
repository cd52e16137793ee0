from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import panels


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    with panels.quickly():
        yield
