"""Project scaffolding (`forecaster init`): a commented pipeline file and the Harbor Fleet sample up
to yesterday."""

from __future__ import annotations

import shlex
from datetime import date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import yaml

from forecaster.errors import SpecError
from forecaster.publishing import caveats

# time after local midnight by which the sample's source delivers the day before
EXPORTED = timedelta(hours=2)


def create(folder: Path, *, end: date | None = None, from_prior: bool = False) -> str:
    """Write pipeline.yaml, demand.csv, depots.csv and events.csv; return the next steps as text.

    The sample ends with `end`, or with the last day that its source would have delivered by now.
    With `from_prior` its training starts from the prior, which forecasts until a model is trained.
    Raises SpecError if the day is not over, or the folder is not empty or not writable.
    """
    from forecaster.demand.sample import simulate

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise SpecError(f"{folder}: exists and is not an empty folder; wanted a new one")
        template = files("forecaster.operations").joinpath("starter.yaml").read_text("utf-8")
        zone = ZoneInfo(yaml.safe_load(template)["timezone"])
        now = datetime.now(zone)
        last = end or (now - EXPORTED).date() - timedelta(days=1)
        if last >= now.date():
            over = now.date() - timedelta(days=1)
            raise SpecError(f"--end: found {last}, wanted a day that is over in {zone.key}, such as {over}")
        sample = simulate.simulate(end=last)
        folder.mkdir(parents=True, exist_ok=True)
        simulate.write(sample, folder)
        file = folder / "pipeline.yaml"
        start = "training: {start: prior, " if from_prior else "training: {"
        file.write_text(template.replace("training: {", start), "utf-8")
    except OSError as error:
        raise SpecError(f"{folder}: cannot be written: {error.strerror}; wanted a folder of yours") from error
    quoted = shlex.quote(str(file))
    as_of = f" --as-of {last + timedelta(days=1)}" if caveats.is_archive(last, now.date()) else ""
    return (
        f"{folder}: a pipeline file and {len(sample.depots)} simulated depots up to {last},\n"
        "with a few mistakes for the contract to catch. Next:\n"
        f"  forecaster check {quoted}{as_of}   tries the sources against the contract\n"
        f"  forecaster run {quoted}{as_of}     runs the night\n"
        f"  forecaster serve {quoted}   shows the page"
    )
