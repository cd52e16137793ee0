"""GRU as a native XLA custom call (FFI): `gru_cpu.cc`, compiled for this processor if there is a
C++ compiler.

As XLA operations, a day's gates enter and leave memory several times; in one loop they stay in the
registers, and a training step takes half the time (`make bench-speed`). The compiler is the one
named by the variable CXX, else `c++`, `g++` or `clang++`; without one, or with `CXX=` (empty), the
scan of `gru` computes the same, up to rounding. The compiled library lies among JAX's compiled
programs, named by everything that it depends on and by its own digest.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

SOURCE = Path(__file__).with_suffix(".cc")
FOLDER = "gru_cpu"  # among JAX's compiled programs
WIDE = 16  # units are a multiple of this: the longest float32 vector of a processor
_NAMES = ("forecaster_gru_states", "forecaster_gru_forward", "forecaster_gru_backward")
_COMPILE_TIMEOUT = 120.0  # seconds for the compiler, which takes four


def serves(hidden: int, dtype: jnp.dtype) -> bool:
    """Return True if this recurrence supports `hidden` units in that precision on JAX's devices;
    compiles it on the first call."""
    return dtype == jnp.float32 and hidden % WIDE == 0 and jax.default_backend() == "cpu" and ready()


@cache
def ready() -> bool:
    """Return True if the compiled recurrence is available. Warns if a compiler exists but cannot
    compile it."""
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
    """Return the C++ compiler, possibly with options, from CXX or by search; None if there is none."""
    candidates = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    return next(
        (candidate for candidate in candidates if candidate.strip() and shutil.which(shlex.split(candidate)[0])), None
    )


def _command(compiler_command: str) -> list[str]:
    """Return the compiler command without file names."""
    native = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    flags = ["-std=c++17", "-O3", native, "-w", "-fPIC", "-shared", "-isystem", jax.ffi.include_dir()]
    return [*shlex.split(compiler_command), *flags]


def _load_library(command: list[str]) -> ctypes.CDLL:
    """Load the library; a damaged one is compiled again."""
    return ctypes.CDLL(str(_compiled_library(command)))


def _compiled_library(command: list[str]) -> Path:
    """Return the library for this processor, in a private folder among JAX's compiled programs, or
    in a temporary folder of this process.

    Its name ends with the SHA-256 of its content: a library with other content is not loaded, but
    compiled again.
    """
    folder = _private_folder()
    # Without the path of the headers: checkouts share the library, and jaxlib's version identifies
    # the headers.
    options = [option for option in command if option != jax.ffi.include_dir()]
    digest = hashlib.sha256(repr((options, version("jaxlib"), processor())).encode() + SOURCE.read_bytes())
    name = f"gru_cpu-{digest.hexdigest()[:16]}"
    for library in sorted(folder.glob(f"{name}-*.so")):
        if library.name == f"{name}-{_content_digest(library)}.so":
            with suppress(OSError):
                os.utime(library)  # in use: its retention restarts
            return library
        library.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="compiles-") as temporary:
        unfinished = Path(temporary) / f"{name}.so"
        call = [*command, str(SOURCE), "-o", str(unfinished)]
        subprocess.run(call, check=True, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT)
        library = folder / f"{name}-{_content_digest(unfinished)}.so"
        unfinished.replace(library)  # atomic, even if another process compiles it at the same time
    return library


def _content_digest(library: Path) -> str:
    try:
        with library.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def _private_folder() -> Path:
    """Return a folder that only this user may write to, because its content runs in this process.
    Nothing is kept in a folder of another user."""
    cache_folder: str | None = jax.config.values["jax_compilation_cache_dir"]
    if cache_folder is None:
        return _temporary_folder()
    folder = Path(cache_folder) / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.lstat()
    except OSError:
        return _temporary_folder()
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if is_private else _temporary_folder()


_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when Python ends


def _temporary_folder() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="gru_cpu-"))
    return Path(_folders[-1].name)


def processor() -> str:
    """Return an identity shared by processors with the same instructions, because machines may
    share folders of programs."""
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
    """Compute the states after each day, without a gradient."""
    call = jax.ffi.ffi_call(_NAMES[0], _like(x, kernel_h.shape[0]), vmap_method="sequential")
    after_days: Array = call(x, bias_i, kernel_i, kernel_h)
    return after_days


def forward(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> tuple[Float[Array, "days depots hidden"], Float[Array, "days depots residuals"]]:
    """Compute the states and, side by side, the values that the gradient needs of every day: r, z,
    n and m."""
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
    """Compute the gradients with respect to each gate's input from x on every day, the kernel of x,
    the bias, and the kernel of h."""
    gates = kernel_h.shape[1]
    shapes = (_like(x, gates), _of(x.shape[2], gates), _of(x.shape[1], gates), _of(*kernel_h.shape))
    call = jax.ffi.ffi_call(_NAMES[2], shapes, vmap_method="sequential")
    by_x, d_kernel_i, d_bias, d_kernel_h = call(gradient, x, kernel_h, states, residuals)
    return by_x, d_kernel_i, d_bias, d_kernel_h


def _like(x: Array, width: int) -> jax.ShapeDtypeStruct:
    return _of(*x.shape[:2], width)


def _of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
