"""Measure the memory of a running page: by mappings, allocator, cache and imported package.

`answer_lines` runs within the page's process. It only reads: each line that it receives is answered
with one line of JSON. All sizes are megabytes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from xml.etree import ElementTree

MEGA = 1 << 20
NO_CONTENT = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, threading.Thread)
Content = Callable[[], object]


def memory(pid: int, kind: str = "Rss") -> float:
    """Return the megabytes that a process holds now; with `Pss`, shared memory counts
    proportionally."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    match = re.search(rf"^{kind}:\s+(\d+) kB", rollup, re.M)
    assert match is not None
    return int(match[1]) / 1024


def watch(caches: Mapping[str, type]) -> dict[str, Content]:
    """Return for each cache a function that returns its instances; call this before the first
    instance is made."""
    return {name: _instances(cache) for name, cache in caches.items()}


def _instances(cache: Any) -> Content:
    alive: weakref.WeakSet[object] = weakref.WeakSet()
    plain = cache.__init__

    def recorded(self: object, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        alive.add(self)

    cache.__init__ = recorded
    return lambda: list(alive)


def answer_lines(caches: Mapping[str, Content]) -> None:
    """Answer the lines of standard input from a thread, until the input ends."""

    def answer() -> None:
        for _ in sys.stdin:
            print(json.dumps(memory_by_holder(caches)), flush=True)

    threading.Thread(target=answer, daemon=True).start()


def memory_by_holder(caches: Mapping[str, Content]) -> dict[str, float]:
    """Return megabytes by holder, and the numbers of threads and modules."""
    return {
        **_mappings(),
        **_python(),
        **_glibc(),
        **{f"cache: {name}": _size(content()) for name, content in caches.items()},
        "threads": float(threading.active_count()),
        "modules": float(len(sys.modules)),
    }


def _mappings() -> dict[str, float]:
    """Return resident memory: anonymous, and by the package whose files are mapped."""
    resident: Counter[str] = Counter()
    kind = ""
    for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
        if begin := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)", line):
            package = re.search(r"site-packages/(\w+?)(?:\.libs)?[/.]", begin[1])
            kind = package[1] if package else "anonymous" if begin[1] in ("", "[heap]", "[stack]") else "other files"
        elif line.startswith("Rss:"):
            resident[kind] += int(line.split()[1])
    return {f"mapped: {kind}": kilobytes / 1024 for kind, kilobytes in resident.most_common(9)}


def _python() -> dict[str, float]:
    """Return the arenas of Python's own allocator (objects of up to 512 bytes), and their used
    part."""
    with tempfile.TemporaryFile("w+") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        text = file.read()
    arenas = re.search(r"(\d+) arenas \* (\d+) bytes/arena", text)
    used = re.search(r"# bytes in allocated blocks\s+=\s+([\d,]+)", text)
    assert arenas is not None
    assert used is not None
    return {
        "Python's arenas": int(arenas[1]) * int(arenas[2]) / MEGA,
        "Python's arenas, used": int(used[1].replace(",", "")) / MEGA,
    }


def _glibc() -> dict[str, float]:
    """Return the arenas of the allocator of libraries and larger objects: their number, size and
    free part."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as file:
        stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        root = ElementTree.parse(file.name).getroot()
    total = {element.get("type"): int(element.get("size", 0)) for element in root.findall("total")}
    system = root.find("system[@type='current']")
    assert system is not None
    return {
        "glibc's arenas, number": float(len(root.findall("heap"))),
        "glibc's arenas": int(system.get("size", 0)) / MEGA,
        "glibc's arenas, free": (total.get("fast", 0) + total.get("rest", 0)) / MEGA,
        "glibc's own mappings": total.get("mmap", 0) / MEGA,
    }


def _size(content: object) -> float:
    """Return the megabytes of objects and everything that they refer to, except classes, modules
    and functions."""
    visited: set[int] = set()
    waiting, size = [content], 0
    while waiting:
        item = waiting.pop()
        if id(item) in visited or isinstance(item, NO_CONTENT):
            continue
        visited.add(id(item))
        size += sys.getsizeof(item)
        waiting += gc.get_referents(item)
    return size / MEGA


def language_tables() -> object:
    """Return the tables of languages that Babel has read, and our own catalogues."""
    babel = sys.modules.get("babel.localedata")
    catalogue = sys.modules["forecaster.core.language.catalogue"]
    ours = (catalogue._catalogue(code) for code in catalogue.LANGUAGES)
    return list(chain([babel and babel._cache], ours))
