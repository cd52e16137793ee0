"""Outcome of a publication: its content as text and files, and non-fatal errors."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from forecaster.core.forecast import Forecast
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, joined, of_error, packed, sentence
from forecaster.core.terminal import count
from forecaster.ledger.publication import Tier
from forecaster.ledger.records import Head
from forecaster.publishing import caveats
from forecaster.publishing.caveats import Note

Format = Literal["csv", "parquet", "json"]


class Troubles:
    """Non-fatal errors: sentences on what failed besides publishing."""

    def __init__(self, messages: Iterable[str] = ()) -> None:
        self._messages = list(messages)

    @property
    def summary(self) -> str | None:
        """All of them in one line; None if there were none."""
        return joined(self._messages)

    def add(self, message: str) -> None:
        """Add a sentence on a failure."""
        self._messages.append(message)

    @contextmanager
    def collect(self, errors: type[Exception] | tuple[type[Exception], ...], lacking: str = "") -> Iterator[None]:
        """Catch an error of the block as a trouble, prefixed with what is lacking."""
        try:
            yield
        except errors as error:
            why = of_error(error)
            self._messages.append(sentence(N_("{what}: {why}"), what=as_sentence(lacking), why=why) if lacking else why)


@dataclass(frozen=True)
class PublishedForecast:
    """A published forecast, as commands and flows report it."""

    publication_id: int | None  # None: only archived
    tier: Tier
    model: str
    bundle_digest: str | None
    cutoff: str
    depots: int
    note: str | None
    forecast: Forecast
    trouble: str | None = None  # other failures
    remark: str | None = None  # failed look-backs, which do not affect the forecast
    canary: str | None = None  # reason for a canary's rollback in this run

    def report(self) -> dict[str, Any]:
        """Return all fields except the forecast."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "forecast"}

    def to_json(self) -> str:
        """JSON of the report, with its sentences packed."""
        return json.dumps(packed(self.report()))

    def sentence(self, *, with_note: bool = True) -> str:
        """Message for people: summary, then note, trouble and remark, one line each."""
        summary = f"{count(self.depots, 'depot')} from {self.model}, tier {self.tier}, cutoff {self.cutoff}"
        where = f"as publication {self.publication_id}" if self.publication_id is not None else "in the archive"
        note = self.note if with_note else None
        return "\n".join(line for line in (f"{summary}, {where}", note, self.trouble, self.remark) if line)


def kept(head: Head, forecast: Forecast, depots: int, notes: Iterable[Note]) -> PublishedForecast:
    """Report of a forecast that is not published, because `head` stays."""
    cutoff, note = head.cutoff.isoformat(), joined((note.text for note in notes), " ")
    head_fields = (head.publication_id, head.tier, head.model, head.bundle_digest, cutoff)
    return PublishedForecast(*head_fields, depots, note, forecast, caveats.outdated(head))


def to_table(published: PublishedForecast) -> pa.Table:
    """Table with depot_id, target_date, horizon, open, one column per quantile level (q0.5 is the
    point forecast), and the origin: cutoff, tier, bundle."""
    forecast = published.forecast
    depots, horizon, _ = forecast.quantiles.shape
    count = depots * horizon
    return pa.table(
        {
            "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon), pa.string()),
            "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
            "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
            "open": pa.array(forecast.open.ravel()),
            **{f"q{level:g}": forecast.quantiles[:, :, i].ravel() for i, level in enumerate(forecast.levels)},
            "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
            "tier": pa.repeat(published.tier, count),
            "bundle": pa.repeat(pa.scalar(published.bundle_digest, pa.string()), count),
        }
    )


def serialize(published: PublishedForecast, format_: Format) -> bytes:
    """Bytes of the file in one of the formats."""
    rows, out = to_table(published), io.BytesIO()
    if format_ == "csv":
        pyarrow.csv.write_csv(rows, out)
    elif format_ == "parquet":
        pq.write_table(rows, out)
    else:
        out.write((json.dumps(rows.to_pylist(), default=str, indent=1) + "\n").encode())
    return out.getvalue()
