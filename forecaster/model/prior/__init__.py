"""The prior: parameters pretrained on the data of other networks, as a starting point of a
training."""
