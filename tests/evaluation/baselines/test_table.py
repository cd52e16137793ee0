"""The baselines are rows of one table: name in the pipeline file, module, and required package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from forecaster.config.model import BASELINES
from forecaster.evaluation import baselines

FOLDER = Path(baselines.__file__).parent


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_the_function_of_its_name_in_its_module(name: str) -> None:
    module = ast.parse((FOLDER / f"{BASELINES[name].module}.py").read_text("utf-8"))
    assert name in [node.name for node in module.body if isinstance(node, ast.FunctionDef)]


def test_the_declarable_names_are_those_of_the_table() -> None:
    assert tuple(BASELINES) == baselines.NAMES
