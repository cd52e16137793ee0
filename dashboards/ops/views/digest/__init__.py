"""Morning digests: what a depot, a city or the network has to expect, as mail, message, RSS item
and calendar."""
