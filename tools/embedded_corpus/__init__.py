"""The generator of the embedded parallel corpus; run tools/make_embedded_corpus.py."""
