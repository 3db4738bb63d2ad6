"""The classes of a run, by name and by number; saved beside its checkpoints."""

import json
from dataclasses import asdict, dataclass, field

import numpy as np

from transformer.storage import write_atomically

FILE = "classes.json"


@dataclass(frozen=True)
class Labels:
    """names: of the classes, in the order of their numbers; image_shape: of the images, if any."""

    names: list[str]
    image_shape: list[int] = field(default_factory=list)

    @classmethod
    def from_labels(cls, labels, image_shape=()):
        """The classes that occur, in order; numbers as numbers."""
        names = sorted(set(labels), key=lambda name: (len(name) if name.isdigit() else 99, name))
        return cls(names, list(image_shape))

    def encode(self, labels):
        """Names -> numbers [N], int32; ValueError for a name that is none of them."""
        numbers = {name: number for number, name in enumerate(self.names)}
        if unknown := set(labels) - numbers.keys():
            raise ValueError(
                f"'{sorted(unknown)[0]}' is not one of the classes {', '.join(self.names)}."
            )
        return np.array([numbers[label] for label in labels], np.int32)

    def save(self, folder):
        """Writes what `load` reads."""
        write_atomically(folder / FILE, json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, folder):
        """Those of a work directory; ValueError if they are missing or bad."""
        try:
            labels = cls(**json.loads((folder / FILE).read_text(encoding="utf-8")))
            if not isinstance(labels.names, list) or len(set(labels.names)) < len(labels.names):
                raise TypeError("names must be a list without repetition")
            return labels
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{folder / FILE} does not hold the classes: {error}.") from None
