"""Ownership of a lake: the fleet that first ingested into it. Pipelines of other fleets are
rejected, and so is a partly restored lake."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from forecaster.config import Spec
from forecaster.errors import ForeignLake, LakeError
from forecaster.lake import TABLES, Lake


def owner(lake: Lake) -> str | None:
    """Fleet whose demand a lake holds; None if no run has recorded it yet.

    If two fleets recorded themselves at once, the older row counts. Raises LakeError.
    """
    rows = lake.read("owners").sort_by([("recorded_at", "ascending"), ("fleet", "ascending")])
    return str(rows["fleet"][0]) if len(rows) else None


def refuse_other_fleets(spec: Spec, lake: Lake | None = None) -> None:
    """Raise ForeignLake if the lake holds the demand of another fleet, LakeError if it cannot be
    read or is partly restored."""
    refuse_half_restored(spec)
    fleet = owner(lake or Lake.of(spec))
    if fleet not in (None, spec.fleet_name):
        raise ForeignLake(
            f"the lake at {spec.lake_url} holds the demand of fleet '{fleet}', wanted that of '{spec.fleet_name}': "
            f"set `lake` (or `state`) to a folder of its own; where it is the same fleet, under a new name or in a "
            f"second pipeline, set `fleet: {fleet}`"
        )


def refuse_half_restored(spec: Spec) -> None:
    """Raise LakeError if a restore was begun and has not ended."""
    try:
        # the restore was killed before it wrote its source
        folder = spec.paths.restoring.read_text("utf-8") or "DIR"
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError):
        folder = "DIR"
    raise LakeError(
        f"{spec.paths.folder} is restored in part: a restore from {folder} has not ended; wait for it, or where it was "
        f"killed, do it again: `forecaster restore FILE --from {folder}`"
    )


def claim(spec: Spec, lake: Lake, now: datetime) -> None:
    """Record this fleet as the owner of the lake, unless it has one. Raises the errors of
    `refuse_other_fleets`."""
    if owner(lake) is None:
        row = {"fleet": spec.fleet_name, "recorded_at": now}
        lake.append("owners", pa.Table.from_pylist([row], schema=TABLES["owners"]))
        refuse_other_fleets(spec, lake)  # another fleet may have claimed it at the same moment
