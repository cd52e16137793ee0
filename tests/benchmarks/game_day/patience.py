"""Durations of alert rules and routes, all divided by one factor, so that an hour of them passes in a minute.

A rule waits (`for`), looks back (`[1h]`) and is told again (`repeat_interval`) by durations; these are divided, in a
copy that is made from the committed file when a game day begins and is gone with it. Nothing else is changed: neither a
threshold, nor a least traffic, nor how old a forecast may be, which is told by clocks that run as they do. What is
scraped and looked at every second is not divided further.
"""

from __future__ import annotations

import re
from collections.abc import Callable

FACTOR = 60
LEAST = 1  # seconds: no duration but none at all becomes shorter
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(
    r"(?P<before>\bfor: |\binterval: |\b(?:scrape|evaluation|group|repeat)_interval: |\bgroup_wait: |\[)"
    r"(?P<number>\d+)(?P<unit>[smhd])\b"
)


def divided(factor: int) -> Callable[[str], str]:
    """What makes of the text of a rule file, or of Alertmanager's or Prometheus' settings, the same with durations
    divided by a factor."""

    def shortened(text: str) -> str:
        return _DURATION.sub(lambda match: f"{match['before']}{_shorter(match, factor)}s", text)

    return shortened


def _shorter(match: re.Match[str], factor: int) -> int:
    seconds = int(match["number"]) * _SECONDS[match["unit"]]
    return seconds and max(LEAST, round(seconds / factor))
