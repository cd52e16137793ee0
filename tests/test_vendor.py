"""Vendored files are byte-identical to their publication."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "vendor"


def test_vendored_files_match_the_lock_and_have_their_license() -> None:
    lock = json.loads((FOLDER / "lock.json").read_text("utf-8"))
    assert sorted(entry.name for entry in FOLDER.iterdir() if entry.is_dir()) == sorted(lock)
    for name, package in lock.items():
        here = {file.name: sha256(file.read_bytes()).hexdigest() for file in (FOLDER / name).iterdir()}
        assert here == package["files"]
        assert "LICENSE" in here
        assert package["integrity"].startswith("sha512-")
