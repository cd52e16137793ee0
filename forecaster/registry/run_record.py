"""Experiment-tracking record of one run for the registry: parameters, metrics, curves, tables,
inputs and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

BUNDLE = "bundle"  # the folder of a registered model that holds the folder of its bundle
EVALUATED = "backtest"  # the dataset that headline metrics are measured on


@dataclass(frozen=True)
class InputTable:
    """A table that a night read, or scored on: columns with their types (`double`, `string`,
    `datetime`, `boolean`), what it holds in numbers, and a digest of at most 36 characters that
    changes with it."""

    name: str
    digest: str
    columns: Mapping[str, str]
    profile: Mapping[str, Any]
    version: int | None = None  # of the lake's table; None: no table of the lake


@dataclass(frozen=True)
class Record:
    """A run, as the registry is told of it; `epochs` are the curves of training, a point an epoch
    in their order."""

    run_id: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]  # the headline, at most eight
    epochs: tuple[Mapping[str, float], ...]
    tags: Mapping[str, str]
    inputs: Mapping[str, int]  # table of the lake → version that was read
    bundle: str | None  # the name of its folder in `state/bundles`
    description: str = ""  # Markdown
    began: str | None = None  # ISO, when the night did
    user: str = ""
    source: str = ""  # what was run
    # of `inputs`, with what is known of each, and what was scored on
    datasets: tuple[InputTable, ...] = ()
    # of the files those that are tables, as `mlflow.load_table` reads them
    tables: tuple[str, ...] = ()
    # samples of the machine; `at` is in seconds since 1970
    system: tuple[Mapping[str, float], ...] = ()
    example: Mapping[str, Any] | None = None  # how the model is called; None where there is none

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Self:
        """Return a record from its JSON in the outbox."""
        sequences = {name: tuple(content[name]) for name in ("epochs", "tables", "system")}
        datasets = tuple(InputTable(**table) for table in content["datasets"])
        return cls(**{**content, **sequences, "datasets": datasets})

    @property
    def begun(self) -> datetime | None:
        return datetime.fromisoformat(self.began) if self.began else None
