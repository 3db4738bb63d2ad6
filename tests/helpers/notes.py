"""Changes what the checkpoints of a run note, as if they had been saved so."""

import json

from transformer.checkpoint.about import make_about


def note_settings(run, **settings):
    """Notes other settings, given by their full names, in every checkpoint of a run."""
    for file in run.glob("checkpoints/*/about/metadata"):
        change_notes(file, lambda about: about["settings"].update(settings))


def change_notes(file, change):
    """Changes the notes in the file `about/metadata` of a checkpoint in place."""
    about = json.loads(file.read_text())
    for name in ("format", "version", "checksum"):
        del about[name]
    change(about)
    file.write_text(json.dumps(make_about(**about)))
