"""Writes the dashboards as JSON files beside this one; a test fails where a committed one is not as it is made."""

from __future__ import annotations

import json
from pathlib import Path

from dashboards.grafana import debug, executive, on_call

FOLDER = Path(__file__).parent
BOARDS = {"executive": executive, "on_call": on_call, "debug": debug}


def made() -> dict[str, str]:
    """Name of a file → its content."""
    return {f"{name}.json": _json(module.content()) for name, module in BOARDS.items()}


def _json(content: object) -> str:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    return json.dumps(content, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    for name, content in made().items():
        (FOLDER / name).write_text(content, "utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
