"""Which words name a time zone."""

from __future__ import annotations

from zoneinfo import ZoneInfo


def known(name: str) -> bool:
    """Whether this machine has the zone; to list all that it has, it would open hundreds of files."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # none of that name; no name of a file in the zones' folder; a folder
        return False
    return True
