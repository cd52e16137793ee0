"""Simulated panels of many kinds of networks, from which a prior is learned."""
