"""Folders of Marian itself, the system that trains OPUS-MT: decoder.yml beside an .npz file."""
