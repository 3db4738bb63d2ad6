"""A search as one compiled program that runs with JAX alone."""
