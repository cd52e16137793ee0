"""A depot's page tells what its last forecasts were worth."""

from __future__ import annotations

from tests.dashboards.seed import depot, earlier, fill, publication
from tests.dashboards.visitor import text, visitor


def test_a_depots_last_forecasts_are_told_beside_what_came(url: str) -> None:
    fill(url, earlier(0.8, days=2), publication())
    first = depot(0)
    forecast, actual = (
        0.8 * first.days[1].quantiles[2],
        first.recent[-1].demand,
    )  # of Wednesday, which is moved to Monday
    assert actual is not None
    off = round(forecast - actual)
    page = text(visitor(url)("/depot/BOS-01"))
    section = page[page.index("What the last forecasts were worth") :]
    assert f"Mon 16 Jun {round(forecast)} " in section
    assert f"{round(actual)} {'+' if off > 0 else '−'}{abs(off)} " in section
    assert "What the last forecasts were worth" not in text(visitor(url)("/depot/none"))
