"""Instants with several rows of one count, for example one per kind of weather; each instant should
count once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.readings import CONTENT
from forecaster.demand.validation.feed_shape import batch_finding

SHARE, ROWS = 0.05, 50  # share, and number, of rows that repeat the timestamp and count of another row
LARGE = 20  # median of the repeated counts: small ones coincide by chance


def repeated_instants(rows: pd.DataFrame, spec: Spec) -> list[Finding]:
    """Finding if many rows to be summed repeat the timestamp and the count of another row.

    `rows` are accepted rows, as described in `readings`, before aggregation.
    """
    if spec.demand.aggregate != "sum" or spec.demand.columns.order_id:
        return []
    is_repeated = rows.duplicated(["depot_id", "day", CONTENT]).to_numpy() & (rows["demand"] > 0).to_numpy()
    number = int(is_repeated.sum())
    if number < max(ROWS, SHARE * len(rows)) or float(np.median(rows["demand"][is_repeated])) < LARGE:
        return []
    detail = sentence(
        N_("found {n} of {all} rows with the timestamp and the count of another row, all summed"),
        n=number,
        all=len(rows),
    )
    hint = sentence(N_("demand.columns.order_id: {column} counts each timestamp once"), column=spec.demand.columns.day)
    return [batch_finding("repeated_rows", number, detail, hint, spec)]
