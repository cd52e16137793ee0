"""GRU as a native XLA custom call (FFI): `gru_cpu.cc`, compiled for this processor where it has a C++ compiler.

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
    compiler_command = compiler()
    if compiler_command is None:
        return False
    command = _command(compiler_command)
    try:
        library = _load_library(command)
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        warnings.warn(
            f"the recurrence is not compiled for this processor, so training takes longer: {shlex.join(command)}: "
            f"{message.strip()[-500:]}; set CXX to another compiler, or to nothing to do without one",
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
    candidates = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    return next(
        (candidate for candidate in candidates if candidate.strip() and shutil.which(shlex.split(candidate)[0])), None
    )


def _command(compiler_command: str) -> list[str]:
    """What compiles the source, but for the files' names."""
    native = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    flags = ["-std=c++17", "-O3", native, "-w", "-fPIC", "-shared", "-isystem", jax.ffi.include_dir()]
    return [*shlex.split(compiler_command), *flags]


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
    cache_folder: str | None = jax.config.values["jax_compilation_cache_dir"]
    folder = Path(cache_folder) if cache_folder else _temporary_folder()
    digest = hashlib.sha256(repr((command, version("jaxlib"), _processor())).encode() + SOURCE.read_bytes())
    library = folder / f"gru_cpu-{digest.hexdigest()[:16]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="gru_cpu-") as temporary:
            unfinished = Path(temporary) / library.name
            call = [*command, str(SOURCE), "-o", str(unfinished)]
            subprocess.run(call, check=True, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT)
            unfinished.replace(library)  # whole or not at all, whoever else compiles it just now
    return library


_folders: list[tempfile.TemporaryDirectory[str]] = []  # that are removed when Python ends


def _temporary_folder() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="gru_cpu-"))
    return Path(_folders[-1].name)


def _processor() -> str:
    """What tells processors apart that run different instructions: folders of programs may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    features = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join([platform.machine(), platform.processor(), *features])


def states(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> Float[Array, "days depots hidden"]:
    """The states after each day, where no gradient is asked for."""
    call = jax.ffi.ffi_call(_NAMES[0], _like(x, kernel_h.shape[0]), vmap_method="sequential")
    after_days: Array = call(x, bias_i, kernel_i, kernel_h)
    return after_days


def forward(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> tuple[Float[Array, "days depots hidden"], Float[Array, "days depots residuals"]]:
    """The states, and side by side what the gradient needs of every day: r, z, n and m."""
    hidden = kernel_h.shape[0]
    call = jax.ffi.ffi_call(_NAMES[1], (_like(x, hidden), _like(x, 4 * hidden)), vmap_method="sequential")
    after_days, residuals = call(x, bias_i, kernel_i, kernel_h)
    return after_days, residuals


def backward(
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
    states: Float[Array, "days depots hidden"],
    residuals: Float[Array, "days depots residuals"],
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
    by_x, d_kernel_i, d_bias, d_kernel_h = call(gradient, x, kernel_h, states, residuals)
    return by_x, d_kernel_i, d_bias, d_kernel_h


def _like(x: Array, width: int) -> jax.ShapeDtypeStruct:
    return _of(*x.shape[:2], width)


def _of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
