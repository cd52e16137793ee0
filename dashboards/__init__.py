"""Web applications: the depots' page, the inference service and the start guide."""
