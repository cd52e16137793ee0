"""From a bundle to a forecast on any CPU: onnxruntime and NumPy, no JAX."""
