"""Ids and images in rows of fixed length, and batches of them."""
