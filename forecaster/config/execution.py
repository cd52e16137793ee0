"""The section `execution` of the pipeline file: where parallel work is done, and what an hour of computing costs."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from forecaster.config.base import Section


class Execution(Section):
    """What is the same wherever it is done: fitting the declared baselines, their folds of the backtest, and forecasts
    by groups of depots."""

    runner: Literal["threads", "dask"] = "threads"
    """Prefect's task runner: `threads` of the night's own process, or processes of a Dask cluster."""
    workers: int = Field(default=1, ge=1)
    """Threads, or processes of a cluster that is started for the night. With one thread all is done in turn."""
    address: str | None = None
    """Of a cluster that is up already, as in tcp://scheduler:8786. Left out: one is started on the night's machine."""

    depots_at_a_time: int | None = Field(default=None, ge=1)
    """Depots that one worker reads from the lake, forecasts and rosters at a time, rounded to 4,096 or a multiple of
    it: for fleets that no machine holds whole. All workers see `state`. Left out: all depots at once, in a process of
    the night's machine."""

    compile_cache: str | None = None
    """Folder for compiled programs that several machines share, as on a mounted volume; each kind of processor has a
    folder of its own in it. Only who may run nights may write there. Left out: `jax_cache` in `state`."""

    cost_per_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """What an hour of the night's machine costs, in `staffing.currency`; the page then says what a night and a forecast
    cost. Left out: only how long they took."""

    @model_validator(mode="after")
    def _address_of_a_cluster(self) -> Self:
        schemes = ("tcp://", "tls://") if self.runner == "dask" else ()
        if self.address is not None and not self.address.startswith(schemes):
            expected = " or ".join(schemes) or "no address with runner: threads"
            raise ValueError(f"found address {self.address!r}, wanted {expected}")
        return self
