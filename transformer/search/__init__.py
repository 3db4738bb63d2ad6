"""Beam search, greedy search and sampling over a step function, with slots that are refilled."""
