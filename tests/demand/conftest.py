"""A basic pipeline file, and a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import Spec, load
from tests.databases import postgres as postgres
from tests.stores import s3 as s3


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Pipeline file in `tmp_path`, to which relative paths of sources refer."""
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    return load(file)
