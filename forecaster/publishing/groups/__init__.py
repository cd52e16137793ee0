"""A publication made by groups of depots, each of which one worker reads, forecasts and rosters."""
