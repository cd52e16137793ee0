"""Our extensions of the exporter are minimal, and its failures are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

from forecaster.errors import ExportError
from forecaster.model.export import exporter, to_onnx
from tests.model.export.test_to_onnx import plain


def test_the_first_graph_of_a_process_is_like_the_next_and_imports_only_needed_plugins() -> None:
    code = (
        "import sys; from tests.model.export import test_to_onnx as tests\n"
        "print(tests.to_onnx.to_graph(tests.plain()) == tests.plain_graph(), "
        "'jax2onnx.plugins.examples' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=500, check=False
    )
    assert process.stdout.split() == ["True", "False"], process.stderr


def test_a_value_is_found_by_its_own_graph() -> None:
    """Compared with the exporter's own search through the whole graph."""
    graph = ir.Graph([], [], nodes=[], initializers=[], opset_imports={"": 21})
    context = SimpleNamespace(builder=SimpleNamespace(graph=graph, inputs=graph.inputs, initializers=[], nodes=graph))
    elsewhere = ir.Graph([], [], nodes=[], opset_imports={"": 21})
    asked, constant, stranger = ir.Value(name="x"), ir.Value(name="c"), ir.Value(name="s")
    graph.inputs.append(asked)
    constant.const_value = ir.tensor([1.0], name="c")
    graph.initializers.add(constant)
    elsewhere.inputs.append(stranger)
    within, without, loose = (ir.node("Neg", [value]) for value in (asked, stranger, asked))
    for number, node in enumerate((within, without, loose)):
        node.outputs[0].name = f"negative {number}"  # a value with the same name would count as the same
    graph.append(within)
    elsewhere.append(without)
    values = [asked, constant, within.outputs[0], stranger, without.outputs[0], loose.outputs[0], ir.Value(name="y")]
    context.builder.initializers = [constant]
    assert [exporter._is_in_graph(context, value) for value in values] == [True] * 3 + [False] * 4
    assert [exporter._search_for_value(context, value) for value in values] == [True] * 3 + [False] * 4


def test_a_failed_export_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("no plugin for 'sort'")

    monkeypatch.setattr(exporter, "to_onnx", broken)
    with pytest.raises(ExportError, match=r"the model cannot be exported: KeyError: .*no plugin for 'sort'"):
        to_onnx.to_graph(plain())
