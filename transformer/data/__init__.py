"""From files to batches in numpy: corpora, tokenizers, packing. Nothing here imports JAX."""
