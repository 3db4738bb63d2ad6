"""Corpora that are tokenised once, kept as arrays in files, and mapped into memory by every run."""
