"""Time zone names: which words name a zone of the IANA database on this machine."""

from __future__ import annotations

from zoneinfo import ZoneInfo


def exists(name: str) -> bool:
    """Whether this machine has the zone; to list all that it has, it would open hundreds of files."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # none of that name; no name of a file in the zones' folder; a folder
        return False
    return True
