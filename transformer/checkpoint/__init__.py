"""Saves, verifies, restores and exports the state of a run."""
