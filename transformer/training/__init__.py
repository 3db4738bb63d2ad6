"""Trains a model: optimizer, train step, training loop."""
