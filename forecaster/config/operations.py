"""Sections of the pipeline file about operations: schedule, retention, notification."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.access import only_reference
from forecaster.config.base import Section


class Schedule(Section):
    cron: str = "15 3 * * *"
    """Cron expression of the night (minute, hour, day, month and weekday), in the pipeline's time
    zone."""
    deadline: str = "05:30"
    """Local time by which the forecasts must be published: its first occurrence after `cron`."""
    catch_up: int = Field(default=7, ge=0)
    """Missed nights that the next one adds to the archive, the newest first."""
    refresh: str | None = None
    """Cron expression for a new forecast by the champion with late data. Left out: never."""
    maintain: str = "0 12 * * 0"
    """Cron expression for maintenance of the lake and for retention."""
    max_training_hours: float = Field(default=4.0, gt=0)
    """Time limit of a training; the champion then forecasts, and the next night resumes."""

    @field_validator("cron", "refresh", "maintain")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        expected = "wanted 'minute hour day month weekday', as in '15 3 * * *'"
        if value is not None and not re.fullmatch(r"\d{1,2} \d{1,2}( [\d*/,-]+){3}", value):
            raise ValueError(f"found {value!r}, {expected}")
        minute, hour = (int(part) for part in (value or "0 0").split()[:2])
        if minute > 59 or hour > 23:
            raise ValueError(f"found {value!r}, wanted a minute up to 59 and an hour up to 23")
        # imported here: a registered model that reads its own file does without it
        from cronsim import CronSim, CronSimError

        try:
            CronSim(value or "0 0 * * *", datetime(2024, 1, 1))
        except CronSimError:
            raise ValueError(f"found {value!r}, {expected}") from None
        return value

    @field_validator("deadline")
    @classmethod
    def _deadline(cls, value: str) -> str:
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
            raise ValueError(f"found {value!r}, wanted a local time as in '05:30'")
        return value

    @property
    def hour_minute(self) -> tuple[int, int]:
        """Local start time of the night."""
        minute, hour = (int(part) for part in self.cron.split()[:2])
        return hour, minute

    @property
    def window(self) -> float:
        """Seconds from the night's start to its deadline, in local time."""
        hour, minute = self.hour_minute
        deadline_hour, deadline_minute = (int(part) for part in self.deadline.split(":"))
        return float(((deadline_hour - hour) * 60 + deadline_minute - minute) * 60 % 86_400 or 86_400)


class Retention(Section):
    """Retention times in days; `forecaster maintain` removes everything older."""

    runs: int = Field(default=400, ge=30)
    """Runs in the ledger without a shown publication or a promotion."""
    bundles: int = Field(default=30, ge=1)
    """Bundles that were never champion."""
    checkpoints: int = Field(default=14, ge=1)
    """Checkpoints of training."""
    caches: int = Field(default=30, ge=1)
    """Exported graphs, traces of training, and Prefect's flow runs."""
    compile_cache_mb: int = Field(default=2048, ge=64)
    """Size of the compiled programs in megabytes, not days: beyond that, JAX removes the least
    recently used."""
    lake: int = Field(default=7, ge=1)
    """Replaced files of the lake, which readers of older versions need."""
    publications: int = Field(default=8, ge=2)
    """Number of publications that the page can look back at; not days."""
    people: int = Field(default=60, ge=15)
    """Names of people in plans of the week; older plans have numbers."""


Occasion = Literal["late", "degraded", "stop", "failed", "promotion", "rollback"]


def _only_block(block: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", block):
        raise ValueError(f"found {block!r}, wanted type/name of a block, as in custom-webhook/on-call")
    return block


class DigestReceiver(Section):
    """Receiver and scope of a morning digest; without depot and city: the whole network."""

    to: str
    """Prefect notification block, as type/name: forecaster-email/boston, slack-webhook/depots."""
    depot: str | None = None
    """The one depot of the digest."""
    city: str | None = None
    """The city of the digest: totals, notable depots, and the list."""
    language: str | None = None
    """Language tag for numbers, as de or en-GB. Left out: English."""

    _block_name = field_validator("to")(_only_block)

    @field_validator("language")
    @classmethod
    def _language_tag(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", value):
            raise ValueError(f"found {value!r}, wanted the tag of a language, as de or en-GB")
        return value

    @model_validator(mode="after")
    def _about_one(self) -> Self:
        if self.depot is not None and self.city is not None:
            raise ValueError(
                f"found depot {self.depot!r} and city {self.city!r}, wanted one of them, or an entry for each"
            )
        return self


def _only_url(value: str | None) -> str | None:
    if value is not None and (not re.fullmatch(r"https?://[^\s/?#]+[^\s#]*", value) or not value.isascii()):
        raise ValueError(f"found {value!r}, wanted a URL as in https://hc-ping.com/your-uuid")
    return value


class ScheduleWebhook(Section):
    """Receiver of published schedules and their changes, signed according to Standard Webhooks."""

    url: str
    """URL to which each publication of a week and each later change is posted."""
    secret: str
    """Key of the signatures, as a reference such as ${SCHEDULE_SECRET}: whsec_ and 24 to 64 bytes
    in base64."""

    _address = field_validator("url")(_only_url)
    _key = field_validator("secret")(only_reference)


class Notify(Section):
    blocks: tuple[str, ...] = ()
    """Prefect notification blocks, as type/name: custom-webhook/on-call, forecaster-email/on-call."""
    of: tuple[Occasion, ...] = ("late", "degraded", "stop", "failed", "promotion", "rollback")
    """Occasions: no forecast by the deadline, a degraded night, a stopped batch, a failed night, a
    new champion, a rollback."""
    digest: tuple[DigestReceiver, ...] = ()
    """Receivers of a morning digest; see Operations, Morning digests."""
    heartbeat: str | None = None
    """URL of a dead man's switch such as Healthchecks.io: each night calls URL/start when it begins
    and URL or URL/fail when it ends."""
    schedule: ScheduleWebhook | None = None
    """Webhook of published schedules; needs `staffing.notice_days`."""

    @field_validator("blocks")
    @classmethod
    def _block_names(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_only_block, blocks))

    _heartbeat = field_validator("heartbeat")(_only_url)
