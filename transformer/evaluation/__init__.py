"""A test set and what a translator makes of it: scores, counts, comparisons."""
