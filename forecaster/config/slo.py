"""The section `slo` of the pipeline file: the service level objectives, and the consequence of
violating them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from forecaster.config.base import Section

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Slo(Section):
    """Service level objectives. `forecaster slo FILE` and the pages `/health` and `/value` show the
    state of each. Left out: the command compares the numbers with these defaults, and no page shows
    an objective."""

    deadline: Share = 0.988
    """Share of 90 nights with forecasts published by `schedule.deadline`: all but one."""
    tier: Share = 0.97
    """Share of depot-nights, over 28 days, with a model's forecast instead of the fallback."""
    availability: Share = 0.999
    """Share of the page's responses, over 28 days, without a server error (5xx); rate-limited
    requests are not counted."""
    latency: Share = 0.99
    """Share of the page's responses, over 28 days, within 0.2 s."""
    cache: Share = 0.95
    """Share of a training's programs, over 28 days, that come from the cache if they were compiled
    before."""
    night_time: Share = 0.95
    """Share of nights, over 28 days, that take at most 1.5 times the median of the fourteen before."""
    error_ratio: float = Field(default=1.15, gt=1, allow_inf_nan=False)
    """Largest ratio of the published WAPE over four weeks to the champion's in its backtest."""
    coverage: tuple[float, float] = (0.74, 0.86)
    """Bounds of the coverage of the 80 % interval over four weeks."""
    bias: float = Field(default=0.03, gt=0, allow_inf_nan=False)
    """Largest absolute bias over four weeks, as a share of actuals."""
    freeze: bool = True
    """No night promotes a model while `error_ratio`, `coverage` or `bias` is violated, until a
    manual promotion with a reason."""

    @model_validator(mode="after")
    def _coverage_in_order(self) -> Self:
        low, high = self.coverage
        if not 0 < low < 0.8 < high < 1:
            raise ValueError(f"coverage: found {list(self.coverage)}, wanted two shares with 0.8 between them")
        return self
