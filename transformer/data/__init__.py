"""Reads text and images and makes batches of them; imports numpy, not jax."""
