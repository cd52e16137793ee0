"""A verdict of the gate on the screen and in the ledger: each model's metrics on the same days,
then the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forecaster.core.forecast import Verdict
from forecaster.core.language.sentences import stored
from forecaster.core.metric_names import METRICS


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Verdict as the ledger stores it; objections with what they are made of, to be told in other
    languages."""
    compared = {
        model: {key: value if value == value else None for key, value in metrics.items() if key in METRICS}
        for model, metrics in verdict.compared.items()
    }
    row = {"admitted": verdict.admitted, "objections": list(verdict.objections), "compared": compared}
    return {**row, "made_of": [stored(objection) for objection in verdict.objections]}


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Lines about the verdict for the screen."""
    for model, metrics in verdict.compared.items():
        yield (
            f"           {model:15} MAPE {_formatted(metrics['mape'], '6.1%')}  "
            f"WAPE {_formatted(metrics['wape'], '6.1%')}  MASE {_formatted(metrics['mase'], '.3f')}  "
            f"bias {_formatted(metrics['bias'], '+.1%')}  80 % covers {_formatted(metrics['coverage'], '.1%')}"
        )
    yield f"           candidate {verdict.sentence()}"


def _formatted(value: float, form: str) -> str:
    """A metric for people; a dash where these days have none."""
    return format(value, form) if value == value else "—"
