"""Sections of the pipeline file about the model: network, training hyperparameters, backtest, gate
and canary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, field_validator

from forecaster.config.base import Section

LONGEST_BOOSTED = 14  # days ahead; each has its own trees
PRIOR_LAYERS, PRIOR_HIDDEN = 2, 32
"""Dimensions of the prior that is part of the package (`forecaster/model/prior`)."""


class Model(Section):
    layers: int = Field(default=2, ge=1, le=4)
    """Recurrent layers."""
    hidden: int = Field(default=32, ge=4, le=1024)
    """Width of a layer."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations that training drops."""
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Quantile levels in rising order, with 0.1, 0.5 and 0.9."""
    boosted: bool | None = None
    """Boosted trees that correct the network's median, for at most 14 days ahead. Left out: true
    if the horizon is at most 14 days."""

    def fits_trees(self, horizon: int) -> bool:
        """True if boosted trees are fitted for this horizon."""
        return horizon <= LONGEST_BOOSTED if self.boosted is None else self.boosted

    @property
    def is_of_prior(self) -> bool:
        """True if the network has the prior's dimensions."""
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
    """Machines that train together. Each other machine runs `forecaster assist`, numbered from
    1."""

    coordinator: str
    """Address of the night's machine, as host:port with a free port that the others can reach."""
    count: int = Field(ge=2)
    """Number of machines, the night's own included."""
    others: Literal["by_hand", "on_workers"] = "by_hand"
    """Start of the other machines: `by_hand` with `forecaster assist`, or by the night `on_workers`
    of the Dask cluster of `execution`, which need the pipeline file at the same path."""

    @field_validator("coordinator")
    @classmethod
    def _address(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"found {address!r}, wanted host:port, as in trainer-0.internal:8476")
        return address

    def wait_of(self, number: int) -> str:
        """Return a sentence that names the other hosts, the address and the time limit for which
        the host of this number waits."""
        other_hosts = ", ".join(str(host) for host in range(self.count) if host != number)
        noun = "host" if self.count == 2 else "hosts"
        return f"waits for {noun} {other_hosts} at {self.coordinator}, at most {HOSTS_PATIENCE // 60} minutes"


class Training(Section):
    preset: Literal["quick", "nightly", "best"] = "nightly"
    """Effort: `quick` for a first look, `nightly`, or `best`, which takes several times as long."""
    start: Literal["fresh", "prior"] = Field(default="fresh", repr=False)
    """Initial parameters: `fresh` (random), or the pretrained `prior` of the package, which needs
    the default `model.layers` and `model.hidden`."""
    epochs: int | None = Field(default=None, ge=1)
    """Number of validations; between two validations, training sees as many random windows as cover
    every depot's history once. Left out: by preset and size of the data."""
    batch_depots: int | None = Field(default=None, ge=1)
    """Windows in a batch. Left out: by the size of the data."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """Largest learning rate of the schedule."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Decay of the learning rate: `cosine`, or none."""
    history: Literal["crops", "whole"] = "crops"
    """Content of a batch: random windows, or whole histories (an epoch is then every depot once)."""
    members: int | None = Field(default=None, ge=1, le=32)
    """Models trained side by side from different random keys; their quantiles are averaged. Left
    out: by preset."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of products in training. Parameters and sums are float32."""
    seed: int = Field(default=0, ge=-(2**31), lt=2**32)
    """Random seed: the same seed and data give the same model."""
    hosts: Hosts | None = None
    """Training on several machines. Left out: the night's own devices."""
    when: Literal["every_night", "worthwhile"] = Field(default="every_night", repr=False)
    """`worthwhile` skips a training if the last three did not improve rosters (needs `staffing`);
    it trains at once if accuracy falls, the pipeline file changes, or depots are new."""
    at_least_every: int = Field(default=7, ge=1, repr=False)
    """Most nights that `worthwhile` skips in a row."""


class BaselineKind(NamedTuple):
    """Location of a baseline: the function of the same name in a module of
    `forecaster.evaluation.baselines`."""

    module: str
    package: str | None = None  # required in addition to the base install


BASELINES: Mapping[str, BaselineKind] = {
    "seasonal_naive": BaselineKind("naive"),
    "seasonal_window_average": BaselineKind("naive"),
    "auto_ets": BaselineKind("statsforecast", "statsforecast"),
    "theta": BaselineKind("statsforecast", "statsforecast"),
    "mstl": BaselineKind("statsforecast", "statsforecast"),
    "prophet": BaselineKind("prophet", "prophet"),
    "lightgbm": BaselineKind("lightgbm", "lightgbm"),
}
"""The one list of baselines. To add one, add a row here and its function in
`forecaster.evaluation.baselines`."""

if TYPE_CHECKING:
    Baseline = str
    Rival = str
else:
    Baseline = Literal[tuple(BASELINES)]
    Rival = Literal[("champion", *BASELINES)]


class Backtest(Section):
    days: int = Field(default=30, ge=1)
    """Held-out days at the end, forecast from cutoffs one horizon apart, but at most a week apart."""
    every: int | None = Field(default=None, ge=1)
    """Days between cutoffs, for closer ones: each day is then forecast several times."""
    retrain_days: int | None = Field(default=None, ge=1)
    """`forecaster backtest` also shows a model that is retrained after this many days."""
    baselines: tuple[Baseline, ...] = ("seasonal_naive", "seasonal_window_average")
    """Baselines to compare with. The two defaults are always included; others need `pip install
    'harbor-forecaster[baselines]'`."""


class Gate(Section):
    metric: Literal["wape", "mape", "mase", "wql"] = "wape"
    """Metric over all held-out days; lower is better."""
    beat: tuple[Rival, ...] = ("seasonal_naive", "champion")
    """Models that the candidate must not be worse than; baselines are declared in `backtest`."""
    margin: float = Field(default=0.0, ge=0, lt=1)
    """Share by which the metric must be lower than that of each model to beat."""
    max_loss: float = Field(default=0.02, ge=0, lt=1)
    """Without a margin: a worse candidate is admitted if its loss against the champion is
    significantly (95 %) smaller than this share."""
    worst_depot: float = Field(default=0.25, gt=0)
    """Largest significant loss against the champion at any of the depots with half of the demand,
    as a share."""
    coverage: tuple[float, float] = (0.74, 0.86)
    """Bounds of the coverage of the 80 % interval; a coverage significantly (95 %) outside is an
    objection."""
    max_bias: float = Field(default=0.03, gt=0)
    """Largest absolute bias, as a share of demand; a significantly (95 %) larger bias is an
    objection. Coverage and bias are only cautions if the forecast that would be published
    instead is as bad or significantly worse."""

    @field_validator("coverage")
    @classmethod
    def _bounds(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= bounds[0] < bounds[1] <= 1:
            raise ValueError(f"found {list(bounds)}, wanted two shares in rising order, as in [0.74, 0.86]")
        return bounds


class Canary(Section):
    """Trial of an admitted model: both it and the champion forecast all depots, and the new model
    is shown at some; the actuals then promote or revoke it. Left out: an admitted model
    forecasts for all depots at once."""

    share: float = Field(default=0.1, gt=0, le=0.5)
    """Share of depots that see the new model; at least one does and one does not."""
    nights: int = Field(default=7, ge=2, le=28)
    """Nights with actuals after which it is promoted if no difference is significant."""
    max_loss: float = Field(default=0.05, ge=0, lt=1)
    """A model that is significantly worse than the champion by more than this share of
    `gate.metric` is revoked."""
