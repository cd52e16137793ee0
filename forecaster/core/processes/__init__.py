"""Processes that work for another one: end them with it, and measure their use of resources."""
