"""The recurrence compiled for this machine's processor, where it has a C++ compiler: `gru_cpu.cc`, called by XLA.

As operations of XLA a day's gates leave and enter memory several times; in one loop of their own they stay in the
registers, and a step of training takes half the time (`make bench-speed`). The compiler is the one that the variable
CXX names, else `c++`, `g++` or `clang++`; without one, or with `CXX=` (empty), the scan of `gru` does the same work, to
rounding. What was compiled lies among JAX's compiled programs, named by all that it depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

SOURCE = Path(__file__).with_suffix(".cc")
WIDE = 16  # units are a multiple of this: the longest vector of a processor, in float32
_NAMES = ("forecaster_gru_states", "forecaster_gru_forward", "forecaster_gru_backward")
_COMPILE_TIMEOUT = 120.0  # seconds for the compiler, which takes four


def serves(hidden: int, dtype: jnp.dtype) -> bool:
    """Whether this recurrence is for so many units in that precision, on the devices that JAX computes on; compiles it
    the first time."""
    return dtype == jnp.float32 and hidden % WIDE == 0 and jax.default_backend() == "cpu" and ready()


@cache
def ready() -> bool:
    """Whether the compiled recurrence is at hand. Warns where there is a compiler that cannot compile it."""
    found = compiler()
    if found is None:
        return False
    command = _command(found)
    try:
        library = _load_library(command)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        warnings.warn(
            f"the recurrence is not compiled for this processor, so training takes longer: {shlex.join(command)}: "
            f"{told.strip()[-500:]}; set CXX to another compiler, or to nothing to do without one",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    for name in _NAMES:
        handler = jax.ffi.pycapsule(getattr(library, name))  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, handler, platform="cpu")
    return True


def compiler() -> str | None:
    """The C++ compiler, perhaps with options, as CXX names it or as it is found; None where there is none."""
    named = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    return next((each for each in named if each.strip() and shutil.which(shlex.split(each)[0])), None)


def _command(named: str) -> list[str]:
    """What compiles the source, but for the files' names."""
    this = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    told = ["-std=c++17", "-O3", this, "-w", "-fPIC", "-shared", "-isystem", jax.ffi.include_dir()]
    return [*shlex.split(named), *told]


def _load_library(command: list[str]) -> ctypes.CDLL:
    """The library, compiled anew where a disk has damaged it."""
    library = _compiled_library(command)
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        library.unlink(missing_ok=True)
        return ctypes.CDLL(str(_compiled_library(command)))


def _compiled_library(command: list[str]) -> Path:
    """The library for this processor, among JAX's compiled programs, or in a folder that goes with the process."""
    kept: str | None = jax.config.values["jax_compilation_cache_dir"]
    folder = Path(kept) if kept else _temporary_folder()
    named = hashlib.sha256(repr((command, version("jaxlib"), _processor())).encode() + SOURCE.read_bytes())
    library = folder / f"gru_cpu-{named.hexdigest()[:16]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="gru_cpu-") as beside:
            made = Path(beside) / library.name
            call = [*command, str(SOURCE), "-o", str(made)]
            subprocess.run(call, check=True, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT)
            made.replace(library)  # whole or not at all, whoever else compiles it just now
    return library


_folders: list[tempfile.TemporaryDirectory[str]] = []  # that are removed when Python ends


def _temporary_folder() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="gru_cpu-"))
    return Path(_folders[-1].name)


def _processor() -> str:
    """What tells processors apart that run different instructions: folders of programs may be shared by machines."""
    try:
        told = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        told = []
    known = [line for line in told if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join([platform.machine(), platform.processor(), *known])


def states(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> Float[Array, "days depots hidden"]:
    """The states after each day, where no gradient is asked for."""
    call = jax.ffi.ffi_call(_NAMES[0], _like(x, kernel_h.shape[0]), vmap_method="sequential")
    found: Array = call(x, bias_i, kernel_i, kernel_h)
    return found


def forward(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> tuple[Float[Array, "days depots hidden"], Float[Array, "days depots kept"]]:
    """The states, and side by side what the gradient needs of every day: r, z, n and m."""
    hidden = kernel_h.shape[0]
    call = jax.ffi.ffi_call(_NAMES[1], (_like(x, hidden), _like(x, 4 * hidden)), vmap_method="sequential")
    found, kept = call(x, bias_i, kernel_i, kernel_h)
    return found, kept


def backward(
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
    states: Float[Array, "days depots hidden"],
    kept: Float[Array, "days depots kept"],
    gradient: Float[Array, "days depots hidden"],
) -> tuple[
    Float[Array, "days depots gates"],
    Float[Array, "features gates"],
    Float[Array, "depots gates"],
    Float[Array, "hidden gates"],
]:
    """The gradients by what each gate takes from x on every day, by the kernel of x, by the bias, by that of h."""
    gates = kernel_h.shape[1]
    shapes = (_like(x, gates), _of(x.shape[2], gates), _of(x.shape[1], gates), _of(*kernel_h.shape))
    call = jax.ffi.ffi_call(_NAMES[2], shapes, vmap_method="sequential")
    by_x, d_kernel_i, d_bias, d_kernel_h = call(gradient, x, kernel_h, states, kept)
    return by_x, d_kernel_i, d_bias, d_kernel_h


def _like(x: Array, width: int) -> jax.ShapeDtypeStruct:
    return _of(*x.shape[:2], width)


def _of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
