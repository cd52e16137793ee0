"""Parallel map over independent calls (fan-out): in turn here, or by whoever gives another `Fan`.

The package knows no scheduler. A stage hands over calls that need nothing of one another, and gets back what they made;
`flows.runners` does them in threads or on a cluster. The same comes out, whoever does them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Fan(Protocol):
    """Parallel map: does every call once and gives what they made, in the order of the calls.

    Calls are taken one by one as there is room for them, so that what they carry is not in memory all at once. They can
    be sent to another process: partial applications of functions that a module has by name.
    """

    def __call__(self, calls: Iterable[Callable[[], Result]], /) -> list[Result]: ...


def in_turn(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
    """One after the other, in this thread."""
    return [call() for call in calls]
