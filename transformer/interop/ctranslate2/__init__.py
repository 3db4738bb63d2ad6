"""Folders of CTranslate2, an engine for translation on CPUs and GPUs."""
