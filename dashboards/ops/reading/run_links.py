"""Links of a run: the report of its model on this page, and the run and the model's version in
MLflow.

They concern all depots together, so readers who do not see every city get none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards.ops.reading.editions import Logbook
from forecaster.registry import addresses

if TYPE_CHECKING:
    from forecaster.config import Spec

_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


@dataclass(frozen=True)
class RunLinks:
    """Addresses with more about a run, None if there is no such page; `report` is relative to this
    page's root."""

    report: str | None = None
    mlflow: str | None = None


@dataclass(frozen=True)
class RunLinker:
    """Finds the links of runs; none without a pipeline file or for readers who may not see them."""

    spec: Spec | None
    base: str | None = None  # URL of MLflow

    @classmethod
    def of(cls, book: Logbook) -> RunLinker:
        spec = book.spec if book.cities is None else None
        return cls(spec, addresses.base_address(spec) if spec else None)

    def run(self, run_id: str) -> RunLinks:
        if self.spec is None:
            return RunLinks()
        report = f"/runs/{run_id}/report" if report_file(self.spec, run_id) else None
        registered = addresses.registered_run(self.spec, run_id) if self.base else None
        return RunLinks(report, registered.address(self.base) if registered and self.base else None)

    def version(self, version: str | None) -> str | None:
        """Return the address in MLflow of a version of the model."""
        if self.spec is None or self.base is None or version is None:
            return None
        return addresses.version_address(self.base, self.spec.name, version)


def report_file(spec: Spec, run_id: str) -> Path | None:
    """Return the report file of a run's model; None if there is none or the run ID is invalid."""
    if not _RUN.fullmatch(run_id):
        return None
    file = spec.paths.report_of(run_id)
    return file if file.is_file() else None
