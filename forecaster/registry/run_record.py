"""Record of one run for the registry (experiment tracking): parameters, metrics, curves, tables,
inputs and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

BUNDLE = "bundle"  # folder of a registered model that contains the folder of its bundle
EVALUATED = "backtest"  # dataset on which headline metrics are measured


@dataclass(frozen=True)
class InputTable:
    """A table that a night read or was scored on: columns with their types (`double`, `string`,
    `datetime`, `boolean`), summary numbers, and a digest of at most 36 characters that changes with
    it."""

    name: str
    digest: str
    columns: Mapping[str, str]
    profile: Mapping[str, Any]
    version: int | None = None  # version of the lake's table; None: not a table of the lake


@dataclass(frozen=True)
class Record:
    """A run as it is sent to the registry; `epochs` are the training curves, one point per epoch,
    in order."""

    run_id: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]  # the headline, at most eight
    epochs: tuple[Mapping[str, float], ...]
    tags: Mapping[str, str]
    inputs: Mapping[str, int]  # table of the lake → version read
    bundle: str | None  # name of its folder in `state/bundles`
    description: str = ""  # Markdown
    began: str | None = None  # start of the night, ISO
    user: str = ""
    source: str = ""  # file that was run
    # details of `inputs`, and of the scored days
    datasets: tuple[InputTable, ...] = ()
    # files that are tables, as read by `mlflow.load_table`
    tables: tuple[str, ...] = ()
    # samples of the machine; `at` is in seconds since 1970
    system: tuple[Mapping[str, float], ...] = ()
    example: Mapping[str, Any] | None = None  # example call of the model; None without a model

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Self:
        """Return a record from its JSON in the outbox."""
        sequences = {name: tuple(content[name]) for name in ("epochs", "tables", "system")}
        datasets = tuple(InputTable(**table) for table in content["datasets"])
        return cls(**{**content, **sequences, "datasets": datasets})

    @property
    def begun(self) -> datetime | None:
        return datetime.fromisoformat(self.began) if self.began else None
