"""The model: the only package that uses JAX."""

import os

# Set before JAX is imported: otherwise XLA prints a banner that asks for bug reports when a
# compilation takes minutes on a busy machine. Its errors still arrive as exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
