"""Nothing is pickled: no code names a pickler, and none runs while a bundle is made, read and used."""

from __future__ import annotations

import ast
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.serving import bundle, bundle_archive
from forecaster.serving.numpy_model import ReferenceModel
from forecaster.serving.predict import Predictor
from forecaster.training import parity
from tests import panels
from tests.graphs import signer

ROOT = Path(__file__).resolve().parents[1]
PICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
FILES = [file for package in ("forecaster", "flows", "dashboards") for file in sorted((ROOT / package).rglob("*.py"))]


def picklers(source: str) -> Iterator[str]:
    """Yield the statements of a source file that can read or write a pickle."""
    for node in ast.walk(ast.parse(source)):
        names: list[str | None] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        yield from (f"line {node.lineno}: {name}" for name in names if name and name.partition(".")[0] in PICKLERS)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        refused = any(
            word.arg == "allow_pickle" and isinstance(word.value, ast.Constant) and word.value.value is False
            for word in node.keywords
        )
        if called in {"np.load", "numpy.load", "np.save", "np.lib.format.write_array"} and not refused:
            yield f"line {node.lineno}: {called} without allow_pickle=False"
        if called.endswith(("read_pickle", "to_pickle", "torch.load", "torch.save", "pyfunc.log_model")):
            yield f"line {node.lineno}: {called}"
        if any(word.arg == "allow_pickle" for word in node.keywords) and not refused:
            yield f"line {node.lineno}: allow_pickle"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import joblib.numpy_pickle",
        "from cloudpickle import dumps",
        "def f():\n    import _pickle",
        "np.load(file)",
        "np.load(file, allow_pickle=True)",
        "np.savez(file, allow_pickle=True)",
        "frame.to_pickle(path)",
        "torch.load(path)",
    ],
)
def test_the_search_finds_picklers(source: str) -> None:
    assert list(picklers(source))


def test_no_source_file_names_a_pickler() -> None:
    assert len(FILES) > 100
    picklers_by_file = {str(file.relative_to(ROOT)): list(picklers(file.read_text("utf-8"))) for file in FILES}
    assert {file: lines for file, lines in picklers_by_file.items() if lines} == {}


def test_an_export_and_a_prediction_pickle_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, graph, panel = panels.candidate(), panels.graph(), panels.panel()

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    with pytest.raises(AssertionError, match="pickled"):
        np.lib.format.write_array(io.BytesIO(), np.array([{}], object))
    about, weights = to_onnx.about(candidate), to_onnx.weights(candidate)
    with panels.quickly():
        parity.agree(candidate, graph, bundle.npz(weights), about, panel)
    folder = bundle.write(tmp_path / "bundles", graph, weights, about, signer())
    read = bundle.read(bundle_archive.pack(folder), (signer().public,))
    quantiles = Predictor(read)(panel).quantiles
    np.testing.assert_allclose(
        quantiles, ReferenceModel(read.weights, read.manifest)(panel.window(LOOKBACK)), rtol=1e-4
    )
