"""Uses a trained model: translates, classifies and continues texts, also whole files."""

CHUNK_LINES = 8192  # of a text file, which are computed together and kept when a job is stopped
