"""Single calls: a backtest of a frame, and rosters from any quantile forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forecaster.api.backtest_result import BacktestResult
from forecaster.api.estimator import Forecaster
from forecaster.api.forecast_frames import forecast_of_frame
from forecaster.api.rosters import roster_columns, staffing_of
from forecaster.errors import SpecError


def backtest(
    df: Any,
    *,
    windows: int = 4,
    baselines: Sequence[str] = ("seasonal_naive",),
    static: Any = None,
    events: Any = None,
    **parameters: Any,
) -> BacktestResult:
    """Run `Forecaster(**parameters)` on past days of a long frame and compare it with baselines;
    see `Forecaster.backtest`."""
    return Forecaster(**parameters).backtest(windows, baselines=baselines, df=df, static=static, events=events)


def roster(forecasts: Any, **staffing: Any) -> Any:
    """Plan the cheapest crews for a frame of quantile forecasts from any source; see
    `Forecaster.roster`.

    `forecasts` has depot_id, date and columns of quantiles, q0.1 … q0.9 (or unique_id, ds and
    NAME-q-0.1 …), including 0.1, 0.5 and 0.9; all depots have the same days. A day whose quantiles
    are all 0 counts as closed. Vans can only be placed by `Forecaster.roster`, which knows where
    depots are. Raises SpecError for any other frame.
    """
    from forecaster.staffing.rosters import cheapest

    declared = staffing_of(staffing)
    if declared.vans is not None:
        raise SpecError("roster: vans: found a value, but a frame of forecasts has no depots; wanted vans left out")
    forecast, kind = forecast_of_frame(forecasts)
    return kind.frame(roster_columns(cheapest(forecast, declared), forecast, kind))
