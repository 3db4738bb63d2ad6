"""The files of small corpora."""


def write(folder, **files):
    """Writes train__en="…" as train.en, str or bytes, into a folder; returns its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return str(folder)
