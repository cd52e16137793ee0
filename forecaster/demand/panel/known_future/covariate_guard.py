"""Hold back forecasts far outside all of a depot's counts if covariates cause them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from forecaster.core.arrays import Bools
from forecaster.core.forecast import Forecast
from forecaster.core.language import N_
from forecaster.core.language.sentences import and_more, sentence
from forecaster.core.naive_quantiles import largest_count
from forecaster.core.panel import Panel
from forecaster.demand.panel.known_future.usual_covariates import usual_ahead

MAX_NAMED = 5  # depots named
# factor above the largest count of a depot's open days, or below its smallest, from which a median
# is odd
TIMES = 4.0

NOTES = (
    N_(
        "Depots {depots}: a forecast more than {times} times above or below all counts of the depot is withheld, "
        "because it depends on the covariates {covariates}; the forecast with their usual values is published "
        "(calendar.known_future)."
    ),
    N_("Depots {depots}: the covariates of the days ahead are implausible; the forecast uses their usual values."),
)


def without_odd_covariates(
    predicted: Forecast, panel: Panel, predict: Callable[[Panel], Forecast]
) -> tuple[Forecast, Panel, list[tuple[str, str]]]:
    """The forecast and its panel, with the usual covariates for depots whose medians are odd only
    because of theirs; plus, if there are any, a detailed note and one for readers."""
    names = panel.encoding.covariates
    odd = _odd(predicted, panel)
    if not names or not odd.any():
        return predicted, panel, []
    usual = usual_ahead(panel.covariates, panel.history, kept=np.array([name == "open" for name in names]).nonzero()[0])
    rows: Bools = np.any(odd & ~_odd(predict(replace(panel, covariates=usual)), panel), axis=1)
    if not rows.any():
        return predicted, panel, []
    horizon_slice = slice(panel.history, None)
    changed = (usual[rows, horizon_slice] != panel.covariates[rows, horizon_slice]).any(axis=(0, 1))
    panel = replace(panel, covariates=np.where(rows[:, None, None], usual, panel.covariates))
    depots = np.asarray(panel.depot_ids, object)[rows].tolist()
    values = {
        "depots": and_more(depots[:MAX_NAMED], len(depots) - MAX_NAMED),
        "times": int(TIMES),
        "covariates": ", ".join(repr(name) for name, is_changed in zip(names, changed, strict=True) if is_changed),
    }
    note = sentence(NOTES[0], **values), sentence(NOTES[1], depots=values["depots"])
    return predict(panel), panel, [note]


def _odd(predicted: Forecast, panel: Panel) -> Bools:
    """Mark open days ahead, (depots, horizon), whose median is far above or below every count of a
    settled depot."""
    observed = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    smallest = np.where(observed, panel.demand, np.inf).min(axis=1, initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, 0)[:, None]
    is_high = predicted.median > TIMES * largest_count(panel)[:, None]
    odd: Bools = (is_high | (predicted.median < smallest / TIMES)) & predicted.open & ~panel.cold[:, None]
    return odd
