"""Measures of a run as lines for its reports: compilation, memory, processor, devices, and the
versions that programs were compiled for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forecaster.core.metric_names import OF_RUNS


def measured(measures: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name with label, value with unit, and meaning, in the order of `OF_RUNS`; then the
    versions."""
    for name, measure in OF_RUNS.items():
        value = measures.get(name)
        by_label = value if isinstance(value, Mapping) else {"": value}
        for label, number in by_label.items():
            if number is not None:
                yield f"{name} {label}".strip(), f"{number:.6g} {measure.unit}", measure.meaning
    for component, version in measures.get("versions", {}).items():
        yield f"version {component}", str(version), "that programs were compiled for"
