"""Folders of Hugging Face: a module per family of models, which reads it, writes it or both."""
