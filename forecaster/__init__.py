"""From one pipeline file to tonight's demand forecast and roster, for every depot."""

__version__ = "0.1.0"
