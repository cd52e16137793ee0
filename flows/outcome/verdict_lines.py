"""Presentation of the gate's verdict on the screen and in the ledger: each model's metrics on the
same days, then the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forecaster.core.forecast import Verdict
from forecaster.core.language.sentences import stored
from forecaster.core.metric_names import METRICS


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as the ledger stores it; objections include their parts, for translation."""
    compared = {
        model: {key: value if value == value else None for key, value in metrics.items() if key in METRICS}
        for model, metrics in verdict.compared.items()
    }
    row = {"admitted": verdict.admitted, "objections": list(verdict.objections), "compared": compared}
    return {**row, "made_of": [stored(objection) for objection in verdict.objections]}


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the lines about the verdict for the screen."""
    for model, metrics in verdict.compared.items():
        yield (
            f"           {model:15} MAPE {_formatted(metrics['mape'], '6.1%')}  "
            f"WAPE {_formatted(metrics['wape'], '6.1%')}  MASE {_formatted(metrics['mase'], '.3f')}  "
            f"bias {_formatted(metrics['bias'], '+.1%')}  80 % covers {_formatted(metrics['coverage'], '.1%')}"
        )
    yield f"           candidate {verdict.sentence()}"


def _formatted(value: float, form: str) -> str:
    """Format a metric; a dash if it is undefined on these days."""
    return format(value, form) if value == value else "—"
