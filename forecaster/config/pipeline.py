"""Parse the pipeline file into one value (`Spec`), with error messages by line and a JSON Schema.

`load` reads and checks a file and reports every error at once: file, line, found, wanted and the
nearest valid key. The values are frozen; `Spec.digest` identifies the configuration of a run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

import yaml
from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator

from forecaster import plugins
from forecaster.config import messages
from forecaster.config.access import Page
from forecaster.config.base import Section
from forecaster.config.credentials import fill
from forecaster.config.demand import Calendar, Demand, Depots
from forecaster.config.execution import Execution
from forecaster.config.external import Legacy
from forecaster.config.model import LONGEST_BOOSTED, PRIOR_HIDDEN, PRIOR_LAYERS, Backtest, Canary, Gate, Model, Training
from forecaster.config.operations import Notify, Retention, Schedule
from forecaster.config.slo import Slo
from forecaster.config.staffing import LONGEST_NOTICE, Overrides, Staffing
from forecaster.core import timezones
from forecaster.core.state_paths import StatePaths
from forecaster.errors import SpecError

NAME = r"^[a-z0-9][a-z0-9_-]*$"


class Spec(Section):
    """The whole pipeline file."""

    name: str = Field(pattern=NAME, max_length=64)
    """Name of the pipeline in runs, models and pages: lower-case letters, digits, - and _."""
    fleet: str | None = Field(default=None, pattern=NAME, max_length=64)
    """Fleet whose demand the lake holds; by default `name`. Name the lake's fleet here if the
    pipeline was renamed or shares a lake."""
    timezone: str = "UTC"
    """Time zone of the local calendar days, as in America/New_York."""
    horizon: int = Field(default=7, ge=1, le=61)  # so that last year's day and the weeks after it are known
    """Days ahead; with `staffing.notice_days`, the default is one more than it. Training needs as
    many additional days of history."""
    demand: Demand
    """Daily counts of each depot."""
    depots: Depots | None = None
    """Attributes of depots. Without it: every depot of the demand source."""
    calendar: Calendar = Calendar()
    """Holidays, events and covariates."""
    model: Model = Model()
    """Shape of the network."""
    training: Training = Training()
    """Training of the model."""
    backtest: Backtest = Backtest()
    """Comparison of models."""
    gate: Gate = Gate()
    """Conditions for a new model to replace the champion."""
    canary: Canary | None = None
    """Trial of a new model at some depots."""
    legacy: Legacy | None = None
    """Forecasts of another system, for comparison."""
    staffing: Staffing | None = None
    """Rosters. Without it: forecasts of orders only."""
    overrides: Overrides = Overrides()
    """Reasons for overrides, and the report of their value by planner."""
    schedule: Schedule = Schedule()
    """Start times."""
    execution: Execution = Execution()
    """Parallel work, and the hourly cost of computing."""
    retention: Retention = Retention()
    """Retention times."""
    notify: Notify = Notify()
    """Notifications."""
    slo: Slo | None = None
    """Service level objectives."""
    page: Page = Page()
    """Access to the page."""
    encrypt_bundles: bool = False
    """Encrypt the model in each bundle, with the key in FORECASTER_ENCRYPTION_KEY or in
    `state/keys`."""
    state: str = "var"
    """Folder for all state, relative to the pipeline file."""
    lake: str | None = None
    """Folder of the Delta tables; by default inside `state`."""
    ledger: str | None = None
    """SQLAlchemy URL of the ledger; by default an SQLite file inside `state`."""
    registry: str | None = None
    """MLflow tracking URI; by default an SQLite file inside `state`."""

    _folder: Path = PrivateAttr(default=Path())
    _file: Path | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _horizon_of_the_notice(cls, content: Any) -> Any:
        staffing = content.get("staffing") if isinstance(content, Mapping) else None
        days = staffing.get("notice_days") if isinstance(staffing, Mapping) else None
        if isinstance(days, int) and 1 <= days <= LONGEST_NOTICE and "horizon" not in content:
            return {**content, "horizon": days + 1}
        return content

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        if not timezones.exists(value):
            raise ValueError(f"found {value!r}, wanted a time zone such as Europe/Berlin{timezones.hint(value)}")
        return value

    @field_validator("model")
    @classmethod
    def _days_of_trees(cls, model: Model, info: ValidationInfo) -> Model:
        horizon = info.data.get("horizon")
        if model.boosted and horizon is not None and horizon > LONGEST_BOOSTED:
            raise ValueError(
                f"boosted: found true, which fits trees for each of at most {LONGEST_BOOSTED} days ahead, and a "
                f"horizon of {horizon} days; wanted boosted: false, or a shorter horizon"
            )
        return model

    @field_validator("training")
    @classmethod
    def _network_of_the_prior(cls, training: Training, info: ValidationInfo) -> Training:
        model = info.data.get("model")
        if training.start == "prior" and model and not model.is_of_prior:
            raise ValueError(
                f"start: found prior, which begins with {PRIOR_LAYERS} layers of {PRIOR_HIDDEN}, and section model "
                f"with {model.layers} of {model.hidden}; wanted layers and hidden left out there, or start: fresh"
            )
        return training

    @field_validator("staffing")
    @classmethod
    def _notice_within_the_horizon(cls, staffing: Staffing | None, info: ValidationInfo) -> Staffing | None:
        horizon, days = info.data.get("horizon"), staffing.notice_days if staffing else None
        if horizon is not None and days is not None and horizon <= days:
            raise ValueError(
                f"notice_days: found {days}, with a horizon of {horizon} days that publishes no day in time; wanted "
                f"horizon: {days + 1} or more, or no key horizon"
            )
        return staffing

    @field_validator("canary")
    @classmethod
    def _canary_beside_the_gate(cls, canary: Canary | None, info: ValidationInfo) -> Canary | None:
        gate = info.data.get("gate")
        if canary is not None and gate is not None and canary.max_loss < gate.max_loss:
            raise ValueError(
                f"max_loss: found {canary.max_loss:g}, wanted at least gate.max_loss, which is {gate.max_loss:g}: "
                "else one model could be promoted and go back"
            )
        return canary

    @model_validator(mode="after")
    def _homes_of_depots(self) -> Self:
        if self.vans_home and self.depots is None:
            raise ValueError("staffing.vans.home names a column of the depots source, but there is no section depots")
        if self.people_columns and self.depots is None:
            raise ValueError(
                "staffing.people: per_depot names a column of the depots source, but there is no section depots"
            )
        return self

    @model_validator(mode="after")
    def _needs_of_staffing(self) -> Self:
        if self.notify.schedule is not None and (self.staffing is None or self.staffing.notice_days is None):
            raise ValueError("notify.schedule posts published schedules, but there is no staffing.notice_days")
        if self.training.when == "worthwhile" and self.staffing is None:
            raise ValueError(
                "training.when: worthwhile compares roster savings with training costs; found no section staffing"
            )
        return self

    @model_validator(mode="after")
    def _hosts_on_workers(self) -> Self:
        hosts = self.training.hosts
        if hosts is not None and hosts.others == "on_workers" and self.execution.runner != "dask":
            raise ValueError(
                "training.hosts.others: on_workers takes workers of a Dask cluster, and execution.runner is "
                f"{self.execution.runner}; wanted dask"
            )
        return self

    @model_validator(mode="after")
    def _installed_plugins(self) -> Self:
        if lacking := list(plugins.undeclarable(self)):
            raise ValueError("; ".join(lacking))
        return self

    @model_validator(mode="after")
    def _times_of_day(self) -> Self:
        if not self.learns_shares:
            return self
        if self.demand.aggregate == "none":
            raise ValueError(
                "staffing.shifts: share: learn needs rows with a time of day, but demand.aggregate declares a row "
                "to be a whole day; wanted aggregate: count or sum, or shares as numbers"
            )
        if self.demand.date_zone is not None:
            raise ValueError(
                "staffing.shifts: share: learn reads local times of day, but demand.date_zone turns instants into "
                "days; wanted only one of them"
            )
        return self

    @property
    def learns_shares(self) -> bool:
        """True if shares of shifts are learned from the times of day of orders."""
        return self.staffing is not None and self.staffing.learns_shares

    @property
    def stores_half_hours(self) -> bool:
        """True if the lake keeps a day's orders by half hours: to learn shares of shifts, or to
        estimate the rest of a day that sold out."""
        return self.learns_shares or bool(self.demand.columns.sold_out_at and self.demand.aggregate != "none")

    @property
    def page_url(self) -> str:
        """Address of the pages for links from outside, without a trailing slash; empty if not declared."""
        if self.page.access.url is None:
            return ""
        return f"{self.page.access.url}/p/{self.name}" if self.page.together else self.page.access.url

    @property
    def fleet_name(self) -> str:
        """Fleet whose demand the lake holds."""
        return self.fleet or self.name

    @property
    def vans_home(self) -> str | None:
        """Column of the depots source with the depot's own vans."""
        return self.staffing.vans.home if self.staffing and self.staffing.vans else None

    @property
    def people_columns(self) -> tuple[str, ...]:
        """Columns of the depots source with numbers of people."""
        contracts = self.staffing.people if self.staffing else ()
        return tuple(contract.per_depot for contract in contracts if isinstance(contract.per_depot, str))

    @property
    def depot_capacity(self) -> str | None:
        """Column of the depots source with the largest count that a depot can serve."""
        return self.depots.columns.capacity if self.depots else None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Stored attributes of a depot: its static attributes, and its levels, vans, people and
        capacity, which no model reads."""
        declared = (*self.depots.static, *self.depots.levels) if self.depots else ()
        further = (name for name in (self.vans_home, *self.people_columns, self.depot_capacity) if name)
        return tuple(dict.fromkeys((*declared, *further)))

    @property
    def levels(self) -> tuple[str, ...]:
        """Columns of the depots source that group depots for forecasts of totals."""
        return tuple(dict.fromkeys(("city", *(self.depots.levels if self.depots else ()))))

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def digest(self) -> str:
        """SHA-256 of the content, independent of layout, comments and location."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> Path:
        """Folder of the pipeline file; relative paths start here."""
        return self._folder

    @property
    def file(self) -> Path | None:
        """The pipeline file; None for values without a file."""
        return self._file

    @property
    def paths(self) -> StatePaths:
        """Locations of all state."""
        return StatePaths(self.path(self.state))

    @property
    def lake_url(self) -> str:
        if self.lake is None:
            return str(self.paths.lake)
        return self.lake if "://" in self.lake else str(self.path(self.lake))

    @property
    def ledger_url(self) -> str:
        return self._sqlite(self.ledger, self.paths.ledger)

    @property
    def registry_url(self) -> str:
        return self._sqlite(self.registry, self.paths.mlflow)

    @property
    def compile_cache(self) -> Path:
        """Folder of compiled programs: the shared one, else the one in `state`."""
        shared = self.execution.compile_cache
        return self.paths.jax_cache if shared is None else self.path(shared)

    def with_lead_error(self, by_covariate: Mapping[str, float | Sequence[float]]) -> Self:
        """Return the same pipeline with additional `calendar.lead_error`, which is not checked."""
        further = {name: tuple(value) if isinstance(value, Sequence) else value for name, value in by_covariate.items()}
        lead_error = {**self.calendar.lead_error, **further}
        return self.model_copy(update={"calendar": self.calendar.model_copy(update={"lead_error": lead_error})})

    def path(self, text: str) -> Path:
        """Return a path of the file, with `${NAME}` filled in, relative to the pipeline file.

        Raises SpecError if the environment lacks a variable that the path names.
        """
        return Path(os.path.normpath(self._folder / Path(fill(text)).expanduser()))

    def place(self, text: str) -> str:
        """Resolve a path, or fill in the `${NAME}` of a URL. Raises SpecError as `path` does."""
        return fill(text) if "://" in text else str(self.path(text))

    def _sqlite(self, url: str | None, default: Path) -> str:
        if url is None:
            return f"sqlite:///{default}"
        prefix = "sqlite:///"
        if url.startswith(prefix) and not url.startswith(prefix + "/"):
            return prefix + str(self.path(url.removeprefix(prefix)))
        return url


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the pipeline file, for editors."""
    from forecaster.config.schema import with_descriptions

    schema = with_descriptions(Spec.model_json_schema(), Spec)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "forecaster pipeline file"}


def load(file: str | Path, text: str | None = None) -> Spec:
    """Read and check the pipeline file, or a `text` that is to become its content. Raises SpecError
    with one line for each error: file, line, found, wanted."""
    file = Path(file)
    try:
        spec = _validated_spec(file, _text(file) if text is None else text)
    except RecursionError:
        raise SpecError(f"{file}: found an alias that contains itself, wanted sections that end") from None
    spec._file, spec._folder = file.absolute(), file.resolve().parent
    return spec


def spec_of(content: Mapping[str, Any], folder: Path, names: Mapping[str, str] | None = None) -> Spec:
    """Return the pipeline of values without a file. Relative paths start in `folder`; `names` maps
    a key to the caller's name for it. Raises SpecError with one line for each error."""
    try:
        spec = Spec.model_validate(content)
    except ValidationError as error:
        raise SpecError("\n".join(messages.mistakes_in_values(Spec, error, names or {}))) from None
    spec._folder = folder.resolve()
    return spec


def _validated_spec(file: Path, text: str) -> Spec:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None and (excess := messages.excess(file, node)):
            raise SpecError(excess)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(messages.broken_yaml(file, error)) from error
    except messages.IMPOSSIBLE as error:  # such as 2024-02-30, which looks like a date
        raise SpecError(messages.impossible_value(file, text, error)) from error
    if not isinstance(node, yaml.MappingNode):
        raise SpecError(f"{file}:1: found no keys, wanted a pipeline file with at least `name` and `demand`")
    if halves := messages.half_letters(file, node):
        raise SpecError(halves)
    spec, invalid = None, None
    try:
        spec = Spec.model_validate(content)
    except ValidationError as error:
        invalid = error
    mistakes = messages.explain(file, node, Spec, invalid)
    if spec is None or mistakes:
        raise SpecError("\n".join(mistakes))
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
