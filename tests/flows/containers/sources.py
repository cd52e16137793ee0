"""Digest of an image's sources; `python -m tests.flows.containers.sources` prints it."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("forecaster", "flows", "dashboards", "pyproject.toml", "requirements.lock")


def digest() -> str:
    """Return the SHA-256 of the names and contents of all files that an image takes from this
    checkout."""
    content = hashlib.sha256()
    for part in PARTS:
        for file in sorted([ROOT / part, *(ROOT / part).rglob("*")]):
            if file.is_file() and "__pycache__" not in file.parts:
                content.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return content.hexdigest()


if __name__ == "__main__":
    print(digest())
