"""From quantiles to crews: newsvendor, vans, rosters and their costs in hindsight."""
