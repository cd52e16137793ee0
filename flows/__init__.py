"""Flows: Prefect orchestrates the steps; only this package depends on Prefect. Entry point of the
command `forecaster`."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the command line; if another distribution has overwritten the package `forecaster`, name
    it.

    Nothing can be imported from such a package, so this function is outside of it.
    """
    try:
        run = import_module("forecaster.cli.app").main
    except ImportError:
        from importlib.metadata import packages_distributions

        conflicts = sorted({*packages_distributions().get("forecaster", ())} - {"harbor-forecaster"})
        if not conflicts:
            raise
        sys.exit(
            f"The package `forecaster` was overwritten by another distribution: pip uninstall {' '.join(conflicts)}, "
            "then install harbor-forecaster anew (pip install --force-reinstall --no-deps WHEEL)."
        )
    run()
