"""The prior: parameters that were pretrained on other networks' days, from which a training may
begin."""
