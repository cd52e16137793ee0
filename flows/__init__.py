"""The nights: Prefect orders the steps, and nothing else knows Prefect. The command `forecaster`
starts here."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the command line, and name the distribution that has overwritten the package
    `forecaster`, if one has.

    Of such a package nothing can be imported, so that this stands outside of it.
    """
    try:
        run = import_module("forecaster.cli.app").main
    except ImportError:
        from importlib.metadata import packages_distributions

        others = sorted({*packages_distributions().get("forecaster", ())} - {"harbor-forecaster"})
        if not others:
            raise
        sys.exit(
            f"The package `forecaster` was overwritten by another distribution: pip uninstall {' '.join(others)}, "
            "then install harbor-forecaster anew (pip install --force-reinstall --no-deps WHEEL)."
        )
    run()
