"""Inference on any CPU, from a bundle to a forecast: onnxruntime and NumPy, no JAX."""
