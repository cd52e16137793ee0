"""Bring a pipeline's ledger to this version's revision, or make it: `python -m forecaster.ledger.migrations FILE`.

Whatever opens a ledger does so too; this is for installations that want it done before anything of a new version runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from forecaster.config import load
from forecaster.errors import ForecasterError
from forecaster.ledger import connect
from forecaster.ledger.migrations.revision import REVISION


def main(file: Path) -> int:
    """0 where the ledger is at this version's revision, 1 with a sentence where it is not."""
    try:
        spec = load(file)
        connect.writer(spec.ledger_url).dispose()
    except ForecasterError as error:
        print(f"forecaster: {error}", file=sys.stderr)
        return 1
    print(f"{spec.name}: the ledger is at revision {REVISION}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
