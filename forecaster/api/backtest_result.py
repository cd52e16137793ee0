"""Results of a backtest as frames: scores of each model, and its forecasts with the actuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.api.frames import MODEL, NIXTLA, FrameKind, forecast_columns
from forecaster.core.forecast import Scores
from forecaster.core.metric_names import METRICS

CANDIDATE = "candidate"  # name of the fitted model in the backtest


class BacktestResult:
    """Scores and forecasts of past days that no model learned from."""

    def __init__(self, scores: Mapping[str, Scores], kind: FrameKind) -> None:
        self._scores, self._kind = {_name(name): of_model for name, of_model in scores.items()}, kind

    @property
    def scores(self) -> Any:
        """One row per model, ours first: MAPE, WAPE, MASE, WQL, bias and the coverage of the 80 %
        interval as shares, and `days`, the number of scored depot-days; docs/glossary.md defines
        each. Unknown values are NaN; metrics unknown for all models are omitted."""
        names = list(self._scores)
        columns: dict[str, Any] = {"model": names}
        for metric in METRICS:
            values = [float(self._scores[name].metrics.get(metric, np.nan)) for name in names]
            if np.isfinite(values).any():
                columns[metric] = values
        return self._kind.frame(columns)

    @property
    def forecasts(self) -> Any:
        """One row per model, cutoff, depot and day: the columns of the forecast and the actual, NaN
        if it is unknown or the depot was closed. Under Nixtla's names, one row per scored cutoff,
        depot and day with the columns of each model, as `utilsforecast.evaluate` expects them."""
        of_models = [self._of_model(model) for model in self._scores]
        if self._kind.names != NIXTLA:
            rows = pa.concat_tables(of_models)
        else:
            ids = ["unique_id", "ds", "cutoff", "y"]
            rows = of_models[0].select(ids)
            for model, table in zip(self._scores, of_models, strict=True):
                for name in table.column_names:
                    if name.startswith(MODEL):
                        rows = rows.append_column(model + name.removeprefix(MODEL), table[name])
            rows = rows.filter(pc.is_finite(rows["y"]))
        return self._kind.frame(dict(zip(rows.column_names, rows.columns, strict=True)))

    def _of_model(self, model: str) -> pa.Table:
        tables = []
        for fold in self._scores[model].folds:
            # before the held-out days, where nothing is scored
            if not np.isfinite(fold.actuals).any():
                continue
            columns = forecast_columns(fold.forecast, self._kind)
            rows = len(columns[self._kind.names.date])
            head = {"model": pa.repeat(model, rows), "cutoff": self._kind.days([fold.forecast.cutoff] * rows)}
            actual = fold.actuals.reshape(-1).astype(np.float64)
            tables.append(pa.table({**head, **columns, self._kind.names.demand: actual}))
        return pa.concat_tables(tables)

    def __repr__(self) -> str:
        rows = [f"{'model':24}{'MAPE':>8}{'WAPE':>8}{'MASE':>8}"]
        for name, of_model in self._scores.items():
            mape, wape, mase = (of_model.metrics.get(metric, np.nan) for metric in ("mape", "wape", "mase"))
            rows.append(f"{name:24}{mape:8.1%}{wape:8.1%}{mase:8.3f}")
        return "\n".join(rows)


def _name(model: str) -> str:
    return MODEL if model == CANDIDATE else model
