"""Scores a trained model and reports the results."""
