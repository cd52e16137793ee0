"""Schedule of a pipeline in words, with the next starts of each of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice

from cronsim import CronSim

from dashboards.ops.formatting import display
from forecaster.config import Spec
from forecaster.core.language import N_, _

RUNS = {"cron": N_("Night"), "refresh": N_("New forecast with late data"), "maintain": N_("Maintenance")}
SHOWN = 3  # of the next starts
_A_SUNDAY = date(2024, 1, 7)


@dataclass(frozen=True)
class ScheduledRun:
    """A kind of run, its schedule in words, and its next starts."""

    name: str
    words: str
    following: tuple[str, ...]


def scheduled_runs(spec: Spec, now: datetime) -> tuple[ScheduledRun, ...]:
    """Return the declared runs, in the pipeline's time zone."""
    local = now.astimezone(spec.zone)
    crons = {name: cron for key, name in RUNS.items() if (cron := getattr(spec.schedule, key))}
    return tuple(
        ScheduledRun(
            _(name),
            in_words(cron),
            tuple(display.instant(at, spec.zone) for at in islice(CronSim(cron, local), SHOWN)),
        )
        for name, cron in crons.items()
    )


def in_words(cron: str) -> str:
    """Describe a cron expression: by weekdays if it restricts nothing else, otherwise with the
    expression itself."""
    times = CronSim(cron, datetime(2024, 1, 1))
    clock = "{1:0>2}:{0:0>2}".format(*cron.split())
    if len(times.days) < 31 or len(times.months) < 12:
        return _("at {time}, on days by cron “{cron}”", time=clock, cron=cron)
    weekdays = sorted({day % 7 for day in times.weekdays if isinstance(day, int)})
    if len(weekdays) == 7:
        return _("every day at {time}", time=clock)
    names = display.listed([display.weekday(_A_SUNDAY + timedelta(days=number)) for number in weekdays])
    return _("{weekdays} at {time}", weekdays=names, time=clock)
