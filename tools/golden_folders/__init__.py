"""Makers of small models in foreign formats; run tools/make_golden_folders.py."""
