"""Export of the network: as an ONNX graph, and serialized for another process."""
