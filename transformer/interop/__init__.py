"""Weights of other systems in, and ours out: one module per format."""
