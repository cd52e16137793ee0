"""Source code that a registered model contains: its loader and everything that the loader imports
from this package.

MLflow puts a model's code first on `sys.path`, where a package `forecaster` would shadow an
installed one of another version. The copy therefore has its own name, derived from its content.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import forecaster

PACKAGE = Path(forecaster.__file__).parent
_IMPORTED_NAME = re.compile(r"^( *(?:from|import) )forecaster(?=[. ])", re.M)


def write(folder: Path, module: str) -> tuple[Path, str]:
    """Write the code of a module into `folder`, as a package; return its folder, and the module's
    name in it."""
    files = {file.relative_to(PACKAGE): file.read_text("utf-8") for file in _imported_files(module)}
    files[Path("__init__.py")] = f'__version__ = "{forecaster.__version__}"\n'
    name = f"forecaster_{hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]}"
    for path, text in files.items():
        target = folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_IMPORTED_NAME.sub(rf"\g<1>{name}", text), "utf-8")
    return folder / name, module.replace(PACKAGE.name, name, 1)


def _imported_files(module: str) -> list[Path]:
    """Return the files of a module of this package, of its parent packages, and of their imports
    from this package."""
    names, files = [module], dict[str, Path]()
    while names:
        name = names.pop()
        if name not in files and (file := _file(name)) is not None:
            files[name] = file
            names += [name.rpartition(".")[0], *_imports(ast.parse(file.read_text("utf-8")))]
    return sorted(files.values())


def _file(name: str) -> Path | None:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.exists()), None)


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the imports of this package, except those for types only."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE.name:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)
