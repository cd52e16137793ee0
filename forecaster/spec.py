"""The pipeline file: what to forecast, in one declarative page.

`load` reads and checks a file and answers every mistake at once, with file, line, what was found, what was wanted and
the nearest valid key. The values are frozen; `Spec.digest` names what a run was told to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from forecaster import mistakes
from forecaster.errors import SpecError

DATASETS = "FORECASTER_DATASETS"
ENVIRONMENT_DEFAULTS = {DATASETS: "../shared/datasets"}  # relative to where the command is run


class Section(BaseModel):
    """A part of the pipeline file: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class CsvSource(Section):
    kind: Literal["csv"]
    """Text with a header row."""
    path: str
    """File, relative to the pipeline file; `${NAME}` is taken from the environment."""
    delimiter: str = ","
    """The one character between fields."""
    encoding: str = "utf-8"
    """The file's text encoding, as in utf-8 or cp1252."""


class ParquetSource(Section):
    kind: Literal["parquet"]
    """A Parquet file."""
    path: str
    """File, relative to the pipeline file; `${NAME}` is taken from the environment."""


Source = Annotated[CsvSource | ParquetSource, Field(discriminator="kind")]  # the one list of kinds


class DemandColumns(Section):
    depot_id: str = "depot_id"
    """Column that names the depot."""
    date: str = "date"
    """Column with the local calendar day."""
    demand: str = "demand"
    """Column with the count; empty = not known, 0 = open and none came."""
    open: str | None = None
    """Column that is 0 on days the depot is closed; planned closures can also come from events."""
    recorded_at: str | None = None
    """Column with the instant at which the source recorded the row; without it, `demand.recorded` decides."""


class DemandRules(Section):
    max_demand: float = Field(default=1e7, gt=0)
    """A larger count is quarantined."""
    max_gap_days: int = Field(default=14, ge=1)
    """A depot in business without readings for longer is a finding."""
    late_days: int = Field(default=3, ge=0)
    """Readings up to this many days after their day are expected; later ones are a finding."""


class Demand(Section):
    source: Source
    """One row a depot and day."""
    columns: DemandColumns = DemandColumns()
    """What the source calls its columns."""
    recorded: Literal["arrival", "next_day"] = "arrival"
    """When a row counts as known: on `arrival` in the lake, or, for archives, from the morning of the `next_day`."""
    rules: DemandRules = DemandRules()
    """What a reading must keep to."""


class DepotColumns(Section):
    depot_id: str = "depot_id"
    """Column that names the depot."""
    opened: str | None = None
    """Column with the first day of business; without it the first reading decides."""
    closed: str | None = None
    """Column with the first day out of business; empty for depots in business."""


class Depots(Section):
    source: Source
    """One row a depot."""
    columns: DepotColumns = DepotColumns()
    """What the source calls its columns."""
    static: tuple[str, ...] = ()
    """Columns that are one value a depot: city, country, subdivision, and what else tells depots apart."""


class Events(Section):
    source: Source
    """One row an event and day."""


class Calendar(Section):
    holidays: bool = True
    """Public holidays by the depot's country and subdivision."""
    country: str | None = None
    """Country code (ISO 3166) for depots without a `country` attribute."""
    subdivision: str | None = None
    """Subdivision code for depots without a `subdivision` attribute."""
    events: Events | None = None
    """Source with columns date, kind, name, and depot_id or city (both empty: everywhere); kind `closure` closes."""
    known_future: tuple[str, ...] = ()
    """Covariates known for the horizon: columns of the demand source or kinds of events."""

    @model_validator(mode="after")
    def _subdivision_needs_country(self) -> Self:
        if self.subdivision and not self.country:
            raise ValueError("subdivision is given without country; wanted both, as in country: US, subdivision: NY")
        return self


class Model(Section):
    layers: int = Field(default=2, ge=1, le=4)
    """Recurrent layers."""
    hidden: int = Field(default=32, ge=4, le=1024)
    """Width of a layer."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations left out while training."""
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Quantile levels in rising order; 0.1, 0.5 and 0.9 are always among them."""

    @field_validator("quantiles")
    @classmethod
    def _levels(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        if list(levels) != sorted(set(levels)) or not all(0 < level < 1 for level in levels):
            raise ValueError(f"found {list(levels)}, wanted quantile levels between 0 and 1 in rising order")
        if missing := {0.1, 0.5, 0.9} - set(levels):
            raise ValueError(f"{sorted(missing)} missing: 0.5 is the point forecast, 0.1 and 0.9 are the 80 % band")
        return levels


class Training(Section):
    epochs: int = Field(default=30, ge=1)
    """Passes over the data; an epoch is as many batches of random crops as cover every depot's history once."""
    batch_depots: int = Field(default=64, ge=1)
    """Crops of depots' histories in a batch."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """The highest step size of the schedule."""
    members: int = Field(default=3, ge=1, le=32)
    """Models trained side by side from different keys; their quantiles are averaged."""
    precision: Literal["float32"] = "float32"
    """Of the numbers in training."""
    seed: int = 0
    """What randomness starts from: the same seed and data give the same model."""


class Backtest(Section):
    days: int = Field(default=30, ge=1)
    """Last days held out; each is forecast once, from weekly cutoffs."""
    baselines: tuple[Literal["seasonal_naive"], ...] = ("seasonal_naive",)
    """What the candidate is compared with beside the champion."""


class Gate(Section):
    metric: Literal["wape", "mape", "mase", "wql"] = "wape"
    """What is compared, over all held-out days; less is better."""
    beat: tuple[Literal["seasonal_naive", "champion"], ...] = ("seasonal_naive", "champion")
    """The models that the candidate must not be worse than."""
    margin: float = Field(default=0.0, ge=0, lt=1)
    """Share by which the metric must be lower than that of each model to beat."""
    coverage: tuple[float, float] = (0.74, 0.86)
    """Bounds for the share of days that fall into the 80 % interval."""
    max_bias: float = Field(default=0.03, gt=0)
    """Largest absolute bias, as a share of demand."""

    @field_validator("coverage")
    @classmethod
    def _bounds(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= bounds[0] < bounds[1] <= 1:
            raise ValueError(f"found {list(bounds)}, wanted two shares in rising order, as in [0.74, 0.86]")
        return bounds


class Vans(Section):
    total: int = Field(ge=1)
    """Vans of all depots together."""


class Staffing(Section):
    orders_per_driver: float = Field(gt=0)
    """Orders that one driver delivers in a shift."""
    shift_hours: float = Field(default=8, gt=0)
    """Length of a shift."""
    cost_short: float = Field(gt=0)
    """Cost of one driver too few for a shift."""
    cost_idle: float = Field(gt=0)
    """Cost of one driver too many for a shift."""
    vans: Vans | None = None
    """The fleet, for whom it concerns; rosters are not limited by it."""


class Schedule(Section):
    cron: str = "15 3 * * *"
    """Minute, hour, day, month and weekday, in the pipeline's time zone."""
    deadline: str = "05:30"
    """Local time by which the forecasts must be out."""

    @field_validator("cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        if not re.fullmatch(r"\d{1,2} \d{1,2}( [\d*/,-]+){3}", value):
            raise ValueError(f"found {value!r}, wanted 'minute hour day month weekday', as in '15 3 * * *'")
        minute, hour = (int(part) for part in value.split()[:2])
        if minute > 59 or hour > 23:
            raise ValueError(f"found {value!r}, wanted a minute up to 59 and an hour up to 23")
        return value

    @field_validator("deadline")
    @classmethod
    def _deadline(cls, value: str) -> str:
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
            raise ValueError(f"found {value!r}, wanted a local time as in '05:30'")
        return value

    @property
    def hour_minute(self) -> tuple[int, int]:
        """When the night starts, local time."""
        minute, hour = (int(part) for part in self.cron.split()[:2])
        return hour, minute


class Spec(Section):
    """The whole pipeline file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=64)
    """Names the pipeline in runs, models and pages: lower-case letters, digits, - and _."""
    timezone: str = "UTC"
    """The zone whose local calendar days are counted, as in America/New_York."""
    horizon: int = Field(default=7, ge=1, le=7)
    """Days ahead."""
    demand: Demand
    """Daily counts per depot."""
    depots: Depots | None = None
    """What is known of the depots; without it, every depot of the demand source counts."""
    calendar: Calendar = Calendar()
    """What is known of the days."""
    model: Model = Model()
    """The network's shape."""
    training: Training = Training()
    """How the model is fitted."""
    backtest: Backtest = Backtest()
    """How models are compared."""
    gate: Gate = Gate()
    """What lets a new model replace the champion."""
    staffing: Staffing | None = None
    """Whom to roster; without it, orders alone are forecast."""
    schedule: Schedule = Schedule()
    """When the night runs."""
    state: str = "var"
    """Folder for everything the nights keep, relative to the pipeline file."""
    lake: str | None = None
    """Folder of the Delta tables; by default inside `state`."""
    ledger: str | None = None
    """SQLAlchemy URL of the ledger; by default an SQLite file inside `state`."""
    registry: str | None = None
    """MLflow tracking URI; by default an SQLite file inside `state`."""

    _folder: Path = PrivateAttr(default=Path())

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        if value not in available_timezones():
            hint = mistakes.nearest(value, available_timezones())
            raise ValueError(f"found {value!r}, wanted a time zone such as Europe/Berlin{hint}")
        return value

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def digest(self) -> str:
        """sha256 over what the file says, independent of its layout, comments and place."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> Path:
        """The folder of the pipeline file; relative paths start here."""
        return self._folder

    @property
    def state_folder(self) -> Path:
        return self.path(self.state)

    @property
    def lake_url(self) -> str:
        if self.lake is None:
            return str(self.state_folder / "lake")
        return self.lake if "://" in self.lake else str(self.path(self.lake))

    @property
    def ledger_url(self) -> str:
        return self._sqlite(self.ledger, "ledger.db")

    @property
    def registry_url(self) -> str:
        return self._sqlite(self.registry, "mlflow.db")

    def path(self, text: str) -> Path:
        """A path of the file, with `${NAME}` filled in, relative to the pipeline file.

        Raises SpecError when the environment does not have a variable that the path names.
        """

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            value = os.environ.get(name)
            if value is None and name in ENVIRONMENT_DEFAULTS:
                value = str(Path(ENVIRONMENT_DEFAULTS[name]).absolute())
            if value is None:
                raise SpecError(f"path {text!r} needs the environment variable {name}, which is not set")
            return str(Path(value).absolute()) if name == DATASETS else value

        filled = Path(re.sub(r"\$\{(\w+)\}", fill, text)).expanduser()
        return Path(os.path.normpath(self._folder / filled))

    def _sqlite(self, url: str | None, name: str) -> str:
        if url is None:
            return f"sqlite:///{self.state_folder / name}"
        prefix = "sqlite:///"
        if url.startswith(prefix) and not url.startswith(prefix + "/"):
            return prefix + str(self.path(url.removeprefix(prefix)))
        return url


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the pipeline file, for editors."""
    schema = Spec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "forecaster pipeline file"}


def load(file: str | Path) -> Spec:
    """The checked pipeline file.

    Raises SpecError with one line for each mistake: file, line, what was found, what was wanted.
    """
    file = Path(file)
    try:
        spec = _checked(file, _text(file))
    except RecursionError:
        raise SpecError(f"{file}: found an alias that contains itself, wanted sections that end") from None
    spec._folder = file.resolve().parent
    return spec


def _checked(file: Path, text: str) -> Spec:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(mistakes.broken_yaml(file, error)) from error
    if not isinstance(node, yaml.MappingNode):
        raise SpecError(f"{file}:1: found no keys, wanted a pipeline file with at least `name` and `demand`")
    spec, wrong = None, None
    try:
        spec = Spec.model_validate(content)
    except ValidationError as error:
        wrong = error
    found = mistakes.explain(file, node, Spec, wrong)
    if spec is None or found:
        raise SpecError("\n".join(found))
    return spec


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise SpecError(f"{file}: no such file; `forecaster init DIR` makes one to start from") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{file}:{line}: found a byte that is not UTF-8 text; wanted the file saved as UTF-8") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}; wanted a pipeline file") from error
