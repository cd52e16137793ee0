"""Lines are traceable: each step is declared once, typed, and its declaration names the module of
its work."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec

import pytest

from flows import lines, protocol, steps

STEPS = [
    name for name, member in vars(protocol.Steps).items() if inspect.isfunction(member) and not name.startswith("_")
]


def test_the_steps_of_a_night_are_those_of_the_protocol() -> None:
    called = set(re.findall(r"\bsteps\.(\w+)\(", inspect.getsource(lines)))
    assert called == set(STEPS)
    assert len(STEPS) == 15


@pytest.mark.parametrize("step", STEPS)
def test_the_declaration_of_a_step_names_the_module_of_its_work(step: str) -> None:
    places = re.findall(r"`(forecaster\.[\w.]+)`", inspect.getdoc(getattr(protocol.Steps, step)) or "")
    assert len(places) == 1
    [place] = places
    assert find_spec(place) is not None, place
    plain = inspect.getsource(getattr(steps, step))
    assert f"def {step}(" in plain


def test_plain_steps_have_the_declared_parameters() -> None:
    for step in STEPS:
        declared = [p for p in inspect.signature(getattr(protocol.Steps, step)).parameters if p != "self"]
        plain = list(inspect.signature(getattr(steps, step)).parameters)
        assert plain[: len(declared)] == declared, step
