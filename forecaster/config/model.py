"""Sections of the pipeline file about the model: network, training hyperparameters, backtest, gate and canary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, field_validator

from forecaster.config.base import Section

LONGEST_BOOSTED = 14  # days ahead, each of which has trees of its own
PRIOR_LAYERS, PRIOR_HIDDEN = 2, 32
"""The network of the prior that goes with the package (`forecaster/model/prior`)."""


class Model(Section):
    layers: int = Field(default=2, ge=1, le=4)
    """Recurrent layers."""
    hidden: int = Field(default=32, ge=4, le=1024)
    """Width of a layer."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations left out while training."""
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Quantile levels in rising order; 0.1, 0.5 and 0.9 are always among them."""
    boosted: bool | None = None
    """Boosted trees beside the network: after it some are fitted for the median of each day ahead, 14 at most, and the
    forecast goes about half the way to what they say. Left out: where the horizon is 14 days at most."""

    def fits_trees(self, horizon: int) -> bool:
        """Whether boosted trees are fitted for so many days ahead."""
        return horizon <= LONGEST_BOOSTED if self.boosted is None else self.boosted

    @property
    def is_of_prior(self) -> bool:
        """Whether the network is as wide and deep as the prior's."""
        return (self.layers, self.hidden) == (PRIOR_LAYERS, PRIOR_HIDDEN)

    @field_validator("quantiles")
    @classmethod
    def _levels(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        if list(levels) != sorted(set(levels)) or not all(0 < level < 1 for level in levels):
            raise ValueError(f"found {list(levels)}, wanted quantile levels between 0 and 1 in rising order")
        if missing := {0.1, 0.5, 0.9} - set(levels):
            raise ValueError(f"{sorted(missing)} missing: 0.5 is the point forecast, 0.1 and 0.9 are the 80 % band")
        return levels


HOSTS_PATIENCE = 300  # seconds that each host of a training waits for the others


class Hosts(Section):
    """Machines that train as one; on each of the others runs `forecaster assist`, numbered from 1."""

    coordinator: str
    """Address of the machine that runs the night, as host:port with a free port; the others must reach it."""
    count: int = Field(ge=2)
    """Machines, the night's own among them."""
    others: Literal["by_hand", "on_workers"] = "by_hand"
    """Who starts the others: somebody, with `forecaster assist`, or the night, on workers of the Dask cluster of
    `execution`, which see the pipeline file under the same name."""

    @field_validator("coordinator")
    @classmethod
    def _address(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"found {address!r}, wanted host:port, as in trainer-0.internal:8476")
        return address

    def wait_of(self, number: int) -> str:
        """Which others the host of this number waits for, where and how long, in a sentence."""
        others = ", ".join(str(host) for host in range(self.count) if host != number)
        noun = "host" if self.count == 2 else "hosts"
        return f"waits for {noun} {others} at {self.coordinator}, at most {HOSTS_PATIENCE // 60} minutes"


class Training(Section):
    preset: Literal["quick", "nightly", "best"] = "nightly"
    """How much is spent: `quick` for a look, `nightly`, or `best`, which takes several times as long."""
    start: Literal["fresh", "prior"] = Field(default="fresh", repr=False)
    """What a training begins from: `fresh` random parameters, or the `prior` that goes with the package, which was
    pretrained on other networks' days and is of the default `model.layers` and `model.hidden`."""
    epochs: int | None = Field(default=None, ge=1)
    """Times that the validation days are looked at; an epoch is then as many batches of random crops as cover every
    depot's history once. Left out: as many steps as the preset and the size of the data want."""
    batch_depots: int | None = Field(default=None, ge=1)
    """Crops of depots' histories in a batch. Left out: by the size of the data."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """The highest step size of the schedule."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """How the step size goes on from its highest: down along a cosine, or not at all."""
    history: Literal["crops", "whole"] = "crops"
    """What a batch holds: windows at random, or depots' whole histories, an epoch being all depots once."""
    members: int | None = Field(default=None, ge=1, le=32)
    """Models trained side by side from different keys; their quantiles are averaged. Left out: by the preset."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the products in training; parameters and sums are float32 in any case."""
    seed: int = Field(default=0, ge=-(2**31), lt=2**32)
    """What randomness starts from: the same seed and data give the same model."""
    hosts: Hosts | None = None
    """Several machines train as one. Left out: the night's own devices."""
    when: Literal["every_night", "worthwhile"] = Field(default="every_night", repr=False)
    """`worthwhile` skips a night's training where the last three gained nothing that rosters noticed, which needs the
    section `staffing`; it trains at once where accuracy slips, the pipeline file changes or depots are new."""
    at_least_every: int = Field(default=7, ge=1, repr=False)
    """Nights after which `worthwhile` trains whatever the last trainings gained."""


class BaselineKind(NamedTuple):
    """Where a baseline is: a function of its name in a module of `forecaster.evaluation.baselines`."""

    module: str
    package: str | None = None  # that it needs beyond the base install


BASELINES: Mapping[str, BaselineKind] = {
    "seasonal_naive": BaselineKind("naive"),
    "seasonal_window_average": BaselineKind("naive"),
    "auto_ets": BaselineKind("statsforecast", "statsforecast"),
    "theta": BaselineKind("statsforecast", "statsforecast"),
    "mstl": BaselineKind("statsforecast", "statsforecast"),
    "prophet": BaselineKind("prophet", "prophet"),
    "lightgbm": BaselineKind("lightgbm", "lightgbm"),
}
"""The one list of baselines: a further one is a row here and its function in `forecaster.evaluation.baselines`."""

if TYPE_CHECKING:
    Baseline = str
    Rival = str
else:
    Baseline = Literal[tuple(BASELINES)]
    Rival = Literal[("champion", *BASELINES)]


class Backtest(Section):
    days: int = Field(default=30, ge=1)
    """Last days held out, forecast from cutoffs a horizon apart, a week at most."""
    every: int | None = Field(default=None, ge=1)
    """Days from one cutoff to the next, where they shall be nearer: each day is then forecast several times."""
    retrain_days: int | None = Field(default=None, ge=1)
    """`forecaster backtest` also shows a model that is trained anew whenever so many days have passed since it was."""
    baselines: tuple[Baseline, ...] = ("seasonal_naive", "seasonal_window_average")
    """What the candidate is compared with beside the champion. The two of the default always are; the others need
    `pip install 'harbor-forecaster[baselines]'`."""


class Gate(Section):
    metric: Literal["wape", "mape", "mase", "wql"] = "wape"
    """What is compared, over all held-out days; less is better."""
    beat: tuple[Rival, ...] = ("seasonal_naive", "champion")
    """The models that the candidate must not be worse than; baselines among them are declared in `backtest`."""
    margin: float = Field(default=0.0, ge=0, lt=1)
    """Share by which the metric must be lower than that of each model to beat."""
    max_loss: float = Field(default=0.02, ge=0, lt=1)
    """Without a margin: a candidate that is not better than the champion goes out where it is surely (95 %) worse by no
    more than this share."""
    worst_depot: float = Field(default=0.25, gt=0)
    """Share by which none of the largest depots, which make half of the demand, may be served worse than by the
    champion, where that is more than chance."""
    coverage: tuple[float, float] = (0.74, 0.86)
    """Bounds for the share of days that fall into the 80 % interval; it objects where the share is surely (95 %)
    outside, by what so few days can tell."""
    max_bias: float = Field(default=0.03, gt=0)
    """Largest absolute bias, as a share of demand; it objects where the bias is surely (95 %) larger. Coverage or bias
    out of bounds is only a caution where the forecast that would be published instead is as bad or surely worse."""

    @field_validator("coverage")
    @classmethod
    def _bounds(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= bounds[0] < bounds[1] <= 1:
            raise ValueError(f"found {list(bounds)}, wanted two shares in rising order, as in [0.74, 0.86]")
        return bounds


class Canary(Section):
    """A model that the gate admits is first shown at some depots, while both it and the champion forecast all of them;
    what came in then promotes it or takes it back. Left out: what the gate admits forecasts for all at once."""

    share: float = Field(default=0.1, gt=0, le=0.5)
    """Share of the depots that see the new model; at least one does, and one does not."""
    nights: int = Field(default=7, ge=2, le=28)
    """Nights with counts that came in, after which it is promoted, as the gate said, where nothing is sure."""
    max_loss: float = Field(default=0.05, ge=0, lt=1)
    """A model that is surely worse than the champion by more than this share goes back; `gate.metric` says in what."""
