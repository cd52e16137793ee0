"""Background work ends with its context, even after an error."""

from __future__ import annotations

import asyncio

import pytest

from dashboards.inference.background import background


def test_background_work_is_cancelled_with_its_context() -> None:
    turns: list[str] = []

    async def work() -> None:
        try:
            while True:
                turns.append("turn")
                await asyncio.sleep(0)
        finally:
            turns.append("end")

    async def broken() -> None:
        async with background(work()):
            while not turns:
                await asyncio.sleep(0)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(broken())
    assert (turns[0], turns[-1]) == ("turn", "end")
