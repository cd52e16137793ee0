"""Shorten the durations of alert rules and routes by one factor, so that an hour of them passes in
a minute.

The divided durations are those for which a rule waits (`for`), looks back (`[1h]`) and repeats its
notification (`repeat_interval`), in a temporary copy of the committed file. Nothing else changes:
no threshold, no minimum traffic, and no maximum age of a forecast, which real clocks measure. No
duration falls below one second, so a scrape interval of 15 s becomes one second.
"""

from __future__ import annotations

import re
from collections.abc import Callable

FACTOR = 60
LEAST = 1  # seconds; no duration except 0 becomes shorter
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(
    r"(?P<before>\bfor: |\binterval: |\b(?:scrape|evaluation|group|repeat)_interval: |\bgroup_wait: |\[)"
    r"(?P<number>\d+)(?P<unit>[smhd])\b"
)


def divided(factor: int) -> Callable[[str], str]:
    """Return a function that divides the durations in the text of a rule file or of Alertmanager's
    or Prometheus' settings."""

    def shortened(text: str) -> str:
        return _DURATION.sub(lambda match: f"{match['before']}{_shorter(match, factor)}s", text)

    return shortened


def _shorter(match: re.Match[str], factor: int) -> int:
    seconds = int(match["number"]) * _SECONDS[match["unit"]]
    return seconds and max(LEAST, round(seconds / factor))
