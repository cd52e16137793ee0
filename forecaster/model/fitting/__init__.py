"""Training the network: windows, compiled steps, devices, checkpoints, ensembles."""
