"""From quantiles to crews: newsvendor, vans, rosters and what they would have cost."""
