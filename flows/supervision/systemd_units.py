"""Systemd units for `forecaster up`: the service, and the unit that systemd starts if it gives up
(OnFailure)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from forecaster.config import Spec

_SERVICE = """\
# {folder}/{name}.service
[Unit]
Description=Forecaster: scheduler, registry and page of {pipeline}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=15min
StartLimitBurst=5
OnFailure={name}-failed.service

[Service]
Type=exec
ExecStart={up}
WorkingDirectory={working}
{account}Restart=on-failure
RestartSec=10
KillMode=mixed
TimeoutStopSec=2min
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy={target}
"""
_FAILED = """\
# {folder}/{name}-failed.service
[Unit]
Description=Tells that {name}.service has failed
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart={failed}
WorkingDirectory={working}
{account}TimeoutStartSec=1min
"""


def units(file: Path, spec: Spec, ports: Mapping[str, int], *, system: bool) -> Iterator[str]:
    """Yield the two units, for the user (`~/.config/systemd/user`) or the system
    (`/etc/systemd/system`).

    `forecaster up` restarts its parts by itself; systemd restarts `up`, and starts it at boot.
    """
    name = "forecaster-" + re.sub(r"[^A-Za-z0-9_.-]", "_", spec.name)
    options = [f"--{part}-port={port}" for part, port in ports.items()]
    python, pipeline_file = sys.executable, str(file.resolve())
    values = {
        "folder": "/etc/systemd/system" if system else "~/.config/systemd/user",
        "name": name,
        "pipeline": _escaped(spec.name),
        "up": _command(python, "-m", "forecaster", "up", pipeline_file, *options),
        "failed": _command(python, "-m", "forecaster.operations.heartbeat", pipeline_file),
        "working": _escaped(str(file.resolve().parent)),
        "account": f"User={_account(file)}\n" if system else "",
        "target": "multi-user.target" if system else "default.target",
    }
    yield _SERVICE.format_map(values)
    yield _FAILED.format_map(values)


def _command(*words: str) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Quote a word for systemd: in quotes if it has blanks or special characters, with `%` and `$`
    doubled."""
    text = _escaped(word).replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _account(file: Path) -> str:
    """Return the owner of the pipeline file, the only account that runs it."""
    import pwd

    owner = file.stat().st_uid if file.exists() else os.getuid()
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)
