"""Files with which a bundle forecasts from a long data frame alone, without the lake;
`forecaster.api.registered_model` reads them next to the bundle.

    pipeline.json     counting of days, covariates that are known ahead, rules for readings
    static.parquet    the depots with their static attributes, if the pipeline has a depots source
    events.parquet    events as known that night, if there are any
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel

PIPELINE, STATIC, EVENTS = "pipeline.json", "static.parquet", "events.parquet"
EXAMPLE_DEPOTS, EXAMPLE_DAYS = 2, 56
ANY = "any"  # MLflow rejects whole numbers for a column of type `double`
# other rules apply to the batches of a source
KEPT_RULES = {"max_demand", "closed_after_days", "max_gap_days"}
BUSINESS = ("opened", "closed", "timezone")


def files(spec: Spec, knowledge: Knowledge) -> dict[str, bytes]:
    """Return the files by name."""
    content: dict[str, Any] = {
        "name": spec.name,
        "timezone": spec.timezone,
        "horizon": spec.horizon,
        "calendar": spec.calendar.model_dump(mode="json", exclude={"events"}, exclude_none=True),
        "demand": spec.demand.model_dump(
            mode="json", include={"missing": True, "weekdays": True, "rules": KEPT_RULES}, exclude_none=True
        ),
        "state": "state",
    }
    folder_files = {PIPELINE: json.dumps(content, indent=1).encode(errors="replace")}
    if spec.depots is not None:
        names = ["depot_id", *spec.depots.static, *(name for name in BUSINESS if name in knowledge.depots)]
        folder_files[STATIC] = _parquet(knowledge.depots[names])
    if len(knowledge.events):
        folder_files[EVENTS] = _parquet(knowledge.events)
    return folder_files


def example(spec: Spec, knowledge: Knowledge, panel: Panel) -> dict[str, Any]:
    """Return an example call of the model: columns with their types and whether they are required,
    some rows, and the columns of the result.

    Rows are those of two depots on the last days, including the days ahead if readings contain
    covariates.
    """
    covariates = [name for name in spec.calendar.known_future if name in knowledge.demand.columns]
    is_open = panel.open[:, panel.history :].any(axis=1)
    depot_ids = [panel.depot_ids[row] for row in np.flatnonzero(is_open)[:EXAMPLE_DEPOTS]]
    last = panel.days[-1] if covariates else panel.days[panel.history - 1]
    first = panel.days[max(panel.history - EXAMPLE_DAYS, 0)]
    demand = knowledge.demand
    demand = demand[demand["depot_id"].isin(depot_ids) & (demand["date"] >= first) & (demand["date"] <= last)]
    demand = demand.sort_values(["depot_id", "date"])
    columns = {"depot_id": ("string", True), "date": ("datetime", True), "demand": (ANY, True)}
    columns |= dict.fromkeys(covariates, (ANY, False))
    rows = [
        [str(row[0]), f"{row[1]:%Y-%m-%d}", *(_plain(value) for value in row[2:])]
        for row in demand[list(columns)].itertuples(index=False)
    ]
    levels = [f"q{level:g}" for level in spec.model.quantiles]
    result_columns = {"depot_id": "string", "date": "datetime"} | dict.fromkeys(("forecast", *levels, "mean"), "double")
    return {"takes": columns, "gives": result_columns, "rows": rows}


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


def _parquet(frame: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None), out)
    return out.getvalue()
