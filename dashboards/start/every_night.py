"""Commands to copy that run a project nightly: with cron, systemd, Prefect or a container."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.language import _

_UNITS = """\
mkdir -p ~/.config/systemd/user && cd ~/.config/systemd/user
cat >{name}.service <<'END'
[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={run}
END
cat >{name}.timer <<'END'
[Timer]
OnCalendar=*-*-* {hour}:{minute} {zone}
Persistent=true
[Install]
WantedBy=timers.target
END
systemctl --user enable --now {name}.timer"""


def commands(file: Path, spec: Spec) -> list[tuple[str, str, str]]:
    """Return name, meaning and command of each way."""
    folder = file.parent.resolve()
    program = [sys.executable, "-m", "forecaster"]
    run = shlex.join([*program, "run", str(folder / file.name), "--plain", "--due"])
    minute, hour = (part.zfill(2) for part in spec.schedule.cron.split()[:2])
    escaped = {"folder": str(folder).replace("%", "%%"), "run": run.replace("%", "%%").replace("$", "$$")}
    units = _UNITS.format(name=f"forecaster-{spec.name}", hour=hour, minute=minute, zone=spec.timezone, **escaped)
    volume = shlex.quote(f"{folder}:/srv/forecaster")
    return [
        (
            "cron",
            _("A line for “crontab -e”, by this machine’s clock. Missed nights are made up."),
            f"{spec.schedule.cron} {run}".replace("%", r"\%"),
        ),
        ("systemd", _("Copy this into a terminal once."), units),
        (
            "Prefect",
            _("It starts scheduler, worker, runs and this page, and stays up."),
            shlex.join([*program, "up", str(folder / file.name)]),
        ),
        (
            _("container"),
            _("One night; “make images” builds the image, and the folder belongs to user 10001."),
            f"podman run --rm --read-only --tmpfs /tmp --cap-drop all --memory 2g --volume {volume} "
            "localhost/forecaster:night",
        ),
    ]
