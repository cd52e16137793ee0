"""Validation messages of a pipeline file: the line, what was found, what was wanted and the nearest
valid key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from forecaster.core.language.near_words import did_you_mean, nearest_word

# raised by PyYAML for a value that cannot exist
IMPOSSIBLE = (ValueError, TypeError, KeyError, AttributeError)
MOST_VALUES = 100_000  # in a pipeline file, with each alias expanded
MOST_DIGITS = 40  # in a whole number
Place = tuple[str, ...]  # keys that lead to a value; an element of a list by its index


def explain(file: Path, node: yaml.MappingNode, root: type[BaseModel], error: ValidationError | None) -> list[str]:
    """Return one sentence for each repeated key and each error that pydantic found, in order of
    lines.

    `node` is the composed file, `root` the model of the whole file.
    """
    lines = dict(_lines(node))
    mistakes = [(line, f"key '{_dotted(place)}' stands twice") for place, line in _repeated_keys(node)]
    for problem in error.errors() if error else ():
        nearest_place = place = _without_kinds(tuple(map(str, problem["loc"])))
        while nearest_place not in lines:
            nearest_place = nearest_place[:-1]
        mistakes.append((lines[nearest_place], _sentence(place, problem, root)))
    return [f"{file}:{line}: {sentence}" for line, sentence in sorted(mistakes, key=lambda mistake: mistake[0])]


def mistakes_in_values(
    root: type[BaseModel], error: ValidationError, names: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return one sentence for each error in values without a file. `names` maps a dotted key to the
    caller's name for it, and "" to the text before an unknown key."""
    return [_sentence(_without_kinds(tuple(map(str, p["loc"]))), p, root, names) for p in error.errors()]


def broken_yaml(file: Path, error: yaml.YAMLError) -> str:
    """Return a sentence about the line at which the file stops being valid YAML."""
    mark = getattr(error, "problem_mark", None)
    where = f"{file}:{mark.line + 1}" if mark else f"{file}"
    parts = [getattr(error, "context", None), getattr(error, "problem", None)]
    return f"{where}: not valid YAML: {': '.join(part for part in parts if part) or str(error).splitlines()[0]}"


def impossible_value(file: Path, text: str, error: Exception) -> str:
    """Return a sentence about a value that YAML reads as a date or number that does not exist, such
    as 2024-02-30; `text` is the content of the file."""
    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    for scalar in _scalars(root) if root else ():
        try:
            loader.construct_object(scalar)
        except IMPOSSIBLE:
            line, why = scalar.start_mark.line + 1, error
            # an internal error of the library, which would not help the reader
            if not isinstance(error, ValueError):
                why = ValueError(f"no {scalar.tag.rpartition(':')[2]}")
            return f"{file}:{line}: found {scalar.value}, which cannot be ({why}); wanted another value, or quotes"
    return f"{file}: found a value that YAML cannot hold ({error}); wanted it in quotes"


def excess(file: Path, root: yaml.Node) -> str:
    """Return a sentence about content beyond the limits, with its line: aliases that expand to too
    many values, or a whole number with too many digits; empty if there is none."""
    if line := _too_many_values(root):
        return (
            f"{file}:{line}: found aliases that expand to more than {MOST_VALUES:,} values, wanted at most so many in "
            "the whole file; write out what is meant"
        )
    for scalar in _scalars(root):
        if scalar.tag == "tag:yaml.org,2002:int" and len(scalar.value) > MOST_DIGITS:
            return (
                f"{file}:{scalar.start_mark.line + 1}: found {scalar.value[:MOST_DIGITS]}…, a whole number of "
                f"{len(scalar.value):,} characters; wanted at most {MOST_DIGITS}, or quotes"
            )
    return ""


def _too_many_values(root: yaml.Node) -> int | None:
    """Return the line of the first node that expands to more than `MOST_VALUES` values; None if no
    node does."""
    sizes: dict[int, int] = {}
    line: int | None = None

    def size(node: yaml.Node) -> int:
        nonlocal line
        if id(node) not in sizes:
            children = [] if isinstance(node, yaml.ScalarNode) else node.value
            if isinstance(node, yaml.MappingNode):
                children = [part for pair in children for part in pair]
            sizes[id(node)] = 1 + sum(map(size, children))
            if sizes[id(node)] > MOST_VALUES and line is None:
                line = node.start_mark.line + 1
        return sizes[id(node)]

    size(root)
    return line


def half_letters(file: Path, root: yaml.Node) -> str:
    """Return a sentence about a value with a lone surrogate, such as "\\uD800", which no file and
    no table can hold; empty if there is none."""
    for scalar in _scalars(root):
        try:
            scalar.value.encode()
        except UnicodeEncodeError:
            return (
                f"{file}:{scalar.start_mark.line + 1}: found {scalar.value!r}, which holds half a letter; wanted text"
            )
    return ""


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield every scalar below a node, each shared node once."""
    pending, visited = [node], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in visited:
            continue
        visited.add(id(current))
        if isinstance(current, yaml.ScalarNode):
            yield current
        elif isinstance(current, yaml.SequenceNode):
            pending += reversed(current.value)
        elif isinstance(current, yaml.MappingNode):
            pending += [part for pair in reversed(current.value) for part in reversed(pair)]


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return a hint at the nearest word; empty if none is near."""
    return did_you_mean(nearest_word(word, candidates))


def kind_of(source: type[BaseModel]) -> str | None:
    """Return the kind of a source model; None for other models."""
    field = source.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field else None


def _sentence(
    place: Place, problem: Mapping[str, Any], root: type[BaseModel], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    key, kind = _called(place, names), problem["type"]
    if kind == "extra_forbidden":
        keys = _keys(root, problem["loc"][:-1])
        section = f" in {_dotted(place[:-1])}" if len(place) > 1 else ""
        near = nearest(place[-1], keys)
        valid = f"{' Valid' if near else '; valid'} keys: {', '.join(keys)}"
        return f"{names.get('', '')}unknown key '{place[-1]}'{section}{near}{valid}"
    if kind == "invalid_key":
        return f"found {key} as a key, wanted a word; put it in quotes if it is meant"
    if kind == "missing":
        return f"'{key}' is missing"
    if kind == "union_tag_invalid":
        kinds, tag = [kind for kind in map(kind_of, _models(root, problem["loc"])) if kind], problem["ctx"]["tag"]
        return f"{key}.kind: found '{tag}', wanted one of {', '.join(kinds)}{nearest(tag, kinds)}"
    if kind == "value_error":
        return f"{key}: {problem['msg'].removeprefix('Value error, ')}"
    return f"{key}: found {_short(problem['input'])}, wanted {_wanted(place, problem, root)}"


def _wanted(place: Place, problem: Mapping[str, Any], root: type[BaseModel]) -> str:
    """Return a description of the wanted content."""
    kind, content = problem["type"], problem["input"]
    if kind == "union_tag_not_found" or (kind == "model_attributes_type" and place[-1] == "source"):
        return "a source such as {kind: csv, path: demand.csv}"
    if kind == "string_type" and not isinstance(content, Mapping | list | None):
        return "text; put it in quotes"
    if kind in {"model_type", "model_attributes_type"}:
        return f"a section with keys of {', '.join(_keys(root, problem['loc']))}"
    if kind == "string_pattern_mismatch":
        return f"text that matches {problem['ctx']['pattern']}"
    expected = re.sub(r"^\w+ should (be|have) |, unable to .*", "", problem["msg"])
    near = nearest(str(content), re.findall(r"'([^']+)'", expected)) if kind == "literal_error" else ""
    return expected + near


def _called(place: Place, names: Mapping[str, str]) -> str:
    """Return the dotted key of a place, with its longest named part replaced by the caller's name."""
    for length in range(len(place), 0, -1):
        if name := names.get(_dotted(place[:length])):
            return _dotted((name, *place[length:]))
    return _dotted(place)


def _without_kinds(place: Place) -> Place:
    """Return the place without kinds of sources: pydantic reports the kind as a key below `source`,
    and the file has no such key."""
    return tuple(part for index, part in enumerate(place) if not (index and place[index - 1] == "source"))


def _keys(root: type[BaseModel], place: Place) -> list[str]:
    """Return the valid keys at a place, which is spelled as pydantic reports it."""
    return sorted({name for model in _models(root, place) for name in model.model_fields})


def _models(root: type[BaseModel], place: Place) -> list[type[BaseModel]]:
    models = [root]
    for part in place:
        of_kind = [model for model in models if kind_of(model) == part]
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        models = of_kind or [nested for field in fields for nested in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _lines(node: yaml.Node, place: Place = ()) -> Iterator[tuple[Place, int]]:
    """Yield the place of every key with its line in the file, counted from 1."""
    if place == ():
        yield place, 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            child_place = (*place, str(key.value))
            yield child_place, key.start_mark.line + 1
            yield from _lines(value, child_place)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*place, str(index)), value.start_mark.line + 1
            yield from _lines(value, (*place, str(index)))


def _repeated_keys(node: yaml.Node, place: Place = ()) -> Iterator[tuple[Place, int]]:
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if key.value in keys:
                yield (*place, key.value), key.start_mark.line + 1
            keys.add(key.value)
            yield from _repeated_keys(value, (*place, key.value))


def _dotted(place: Place) -> str:
    return ".".join(place)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value) if isinstance(value, date) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
