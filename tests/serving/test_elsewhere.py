"""The documented script runs a bundle with onnxruntime and NumPy alone, and gets our numbers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.serving import bundle
from forecaster.serving.numpy_model import ReferenceModel
from tests import panels
from tests.graphs import signer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bundle.md").read_text("utf-8")
SECTION = PAGE.split("## Use the bundle from another language")[1].split("\n## ")[0]


def test_the_documented_script_says_what_we_say(tmp_path: Path) -> None:
    [script] = re.findall(r"```python\n(.*?)```", SECTION, re.S)
    (tmp_path / "script.py").write_text(script, "utf-8")
    imported = {
        name.name for line in ast.walk(ast.parse(script)) if isinstance(line, ast.Import) for name in line.names
    }
    assert imported == {"json", "sys", "numpy", "onnxruntime"}
    candidate = panels.candidate()
    folder = bundle.write(tmp_path, panels.graph(), to_onnx.weights(candidate), to_onnx.about(candidate), signer())
    process = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "script.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    medians = [float(word) for word in process.stdout.strip().strip("[]").split()]
    read = bundle.read(folder, (signer().public,))
    inputs = {
        "demand": np.full((1, LOOKBACK), 120, np.float32),
        "open": np.ones((1, LOOKBACK + 3), np.float32),
        "covariates": np.zeros((1, LOOKBACK + 3, 1), np.float32),
        "calendar": np.zeros((1, LOOKBACK + 3, 6), np.float32),
        "statics": np.ones((1, 2), np.int32),
    }
    np.testing.assert_allclose(medians, ReferenceModel(read.weights, read.manifest)(inputs)[0, :, 1], rtol=1e-4)


def test_the_page_names_every_input_of_a_graph() -> None:
    assert re.findall(r"^\| `(\w+)` \|", SECTION, re.M) == to_onnx.about(panels.candidate())["inputs"]
