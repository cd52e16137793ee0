"""Backfill: forecast as of a past date into the lake's archive; the page stays as it is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from forecaster.config import Spec
from forecaster.publishing import forecast
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.publish import publish


def archive(spec: Spec, *, as_of: datetime, run_id: str, bundle: Path | None = None) -> PublishedForecast:
    """Forecast of the bundle as of an instant, or without one of the champion of that date: a later
    champion has seen what came after. Raises as `publish` does."""
    choice = forecast.choose_as_of(spec, as_of, bundle)
    return publish(spec, choice, as_of=as_of, run_id=run_id, show=False)
