"""A publication made by groups of depots; one worker reads, forecasts and rosters each group."""
