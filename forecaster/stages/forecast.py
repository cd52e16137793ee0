"""From a bundle, or without one, to what the depots read: forecast, archive, publish. No JAX, no MLflow.

There is always a forecast: with no bundle that can be used, the seasonal-naive fallback goes out, and says so.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from forecaster import totals
from forecaster.demand import panel as panels
from forecaster.errors import BundleError
from forecaster.lake import TABLES, Lake
from forecaster.ledger import Ledger
from forecaster.publication import (
    Publication,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedTotal,
    RecentDay,
    Tier,
)
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.spec import Spec
from forecaster.stages import rosters
from forecaster.stages.know import know
from forecaster.values import Forecast, Panel

RECENT = 60  # days of actuals that a publication carries
NAIVE = "seasonal naive"


@dataclass(frozen=True)
class Choice:
    """What shall forecast: a bundle's folder, its name for people, and the tier of what it says."""

    bundle: Path | None
    model: str
    tier: Tier


@dataclass(frozen=True)
class Published:
    """What went out."""

    publication_id: int
    tier: Tier
    model: str
    bundle_digest: str | None
    cutoff: str
    depots: int
    note: str | None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def sentence(self) -> str:
        told = f"{self.depots:,} depots from {self.model}, tier {self.tier}, cutoff {self.cutoff}"
        return f"{told}, as publication {self.publication_id}" + (f"\n{self.note}" if self.note else "")


def choose(spec: Spec, ledger: Ledger, *, promoted_by: str | None = None) -> Choice:
    """The reigning champion, or the fallback when there is none; `promoted_by` is tonight's run."""
    reigning = ledger.champion(spec.name)
    if reigning is None:
        return Choice(None, NAIVE, "fallback")
    label = (
        f"{spec.name} v{reigning.model_version}" if reigning.model_version else f"{spec.name} {reigning.bundle_digest}"
    )
    tier: Tier = "fresh" if promoted_by is not None and reigning.run_id == promoted_by else "champion"
    return Choice(spec.state_folder / "bundles" / reigning.bundle_digest, label, tier)


def publish(spec: Spec, choice: Choice, *, as_of: datetime, run_id: str, note: str | None = None) -> Published:
    """Forecast as of an instant, append to the archive in one commit, publish in one transaction.

    Raises NoUsableData when nothing is known by then, LakeError or LedgerError when they cannot be written. A bundle
    that cannot be used is not an error here: the fallback goes out, with the reason in the note.
    """
    lake = Lake(spec.lake_url)
    knowledge = know(spec, as_of=as_of)
    try:
        if choice.bundle is None:
            raise BundleError("no model was ever admitted")
        predictor = Predictor(bundles.read(choice.bundle))
        panel = panels.build(knowledge, spec, predictor.bundle.encoding)
        forecast, digest = predictor(panel), choice.bundle.name
    except BundleError as error:
        reason = f"Seasonal-naive fallback: {error}."
        choice, note, digest = Choice(None, NAIVE, "fallback"), f"{note} {reason}" if note else reason, None
        panel = panels.build(knowledge, spec)
        forecast = seasonal_naive(panel, spec.model.quantiles)
    now = datetime.now(UTC)
    lake.append("forecasts", _archive_rows(forecast, choice, run_id, now))
    with Ledger.open(spec.ledger_url) as ledger:
        number = ledger.publish(
            Publication(
                pipeline=spec.name,
                run_id=run_id,
                published_at=now,
                as_of=as_of,
                cutoff=panel.cutoff,
                horizon=panel.horizon,
                tier=choice.tier,
                model=choice.model,
                timezone=spec.timezone,
                levels=forecast.levels,
                depots=_depots(forecast, panel, spec),
                totals=_totals(forecast, panel),
                bundle_digest=digest,
                note=note,
            )
        )
    cutoff = panel.cutoff.isoformat()
    return Published(number, choice.tier, choice.model, digest, cutoff, len(panel.depot_ids), note)


def _archive_rows(forecast: Forecast, choice: Choice, run_id: str, now: datetime) -> pa.Table:
    depots, horizon, levels = forecast.quantiles.shape
    count = depots * horizon
    schema = TABLES["forecasts"]
    offsets = pa.array(np.arange(0, count * levels + 1, levels, dtype=np.int32))
    columns = {
        "run_id": pa.repeat(run_id, count),
        "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
        "bundle": pa.repeat(pa.scalar(choice.bundle.name if choice.bundle else None, pa.string()), count),
        "tier": pa.repeat(choice.tier, count),
        "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon)),
        "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
        "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
        "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
        "levels": pa.ListArray.from_arrays(offsets, pa.array(np.tile(np.asarray(forecast.levels, np.float64), count))),
        "quantiles": pa.ListArray.from_arrays(offsets, pa.array(forecast.quantiles.ravel())),
    }
    return pa.table(columns).select(schema.names).cast(schema)


def _totals(forecast: Forecast, panel: Panel) -> tuple[PublishedTotal, ...]:
    return tuple(
        PublishedTotal(city, day, tuple(quantiles))
        for city, days in sorted(totals.of(forecast, panel).items())
        for day, quantiles in zip(forecast.target_dates, days.tolist(), strict=True)
    )


def _depots(forecast: Forecast, panel: Panel, spec: Spec) -> tuple[PublishedDepot, ...]:
    """What the page shows of each depot; a depot that closed before its recent days began is left out."""
    planned = rosters.plan(forecast, panel, spec)
    told = rosters.told(planned, forecast) if planned else {}
    first = max(panel.history - RECENT, 0)
    recent_days = panel.days[first : panel.history].astype(object)
    found = []
    for row, depot_id in enumerate(panel.depot_ids):
        if not panel.open[row, first:].any():
            continue
        days = tuple(
            PublishedDay(
                target_date=day,
                horizon=step + 1,
                open=bool(forecast.open[row, step]),
                quantiles=tuple(float(q) for q in forecast.quantiles[row, step]),
                drivers=int(planned.drivers[row, step]) if planned else None,
                roster=told.get((row, step)),
            )
            for step, day in enumerate(forecast.target_dates)
        )
        recent = tuple(
            RecentDay(day, float(panel.demand[row, first + i]), bool(panel.open[row, first + i]))
            for i, day in enumerate(recent_days)
        )
        named = tuple(PublishedMark(mark.date, mark.kind, mark.name) for mark in panel.marks.of(row))
        attributes = {name: panel.attributes[name][row] for name in spec.depots.static} if spec.depots else {}
        found.append(PublishedDepot(depot_id, days, recent, attributes, named))
    return tuple(found)
