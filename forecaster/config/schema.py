"""Describe the keys of the pipeline file in its JSON Schema, with the docstrings below them in our
own source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from forecaster.config.base import Section


def with_descriptions(schema: dict[str, Any], root: type[Section]) -> dict[str, Any]:
    """Return the JSON Schema of a section with a description of each key, also in nested sections."""
    sections = {section.__name__: section for section in (root, *_below(Section))}
    definitions = schema.get("$defs", {})
    described = {
        name: _with_key_descriptions(part, sections[name]) if name in sections else part
        for name, part in definitions.items()
    }
    return {**_with_key_descriptions(schema, root), **({"$defs": described} if described else {})}


def _below(section: type[Section]) -> Iterator[type[Section]]:
    for child in section.__subclasses__():
        yield child
        yield from _below(child)


def _with_key_descriptions(schema: dict[str, Any], section: type[Section]) -> dict[str, Any]:
    meanings: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, Section):
            meanings |= dict(_strings(base))
    keys = {
        key: {"description": meanings[key], **property_schema} if key in meanings else property_schema
        for key, property_schema in schema.get("properties", {}).items()
    }
    return {**schema, "properties": keys} if keys else schema


def _strings(section: type[Section]) -> Iterator[tuple[str, str]]:
    """Yield each attribute that has a docstring below it, with the docstring."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(tree, ast.ClassDef)
    for key, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and isinstance(below, ast.Expr)):
            continue
        if isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield key.target.id, inspect.cleandoc(below.value.value)
