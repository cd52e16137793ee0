"""Several hosts train as one: they join, agree on what they train on, and part again.

The first host (0) is the one that runs the night; the others (`forecaster assist`) hold neither lake nor ledger. The
panel travels to them from the first host, so all train on the same numbers.
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
from forecaster.core.panel import Encoding, Panel
from forecaster.errors import SpecError, TrainingError

SILENT = 100  # seconds after which a host that says nothing counts as dead
_ARRAYS = ("days", "demand", "open", "covariates", "calendar", "calendar_group", "statics")


@dataclass(frozen=True)
class Hosts:
    """The processes that train together: where the first one listens, how many they are, and which one this is."""

    coordinator: str  # host:port
    count: int
    index: int  # from 0, which is the night's own

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise SpecError(f"this is host {self.index} of {self.count}, wanted 0 to {self.count - 1}")


def join(hosts: Hosts | None, *, patience: int = 300) -> None:
    """Make the devices of all hosts one mesh; call it before anything else of JAX. Alone, there is nothing to join.

    Raises TrainingError when JAX has already started or the coordinator's port is taken. When another host does not
    come within `patience` seconds, or dies later on, JAX ends this process (SIGABRT), which nobody can catch: join in
    a process that may die. The first host listens on all its addresses, unless JAX_COORDINATOR_BIND_ADDRESS says where.
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


def part() -> None:
    """Leave the other hosts, once all have come this far; what follows is computed alone."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]


def agreed(panel: Panel | None, spec: Spec) -> Panel:
    """The first host's panel, on every host; the others bring None.

    Raises SpecError, on every host, where their pipeline files want another training or their versions differ.
    """
    if panel is not None and jax.process_count() == 1:
        return panel
    told = repr((__version__, jax.__version__, spec.model, spec.training, spec.horizon)).encode()
    every = multihost_utils.process_allgather(np.frombuffer(hashlib.sha256(told).digest(), np.uint8))
    if other := [index for index, digest in enumerate(every) if (digest != every[0]).any()]:
        raise SpecError(
            f"on hosts {other} `model`, `training`, `horizon` or the installed versions differ from those on host 0: "
            "give all the same pipeline file and the same lock"
        )
    content = np.frombuffer(packed(panel), np.uint8) if panel is not None else np.zeros(0, np.uint8)
    size = int(_from_first(np.int32(content.size)))
    return unpacked(_from_first(content if content.size else np.zeros(size, np.uint8)).tobytes())


def agree(yes: bool) -> bool:
    """What the first host says, on every host: clocks differ, and what one does all must do."""
    return yes if jax.process_count() == 1 else bool(_from_first(np.int32(yes)))


def _from_first(value: Any) -> NDArray[Any]:
    return np.asarray(multihost_utils.broadcast_one_to_all(value))


def fetched(tree: Any) -> Any:
    """`tree` as NumPy arrays, each whole, wherever its parts lie; every host must ask."""
    return jax.tree.map(_fetched, tree)


def _fetched(leaf: Any) -> NDArray[Any]:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
    return np.asarray(leaf)


def packed(panel: Panel) -> bytes:
    """A panel as bytes that travel to another process."""
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


def unpacked(content: bytes) -> Panel:
    """What training reads of a panel: all but the marks, which a page names."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        return Panel(
            depot_ids=tuple(about["depot_ids"]),
            horizon=about["horizon"],
            encoding=Encoding.from_json(about["encoding"]),
            calendar_names=tuple(about["calendar_names"]),
            attributes={name: tuple(words) for name, words in about["attributes"].items()},
            **{name: file[name] for name in _ARRAYS},
        )
