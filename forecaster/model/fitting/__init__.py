"""Training the network, in the order in which a training runs.

`jax_setup` keeps compiled programs, `devices` and `distributed` bring the devices and hosts
together, `training_plan` chooses the hyperparameters, `windows` puts the panel on the devices and
cuts crops from it, `compiled_steps` holds the compiled epoch and validation step, `training_loop`
runs them epoch by epoch, `checkpoints` saves the state after them, and `ensemble` weighs the
members. `train.fit` is all of this from a panel to a candidate.
"""
