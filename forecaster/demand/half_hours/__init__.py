"""Orders by half hour of local time, from which the shares of shifts are learned."""
