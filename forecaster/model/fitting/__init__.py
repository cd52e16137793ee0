"""Training of the network; the modules in the order in which a training uses them.

`jax_setup` keeps compiled programs, `devices` and `distributed` set up the devices and hosts,
`training_plan` chooses the hyperparameters, `windows` puts the panel on the devices and cuts crops
from it, `compiled_steps` holds the compiled epoch and validation step, `training_loop` runs them
epoch by epoch, `checkpoints` saves the state after them, and `ensemble` weights the members.
`train.fit` combines all of this, from a panel to a candidate.
"""
