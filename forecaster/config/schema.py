"""What the pipeline file's keys mean, taken from the strings below them in our own source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from forecaster.config.base import Section


def described(schema: dict[str, Any], root: type[Section]) -> dict[str, Any]:
    """The JSON Schema of a section with the meaning of each key, in the sections below it as well."""
    known = {each.__name__: each for each in (root, *_below(Section))}
    definitions = schema.get("$defs", {})
    told = {name: _told(part, known[name]) if name in known else part for name, part in definitions.items()}
    return {**_told(schema, root), **({"$defs": told} if told else {})}


def _below(section: type[Section]) -> Iterator[type[Section]]:
    for each in section.__subclasses__():
        yield each
        yield from _below(each)


def _told(schema: dict[str, Any], section: type[Section]) -> dict[str, Any]:
    meant: dict[str, str] = {}
    for each in reversed(section.__mro__):
        if issubclass(each, Section):
            meant |= dict(_strings(each))
    keys = {
        key: {"description": meant[key], **said} if key in meant else said
        for key, said in schema.get("properties", {}).items()
    }
    return {**schema, "properties": keys} if keys else schema


def _strings(section: type[Section]) -> Iterator[tuple[str, str]]:
    """Each attribute below which a string stands, and the string."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(tree, ast.ClassDef)
    for key, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and isinstance(below, ast.Expr)):
            continue
        if isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield key.target.id, inspect.cleandoc(below.value.value)
