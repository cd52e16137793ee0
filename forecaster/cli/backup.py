"""Commands for backup and restore of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli.options import File, print_line


def backup(
    file: File,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Also copy the keys that sign and decrypt bundles: protect the backup as you protect the keys.",
        ),
    ] = False,
) -> None:
    """Copy ledger, lake, bundles and reports into a folder.

    A run may be at work meanwhile. The databases of MLflow and Prefect are not included.
    """
    from forecaster.config import load
    from forecaster.operations import backup as backups

    print_line(backups.backup(load(file), to, secret_keys=keys).sentence())


def restore(
    file: File,
    folder: Annotated[Path, typer.Option("--from", metavar="DIR", help="A folder that `forecaster backup` made.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the ledger, lake and bundles there.")] = False,
) -> None:
    """Restore ledger, lake, bundles and reports from a folder.

    Fails if there is existing data, unless --replace is given: also a ledger that is damaged or of
    a later version, whose file is renamed. The ledger may be in another database than the one
    backed up.
    """
    from forecaster.config import load
    from forecaster.operations import restore as restores

    print_line(restores.restore(load(file), folder, replace=replace, remark=print_line).sentence())
