"""Corpora of any size: chunk by chunk, on several hosts, and on from where they were stopped."""
