"""The section `execution` of the pipeline file: parallel work, and the cost of an hour of
computing."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from forecaster.config.base import Section


class Execution(Section):
    """Parallel work: fitting the declared baselines, their backtest folds, and forecasts by groups
    of depots."""

    runner: Literal["threads", "dask"] = "threads"
    """Prefect's task runner: `threads` of the night's process, or processes of a Dask cluster."""
    workers: int = Field(default=1, ge=1)
    """Threads, or processes of a cluster that the night starts."""
    address: str | None = None
    """Address of a running cluster, as in tcp://scheduler:8786. Left out: the night starts one on
    its machine."""

    depots_at_a_time: int | None = Field(default=None, ge=1)
    """Depots that one worker reads, forecasts and rosters at a time, rounded to a multiple of
    4,096: for fleets beyond one machine's memory. All workers need access to `state`. Left out: all
    depots at once on the night's machine."""

    compile_cache: str | None = None
    """Folder of compiled programs that several machines share, with a subfolder for each kind of
    processor. Grant write access only to those who run nights. Left out: `jax_cache` in `state`."""

    cost_per_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost of an hour of the night's machine, in `staffing.currency`; the page then shows the cost
    of a night and of a forecast. Left out: only their duration."""

    @model_validator(mode="after")
    def _address_of_a_cluster(self) -> Self:
        schemes = ("tcp://", "tls://") if self.runner == "dask" else ()
        if self.address is not None and not self.address.startswith(schemes):
            expected = " or ".join(schemes) or "no address with runner: threads"
            raise ValueError(f"found address {self.address!r}, wanted {expected}")
        return self
