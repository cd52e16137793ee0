"""Names that code binds, and those that have no meaning: bare participles and pronouns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BARE = frozenset(
    {"told", "found", "said", "own", "each", "made", "seen", "shown", "kept", "known", "wanted", "named", "given"}
    | {"taken", "asked", "standing", "came", "held", "done", "one"}
)
# Fields of a message about an error: the value found, and the value wanted.
EXEMPT = {
    ("forecaster/config/data_rules.py", "wanted"),
}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a module binds (assigned, looped over, given as parameters, defined),
    each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def is_bare(name: str) -> bool:
    return name.strip("_") in BARE


def bare_share(folder: str) -> tuple[float, list[str]]:
    """Return the share of a folder's bound names that are bare, and their locations."""
    bound = [
        (file.relative_to(ROOT).as_posix(), line, name)
        for file in python_files(folder)
        for name, line in bound_names(ast.parse(file.read_text("utf-8")))
    ]
    bare = [f"{file}:{line} {name}" for file, line, name in bound if is_bare(name) and (file, name) not in EXEMPT]
    return len(bare) / max(len(bound), 1), bare
