"""The pins of some packages, with their hashes, out of a lock of all: what an image installs.

    python3 pins.py requirements.lock serve.txt > serve.lock

It runs while an image is built, on a Python that has nothing else yet.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_PIN = re.compile(r"(?m)^([a-z0-9][a-z0-9.-]*)(\[[^\]]*\])?==.*\n(?:[ ]+--hash=.*\n?)+")


def pins_of(lock: str, names: set[str]) -> str:
    """The lines of those packages, each once, as pip's `--require-hashes` wants them.

    Raises ValueError that names a package which the lock does not pin.
    """
    pins = {match[1]: match[0].replace(match[2] or "", "", 1) for match in _PIN.finditer(lock)}
    if missing := sorted(names - pins.keys()):
        raise ValueError(f"the lock does not pin {', '.join(missing)}: run `make lock`")
    return "".join(pins[name].rstrip("\n") + "\n" for name in sorted(names))


if __name__ == "__main__":
    _lock, _names = (Path(argument).read_text("utf-8") for argument in sys.argv[1:3])
    sys.stdout.write(pins_of(_lock, set(re.findall(r"(?m)^[a-z0-9][a-z0-9.-]*", _names))))
