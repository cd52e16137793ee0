"""A cache of compiled programs stays within its bounds, and what is used stays longest."""

from __future__ import annotations

import fcntl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.operations import compile_cache, retention

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)


def program(cache: Path, name: str, days_ago: float, size: int = 10) -> None:
    """As JAX keeps it; the file itself is always new, as one is that was copied to another volume."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{name}-cache").write_bytes(bytes(size))
    used = (NOW - timedelta(days=days_ago)).timestamp() * 1e9
    (cache / f"{name}-atime").write_bytes(int(used).to_bytes(8, "little"))


def names(cache: Path) -> set[str]:
    return {file.name for file in cache.rglob("*-*") if file.is_file()}


def test_what_was_not_used_for_long_goes_however_new_its_file_is(tmp_path: Path) -> None:
    program(tmp_path, "old", 31)
    program(tmp_path, "used", 29)
    program(tmp_path / "x86_64-1", "old", 31)
    assert compile_cache.tidy(tmp_path, before=LONG_AGO, most_bytes=1000) == 2
    assert names(tmp_path) == {"used-cache", "used-atime"}


def test_above_the_bound_the_least_recently_used_go_in_all_folders(tmp_path: Path) -> None:
    for days_ago, name in enumerate("abcd"):
        program(tmp_path / ("x86_64-1" if days_ago % 2 else "aarch64-2"), name, days_ago, size=92)  # and 8 of its note
    assert compile_cache.tidy(tmp_path, before=LONG_AGO, most_bytes=250) == 2
    assert names(tmp_path) == {"a-cache", "a-atime", "b-cache", "b-atime"}


def test_a_folder_that_is_not_there_has_no_programs(tmp_path: Path) -> None:
    assert compile_cache.tidy(tmp_path / "none", before=LONG_AGO, most_bytes=0) == 0


def test_it_waits_for_who_holds_the_lock(tmp_path: Path) -> None:
    program(tmp_path, "old", 31)
    released = threading.Event()
    with (tmp_path / compile_cache.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def release() -> None:
            released.set()
            fcntl.flock(lock, fcntl.LOCK_UN)

        timer = threading.Timer(0.3, release)
        timer.start()
        assert compile_cache.tidy(tmp_path, before=LONG_AGO, most_bytes=1000) == 1
        assert released.is_set()
        timer.join()


def test_a_lock_that_nobody_lets_go_of_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "LOCK_SECONDS", 0.2)
    program(tmp_path, "old", 31)
    with (tmp_path / compile_cache.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert compile_cache.tidy(tmp_path, before=LONG_AGO, most_bytes=1000) == 1


def test_maintain_tidies_the_folder_that_machines_share(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: fleet\ndemand: {source: {kind: csv, path: demand.csv}}\nexecution: {compile_cache: shared}\n", "utf-8"
    )
    spec = load(file)
    program(tmp_path / "shared" / "x86_64-1", "old", 31)
    program(tmp_path / "shared" / "x86_64-1", "used", 1)
    program(spec.paths.jax_cache, "of-before", 31)
    assert retention.tidy(spec, now=NOW, keep="none").caches == 2
    assert names(tmp_path / "shared") == {"used-cache", "used-atime"}
