"""What passes between the packages: arrays, panel, marks, forecast, knowledge, and helpers that
know nothing else."""
