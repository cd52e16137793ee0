"""The model: JAX lives here and nowhere else."""
