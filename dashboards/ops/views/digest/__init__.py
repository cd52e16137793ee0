"""Morning digests of a depot, a city or the network, as mail, message, RSS item and calendar."""
