"""Settings of other systems: reading them, their names beside ours, and what has no counterpart."""

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.files.reading import read_file
from transformer.files.storage import PathLike

# Their names of activations and ours; of several the first is written.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}


@contextmanager
def naming(file: PathLike) -> Generator[None]:
    """Puts the name of a file before what a ValueError in the block says, if it lacks that."""
    try:
        yield
    except ValueError as error:
        named = str(error) if str(file) in str(error) else f"{file}: {error}"
        raise ValueError(named) from None


def read_settings(folder: PathLike, name: str = "config.json") -> dict[str, Any]:
    """Returns the settings in a JSON or YAML file; raises ValueError if it cannot be read."""
    path = epath.Path(folder) / name
    parse = yaml.safe_load if name.endswith(".yml") else json.loads
    return parse_settings(read_file(path), path, parse)


def parse_settings(
    content: bytes, name: PathLike, parse: Callable[[bytes], Any] = json.loads
) -> dict[str, Any]:
    """Returns the settings in a text; raises ValueError, which says `name`, if there are none."""
    try:
        settings = parse(content)
    except (ValueError, RecursionError, yaml.YAMLError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{name} holds no settings; restore the file.")
    return settings


def is_count(value: object) -> bool:
    """Whether a setting is a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@dataclass(frozen=True)
class SettingsTable:
    """Settings of a kind of model of another system beside ours, for both directions.

    names: our name of each of theirs, as "d_model" of "hidden_size". defaults: the values of those
    that may be missing or null; the others are sizes. possible: the values that further settings
    of theirs may have, if they are there and not null.
    """

    names: Mapping[str, str]
    defaults: Mapping[str, Any]
    possible: Mapping[str, Sequence[Any]]

    def read(self, settings: Mapping[str, Any], file: PathLike = "config.json") -> dict[str, Any]:
        """Returns the settings of `ModelConfig`; raises ValueError, naming all that are wrong."""
        given = {name: value for name, value in settings.items() if value is not None}
        sizes = [name for name in self.names if name not in self.defaults]
        if wrong := [name for name in sizes if not is_count(given.get(name))]:
            raise ValueError(f"{file} lacks a positive number as {', '.join(wrong)}; restore it.")
        theirs = {ours: name for name, ours in self.names.items()}
        refused = [
            f"{name}={given[name]!r} (possible: {', '.join(map(str, values))})"
            for name, values in {theirs["activation"]: [*ACTIVATIONS], **self.possible}.items()
            if name in given and given[name] not in values
        ]
        if given[theirs["d_model"]] % given[theirs["num_heads"]]:
            refused.append(
                " that does not divide by ".join(
                    f"{theirs[ours]}={given[theirs[ours]]}" for ours in ("d_model", "num_heads")
                )
            )
        if refused:
            raise ValueError(f"{file}: no model of this package has {'; '.join(refused)}.")
        values = {ours: {**self.defaults, **given}[name] for name, ours in self.names.items()}
        return values | {"activation": ACTIVATIONS[values["activation"]]}

    def write(self, model: ModelConfig) -> dict[str, Any]:
        """Returns the settings of a model by their names."""
        activation = next(name for name, ours in ACTIVATIONS.items() if ours == model.activation)
        return {
            name: activation if ours == "activation" else getattr(model, ours)
            for name, ours in self.names.items()
        }


def name_languages(config: Config, languages: tuple[str, str]) -> None:
    """Sets the languages of source and target that are known, and not ""."""
    config.data.source_language = languages[0] or config.data.source_language
    config.data.target_language = languages[1] or config.data.target_language


def class_names(settings: Mapping[str, Any], count: int) -> list[str]:
    """Returns the names of a classifier's classes; a config.json leaves out those that say nothing.

    Names that two classes have get the class's number: ImageNet has "crane (134)", a bird, and
    "crane (517)". Raises ValueError if there is but one output, which is a number and no class.
    """
    if count < 2:
        raise ValueError("The model has one output, a number to be predicted, and not classes.")
    by_number = settings.get("id2label") or {}
    if not isinstance(by_number, dict):
        raise ValueError(f"id2label of config.json must be names by number, not {by_number!r}.")
    names = [str(by_number.get(str(i), f"LABEL_{i}")) for i in range(count)]
    repeated = {name for name, times in Counter(names).items() if times > 1}
    return [f"{name} ({i})" if name in repeated else name for i, name in enumerate(names)]
