"""Schedules in words, with their next starts in the pipeline's time zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dashboards.ops.formatting import locale
from dashboards.ops.views.schedule import in_words, scheduled_runs
from forecaster.config import spec_of
from tests.names import ROOT


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("15 3 * * *", "every day at 03:15"),
        ("0 7 * * 1-5", "Mon, Tue, Wed, Thu, Fri at 07:00"),
        ("5 12 * * 7", "Sun at 12:05"),
        ("5 12 * * 0,3", "Sun, Wed at 12:05"),
        ("0 4 1 * *", "at 04:00, on days by cron “0 4 1 * *”"),
        ("0 4 * 1-6 1", "at 04:00, on days by cron “0 4 * 1-6 1”"),
    ],
)
def test_a_cron_expression_is_shown_in_words(cron: str, words: str) -> None:
    assert in_words(cron) == words


def test_the_next_starts_follow_the_pipelines_zone_across_clock_changes() -> None:
    demand = {"source": {"kind": "csv", "path": "d.csv"}}
    spec = spec_of({"name": "a", "timezone": "Europe/Berlin", "demand": demand}, ROOT)
    night, tidying = scheduled_runs(spec, datetime(2026, 10, 23, 22, tzinfo=UTC))
    assert night.following == ("Sat 24 Oct, 03:15 CEST", "Sun 25 Oct, 03:15 CET", "Mon 26 Oct, 03:15 CET")
    assert (tidying.name, tidying.words) == ("Maintenance", "Sun at 12:00")
    with locale.active(locale.reader_locale("de")):
        assert scheduled_runs(spec, datetime(2026, 10, 23, tzinfo=UTC))[0].words == "täglich um 03:15"
