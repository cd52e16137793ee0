"""Execute the cells of notebooks in order, in a separate process, and render their outputs.

Notebooks are committed without outputs, so that none can be outdated: `make docs` executes them for
the site, and a test does so with the wheel. A cell is plain Python; its last expression is shown as
in a notebook: `_repr_html_`, a figure, or its `repr`. Jupyter's additions to Python (magics,
`!commands`, `display`) are not supported.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"


def cells(notebook: str) -> Iterator[tuple[str, str]]:
    """Yield kind (`markdown` or `code`) and text of each cell."""
    for cell in json.loads(notebook)["cells"]:
        yield cell["cell_type"], "".join(cell["source"])


def outputs(notebooks: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[list[str]]:
    """Return the output of each code cell of each notebook, as Markdown. One process executes them
    all, which imports and compiles once; names are not shared between notebooks. Raises
    RuntimeError with the traceback of a failing cell."""
    with tempfile.TemporaryDirectory() as folder:  # a notebook's files are removed afterwards
        command = [sys.executable, str(Path(__file__).resolve())]
        process = subprocess.run(
            command,
            input=json.dumps(notebooks),
            capture_output=True,
            text=True,
            cwd=folder,
            env=dict(environment),
            check=False,
        )
    if process.returncode != 0:
        raise RuntimeError(process.stderr)
    shown: list[list[str]] = json.loads(process.stdout)
    return shown


def markdown(notebook: str) -> str:
    """Render a notebook as a page: its text, its code, and the outputs of a fresh execution."""
    results = iter(outputs([notebook])[0])
    parts = []
    for kind, text in cells(notebook):
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```\n\n{next(results)}")
    return "\n\n".join(parts) + "\n"


def show(value: Any) -> str:
    """Render a value as a notebook shows it."""
    if hasattr(value, "savefig"):
        png = io.BytesIO()
        value.savefig(png, format="png", dpi=100)
        picture = base64.b64encode(png.getvalue()).decode()
        return f'```{{raw}} html\n<img src="data:image/png;base64,{picture}" alt="the figure that the cell made">\n```'
    if hasattr(value, "_repr_html_"):
        return f"````{{raw}} html\n{value._repr_html_()}\n````"
    return f"```text\n{value!r}\n```"


def execute(code: str, names: dict[str, Any]) -> str:
    """Execute a cell in the namespace of earlier cells; returns its printed output and its value."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    text = f"```text\n{printed.getvalue().rstrip()}\n```" if printed.getvalue() else ""
    return "\n\n".join(part for part in (text, "" if value is None else show(value)) if part)


def main() -> int:
    shown = []
    for notebook in json.load(sys.stdin):
        names: dict[str, Any] = {"__name__": "__main__"}
        shown.append([execute(text, names) for kind, text in cells(notebook) if kind == "code"])
    print(json.dumps(shown))
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, which notebooks must not import from
    sys.exit(main())
