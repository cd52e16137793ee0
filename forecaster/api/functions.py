"""One call each: a backtest of a frame, and rosters from anybody's quantile forecasts."""

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
    """`Forecaster(**parameters)` on past days of a long frame beside baselines; see
    `Forecaster.backtest`."""
    return Forecaster(**parameters).backtest(windows, baselines=baselines, df=df, static=static, events=events)


def roster(forecasts: Any, **staffing: Any) -> Any:
    """The cheapest crews for a frame of quantile forecasts, whoever made them; see
    `Forecaster.roster`.

    `forecasts` has depot_id, date and columns of quantiles, q0.1 … q0.9 (or unique_id, ds and
    NAME-q-0.1 …), 0.1, 0.5 and 0.9 among them; each depot has the same days. A day whose quantiles
    are all 0 counts as closed. Vans are placed by `Forecaster.roster` alone, which knows where
    depots are. Raises SpecError for a frame that is none of these.
    """
    from forecaster.staffing.rosters import cheapest

    declared = staffing_of(staffing)
    if declared.vans is not None:
        raise SpecError("roster: vans: found a value, but a frame of forecasts has no depots; wanted vans left out")
    forecast, kind = forecast_of_frame(forecasts)
    return kind.frame(roster_columns(cheapest(forecast, declared), forecast, kind))
