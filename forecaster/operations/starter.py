"""Project scaffolding (`forecaster init`): a commented pipeline file and the Harbor Fleet sample up to yesterday."""

from __future__ import annotations

import shlex
from datetime import date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import yaml

from forecaster.errors import SpecError

EXPORTED = timedelta(hours=2)  # after midnight, local: by then the sample's source has told of the day before


def create(folder: Path, *, end: date | None = None) -> str:
    """Write pipeline.yaml, demand.csv, depots.csv and events.csv; returns what to do next.

    The sample ends with `end`, or with the last day that its source would have told of by now. Raises SpecError when
    the folder holds something already or cannot be written.
    """
    from forecaster.demand.sample import simulate

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise SpecError(f"{folder}: exists and is not an empty folder; wanted a new one")
        folder.mkdir(parents=True, exist_ok=True)
        template = files("forecaster.operations").joinpath("starter.yaml").read_text("utf-8")
        zone = ZoneInfo(yaml.safe_load(template)["timezone"])
        last = end or (datetime.now(zone) - EXPORTED).date() - timedelta(days=1)
        sample = simulate.simulate(end=last)
        simulate.write(sample, folder)
        file = folder / "pipeline.yaml"
        file.write_text(template, "utf-8")
    except OSError as error:
        raise SpecError(f"{folder}: cannot be written: {error.strerror}; wanted a folder of yours") from error
    quoted = shlex.quote(str(file))
    return (
        f"{folder}: a pipeline file and {len(sample.depots)} simulated depots up to {last},\n"
        "with a few mistakes for the contract to catch. Next:\n"
        f"  forecaster check {quoted}   tries the sources against the contract\n"
        f"  forecaster run {quoted}     runs the night\n"
        f"  forecaster serve {quoted}   shows the page"
    )
