"""Changes what the checkpoints of a run note, as if they had been saved so."""

import json
from pathlib import Path
from typing import Any

from transformer.checkpoint.about import make_about


def note_settings(run: Path, **settings: Any) -> None:
    """Notes other settings, given by their full names, in every checkpoint of a run."""
    for file in run.glob("checkpoints/*/about/metadata"):
        about = json.loads(file.read_text())
        about["settings"] |= settings
        for name in ("format", "version", "checksum"):
            del about[name]
        file.write_text(json.dumps(make_about(**about)))
