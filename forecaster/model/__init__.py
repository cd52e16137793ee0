"""The model: JAX lives here and nowhere else."""

import os

# Before JAX is imported: else XLA prints a banner that asks for bug reports where it compiles for
# minutes on a busy machine. Its errors arrive as exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
