"""Multi-host training: hosts join, agree on the configuration and data, and leave.

The first host (0) runs the night; the others (`forecaster assist`) have neither lake nor ledger.
They receive the panel from the first host, so all train on the same numbers.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from numpy.typing import NDArray

from forecaster import __version__
from forecaster.config import Spec
from forecaster.config.model import HOSTS_PATIENCE
from forecaster.core.panel import Encoding, Panel
from forecaster.errors import SpecError, TrainingError

SILENT = 100  # seconds without a heartbeat after which a host counts as dead
_ARRAYS = ("days", "demand", "open", "covariates", "calendar", "calendar_group", "statics")


@dataclass(frozen=True)
class HostGroup:
    """The processes that train together: address of the first one, their number, and the index of
    this one."""

    coordinator: str  # host:port
    count: int
    index: int  # from 0, the host that runs the night

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise SpecError(f"this is host {self.index} of {self.count}, wanted 0 to {self.count - 1}")


def join(hosts: HostGroup | None, *, patience: int = HOSTS_PATIENCE) -> None:
    """Join the devices of all hosts into one mesh; call it before any other use of JAX. Does
    nothing for a single host.

    Raises TrainingError if JAX has already started or the coordinator's port is taken. If another
    host does not arrive within `patience` seconds, or dies later, JAX ends this process (SIGABRT),
    which cannot be caught: join in a process that may die. The first host listens on all its
    addresses, unless JAX_COORDINATOR_BIND_ADDRESS names one.
    """
    if hosts is None or hosts.count == 1 or jax.distributed.is_initialized():
        return
    try:
        jax.distributed.initialize(
            hosts.coordinator,
            hosts.count,
            hosts.index,
            initialization_timeout=patience,
            heartbeat_timeout_seconds=SILENT,
            cluster_detection_method="deactivate",
        )
    except RuntimeError as error:
        raise TrainingError(
            f"host {hosts.index} of {hosts.count} could not join at {hosts.coordinator}: {error}; "
            "join first, before anything else of JAX, and on a port that is free"
        ) from error


def leave() -> None:
    """Leave the other hosts once all have reached this point; later computations are local."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]


def broadcast_panel(panel: Panel | None, spec: Spec) -> Panel:
    """Broadcast the first host's panel to every host; the others pass None.

    Raises SpecError, on every host, if their pipeline files declare different trainings or their
    versions differ.
    """
    if panel is not None and jax.process_count() == 1:
        return panel
    configuration = repr((__version__, jax.__version__, spec.model, spec.training, spec.horizon)).encode()
    digests = multihost_utils.process_allgather(np.frombuffer(hashlib.sha256(configuration).digest(), np.uint8))
    if differing := [index for index, digest in enumerate(digests) if (digest != digests[0]).any()]:
        raise SpecError(
            f"on hosts {differing} `model`, `training`, `horizon` or the installed versions differ from those on "
            "host 0: give all the same pipeline file and the same lock"
        )
    return panel_from_bytes(_bytes_from_first(panel_to_bytes(panel) if panel is not None else b""))


def broadcast_lead_error(spec: Spec) -> Spec:
    """Return the pipeline with the first host's errors of reports, which it has learned from the
    lake."""
    if jax.process_count() == 1:
        return spec
    content = json.dumps(dict(spec.calendar.lead_error)).encode() if jax.process_index() == 0 else b""
    return spec.with_lead_error(json.loads(_bytes_from_first(content)))


def broadcast_flag(flag: bool) -> bool:
    """Broadcast the first host's flag to every host: clocks differ, and all hosts must act alike."""
    return flag if jax.process_count() == 1 else bool(_from_first(np.int32(flag)))


def _bytes_from_first(content: bytes) -> bytes:
    """Return the first host's non-empty bytes; the other hosts pass none."""
    size = int(_from_first(np.int32(len(content))))
    return _from_first(np.frombuffer(content or bytes(size), np.uint8)).tobytes()


def _from_first(value: Any) -> NDArray[Any]:
    return np.asarray(multihost_utils.broadcast_one_to_all(value))


def to_numpy(tree: Any) -> Any:
    """Gather `tree` as whole NumPy arrays, wherever the parts are; every host must call it."""
    return jax.tree.map(_leaf_to_numpy, tree)


def _leaf_to_numpy(leaf: Any) -> NDArray[Any]:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
    return np.asarray(leaf)


def panel_to_bytes(panel: Panel) -> bytes:
    """Serialize a panel for another process, as npz; nothing is pickled."""
    about = {
        "depot_ids": panel.depot_ids,
        "horizon": panel.horizon,
        "encoding": panel.encoding.to_json(),
        "calendar_names": panel.calendar_names,
        "attributes": dict(panel.attributes),
    }
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(file, about=text, **{name: getattr(panel, name) for name in _ARRAYS})
    return file.getvalue()


def panel_from_bytes(content: bytes) -> Panel:
    """Deserialize the parts of a panel that training reads: everything except the marks."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        return Panel(
            depot_ids=tuple(about["depot_ids"]),
            horizon=about["horizon"],
            encoding=Encoding.from_json(about["encoding"]),
            calendar_names=tuple(about["calendar_names"]),
            attributes={name: tuple(values) for name, values in about["attributes"].items()},
            **{name: file[name] for name in _ARRAYS},
        )
