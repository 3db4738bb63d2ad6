"""The classes of a run, by name and by number; saved beside its checkpoints."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

import numpy as np
from etils import epath

from transformer.files.reading import read_file
from transformer.files.storage import write_atomically

FILE = "classes.json"


@dataclass(frozen=True)
class Labels:
    """The names of the classes, in the order of their numbers; for images also their shape."""

    names: list[str]
    image_shape: list[int] = field(default_factory=list)  # height, width, channels

    @classmethod
    def from_labels(cls, labels: Sequence[str], image_shape: Sequence[int] = ()) -> Self:
        """Takes the classes that occur in `labels`, in order: 2 before 10, numbers before words."""
        names = sorted(set(labels), key=lambda name: (len(name) if name.isdigit() else 99, name))
        return cls(names, list(image_shape))

    def encode(self, labels: Sequence[str]) -> np.ndarray:
        """Returns the number of each label [N] int32; raises ValueError for an unknown one."""
        numbers = {name: number for number, name in enumerate(self.names)}
        if unknown := set(labels) - numbers.keys():
            raise ValueError(
                f"'{sorted(unknown)[0]}' is not one of the classes {', '.join(self.names)}."
            )
        return np.array([numbers[label] for label in labels], np.int32)

    def save(self, folder: epath.Path) -> None:
        """Writes what `load` reads."""
        write_atomically(folder / FILE, json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, folder: epath.Path) -> Self:
        """Reads the classes of a work directory; raises ValueError if they are missing or bad."""
        return cls.parse(read_file(folder / FILE), folder)

    @classmethod
    def parse(cls, content: bytes, folder: epath.Path) -> Self:
        """Returns the classes in the content of a file; folder: where it is, for messages."""
        try:
            labels = cls(**json.loads(content))
            if not isinstance(labels.names, list) or len(set(labels.names)) < len(labels.names):
                raise TypeError("names must be a list without repetition")
            return labels
        except (TypeError, ValueError) as error:
            raise ValueError(f"{folder / FILE} does not hold the classes: {error}.") from None
