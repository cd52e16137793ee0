"""The network as ONNX, and as bytes that travel between processes."""
