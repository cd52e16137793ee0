"""Create or upgrade a pipeline's ledger to this version's revision: `python -m
forecaster.ledger.migrations FILE`.

Opening a ledger does the same; this is for installations that upgrade it before any program of a
new version runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from forecaster.config import load
from forecaster.errors import ForecasterError
from forecaster.ledger import connect
from forecaster.ledger.migrations.revision import REVISION


def main(file: Path) -> int:
    """Return 0 if the ledger is at this version's revision; print a sentence and return 1 if not."""
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
