"""Extracts the pins of given packages, with their hashes, from a common lock: the packages that an
image installs.

    python3 pins.py requirements.lock serve.txt > serve.lock

It runs during the build of an image, on a Python without other packages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_PIN = re.compile(r"(?m)^([a-z0-9][a-z0-9.-]*)(\[[^\]]*\])?==.*\n(?:[ ]+--hash=.*\n?)+")


def pins_of(lock: str, names: set[str]) -> str:
    """Return the lines of these packages, each once, in the format of pip's `--require-hashes`.

    Raises ValueError that names packages missing from the lock.
    """
    pins = {match[1]: match[0].replace(match[2] or "", "", 1) for match in _PIN.finditer(lock)}
    if missing := sorted(names - pins.keys()):
        raise ValueError(f"the lock does not pin {', '.join(missing)}: run `make lock`")
    return "".join(pins[name].rstrip("\n") + "\n" for name in sorted(names))


if __name__ == "__main__":
    _lock, _names = (Path(argument).read_text("utf-8") for argument in sys.argv[1:3])
    sys.stdout.write(pins_of(_lock, set(re.findall(r"(?m)^[a-z0-9][a-z0-9.-]*", _names))))
