"""Pretraining: make the prior, from simulated networks and openly licensed panels.

`python -m forecaster.training.pretrain [FILE …] [--out FOLDER] [--steps N] [--simulated N] [--seed
N]`, or `make prior` for all of `LICENCES`; each FILE is the pipeline file of one of them. The last
`HELD_BACK` days of each panel are left out: models are compared and chosen on them, so a prior must
not have seen them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from forecaster import __version__
from forecaster.config import Spec, load
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.demand.synthetic.networks import PROMOTION, simulate
from forecaster.errors import ForecasterError, SpecError
from forecaster.model.export import to_onnx
from forecaster.model.fitting import devices, jax_setup, train
from forecaster.model.fitting.training_loop import Epoch
from forecaster.model.prior import store
from forecaster.training.pooling import pool

LICENCES: Mapping[str, str] = {
    "bayarea_bikeshare14": "Bay Area Bike Share, CC0 1.0",
    "chicago_l_stations": "City of Chicago data portal, by way of the R package modeldata, MIT",
    "melbourne_pedestrians": "City of Melbourne, CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)",
    "muenster_bike_counters": "Stadt Münster, Datenlizenz Deutschland – Namensnennung – Version 2.0 (https://www.govdata.de/dl-de/by-2-0)",
    "nyc_taxi_apps_geo": "toddwschneider/nyc-taxi-data, MIT",
}
"""Panels allowed for a prior, by the name of their pipeline, with their publisher and license."""
# days: the last eight weeks, which are only reported, and the eight before, on which choices are
# made
HELD_BACK = 112
PIECE = 900  # days of a history in one piece
DEPOTS, SIMULATED, STEPS, SEED = 24, 40, 1350, 1
EPOCHS, BATCH, MEMBERS = 30, 32, 2
LEAST_REPORTED = 0.5  # smallest share of depots with a reading on a panel's last day


def pretrain(
    open_panels: Sequence[Panel],
    *,
    steps: int = STEPS,
    simulated: int = SIMULATED,
    seed: int = SEED,
    on_epoch: Any = None,
) -> Candidate:
    """Train a model for `steps` gradient steps on these panels and `simulated` simulated networks.

    The same arguments give the same parameters on one kind of processor. Raises TrainingError if it
    diverges.
    """
    networks = [simulate(seed * 1000 + number, depots=DEPOTS, days=PIECE) for number in range(simulated)]
    pooled = pool([*open_panels, *networks], days=PIECE, covariates=(PROMOTION,))
    model = train.fit(pooled, _spec(seed), steps=max(1, steps // EPOCHS), on_epoch=on_epoch)
    # Without durations, so that the same prior has the same bytes.
    return replace(model, summary={key: value for key, value in model.summary.items() if key not in to_onnx.VARYING})


def open_panel(file: Path) -> Panel:
    """Return the panel of an openly licensed dataset from its pipeline file, without its last
    `HELD_BACK` days.

    Raises SpecError for a dataset that is not in `LICENCES`.
    """
    spec = load(file)
    if spec.name not in LICENCES:
        raise SpecError(f"{file}: no licence is known of {spec.name!r}, wanted one of: {', '.join(LICENCES)}")
    with tempfile.TemporaryDirectory() as folder:
        spec, now = spec.model_copy(update={"lake": folder}), datetime.now(UTC)
        ingest(spec, now=now)
        panel = panels.build(read_as_of(spec, as_of=now), spec)
    is_known = np.isfinite(panel.demand) | ~panel.open[:, : panel.history]
    last = int(np.flatnonzero(is_known.mean(axis=0) >= LEAST_REPORTED)[-1])
    return panel.at(panel.cutoff - timedelta(days=panel.history - 1 - last + HELD_BACK))


def provenance(names: Sequence[str], open_panels: Sequence[Panel], model: Candidate, **settings: int) -> dict[str, Any]:
    """Return the provenance of a prior: its settings and panels, with licenses."""
    arguments = [
        *(f"--{name} {value}" for name, value in settings.items()),
        *(f"data/real/{name}.yaml" for name in names),
    ]
    return {
        "command": " ".join(["python -m forecaster.training.pretrain", *arguments]),
        "forecaster": __version__,
        "settings": {**settings, "epochs": EPOCHS, "batch": BATCH, "members": MEMBERS, "piece_days": PIECE},
        "loss": {name: float(f"{model.summary['history'][-1][name]:.6g}") for name in ("loss", "validation")},
        "panels": [
            {
                "name": name,
                "licence": LICENCES[name],
                "depots": len(panel.depot_ids),
                "first_day": str(panel.days[0]),
                "last_day": str(panel.cutoff),
            }
            for name, panel in zip(names, open_panels, strict=True)
        ],
    }


def _spec(seed: int) -> Spec:
    """Return the pipeline of a pretraining, with the default network, which pipelines that start
    from the prior have too."""
    training = {"seed": seed, "batch_depots": BATCH, "members": MEMBERS, "epochs": EPOCHS}
    return Spec.model_validate(
        {
            "name": "prior",
            "demand": {"source": {"kind": "csv", "path": "none.csv"}},
            "model": {"boosted": False},  # the prior is only a network
            "training": training,
        }
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m forecaster.training.pretrain", allow_abbrev=False)
    parser.add_argument("files", nargs="*", type=Path, help="pipeline files of openly licensed datasets")
    parser.add_argument("--out", type=Path, default=store.FOLDER, help="the folder; by default the package's own prior")
    parser.add_argument("--steps", type=int, default=STEPS, help="gradient steps")
    parser.add_argument("--simulated", type=int, default=SIMULATED, help="simulated networks")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _options(arguments)
    settings = {"steps": options.steps, "simulated": options.simulated, "seed": options.seed}
    try:
        open_panels = [open_panel(file) for file in options.files]
        devices.one_device_per_core()
        with tempfile.TemporaryDirectory() as cache:
            jax_setup.configure(Path(cache))
            model = pretrain(open_panels, **settings, on_epoch=_tell)
    except ForecasterError as error:
        print(error)
        return 1
    names = [load(file).name for file in options.files]
    digest = store.save(model, provenance(names, open_panels, model, **settings), options.out)
    print(f"{options.out / 'prior.npz'}: sha256 {digest}")
    return 0


def _tell(epoch: Epoch) -> None:
    print(f"epoch {epoch.number} of {epoch.of}: loss {epoch.loss:.5f}, validation {epoch.validation:.5f}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
