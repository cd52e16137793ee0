"""Reference of `import forecaster`, generated from its docstrings: a block of
docs/library-reference.md."""

from __future__ import annotations

import inspect
import re
from typing import Any

import forecaster

INSIDE = ("pipeline_content",)  # public only within this package
MADE_BY_CALLS = ("BacktestResult", "Pipeline")  # not constructed by users


def reference() -> str:
    """Return every public name of `import forecaster` with its docstring, and public methods below
    their class."""
    return "\n".join(_entry(name, getattr(forecaster, name)) for name in forecaster.__all__)


def _entry(name: str, value: Any) -> str:
    parts = [f"## {name}\n", _signature(name, value), _docstring(value)]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for method, member in vars(value).items():
            if not method.startswith("_") and inspect.getdoc(member) and method not in INSIDE:
                parts += [f"### {name}.{method}\n", _signature(f"{name}.{method}", member), _docstring(member)]
    return "\n".join(filter(None, parts))


def _signature(name: str, value: Any) -> str:
    """Return the signature, one parameter per line if it is too long for one line; empty if not
    callable."""
    if (
        isinstance(value, property)
        or name in MADE_BY_CALLS
        or (inspect.isclass(value) and issubclass(value, Exception))
    ):
        return ""
    signature = inspect.signature(getattr(value, "__func__", value))
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    words = [re.sub(r": '([^']+)'", r": \1", str(parameter)) for parameter in parameters]
    by_name = [place for place, parameter in enumerate(parameters) if parameter.kind is parameter.KEYWORD_ONLY]
    if by_name:
        words.insert(by_name[0], "*")
    line = f"{name}({', '.join(words)})"
    text = line if len(line) <= 100 else "".join([f"{name}(\n", *(f"    {word},\n" for word in words), ")"])
    return f"```text\n{text}\n```\n"


def _docstring(value: Any) -> str:
    """Convert a docstring to Markdown: its parameters as a list."""
    text, heading, parameters = (inspect.getdoc(value) or "").partition("\n\nParameters\n----------\n")
    listed = re.sub(r"^(?=\S)(.+?): ", r"- `\1`: ", parameters, flags=re.M)
    return f"{text}\n\n{listed}\n" if heading else f"{text}\n"
