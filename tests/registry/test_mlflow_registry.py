"""A night killed while it was sent to MLflow is sent again, without a second copy of its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TELL = """
import sys
from pathlib import Path
from forecaster.registry.mlflow_registry import Registry
from forecaster.registry.run_record import Record

folder = Path(sys.argv[1])
pictures = folder / "pictures"
pictures.mkdir()
(pictures / "epochs.png").write_bytes(b"a picture")
registry = Registry(f"sqlite:///{folder / 'mlflow.db'}", "fleet", folder / "artifacts")
record = Record("night-1", {"seed": 1}, {"mape": 0.1}, ({"loss": 0.1},), {"kind": "night"}, {}, None)
for _ in range(2):
    registry.log(record, folder, None, folder / "keys")
"""


def test_a_run_that_is_sent_again_replaces_its_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TELL, str(tmp_path)], check=True, timeout=180)
    (picture,) = (tmp_path / "artifacts").rglob("*.png")
    assert picture.read_bytes() == b"a picture"


def test_a_description_too_long_for_mlflow_is_cut_at_a_line() -> None:
    from forecaster.registry.mlflow_registry import LONGEST_DESCRIPTION, shortened

    whole = "\n".join(f"| slice {number} | 9.1 % |" for number in range(1000))
    cut = shortened(whole)
    assert len(cut) <= LONGEST_DESCRIPTION
    lines, _, rest = cut.partition("\n\n")
    assert whole.startswith(lines + "\n")
    assert rest.startswith("Cut here")
    assert shortened(whole[:LONGEST_DESCRIPTION]) == whole[:LONGEST_DESCRIPTION]
