"""Settings of a Hugging Face folder: reading them, and refusing what has no counterpart."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from transformer.config import Config
from transformer.files.storage import PathLike
from transformer.interop.writing import refuse, unsupported_settings

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


def their_activation(activation: str) -> str:
    """Returns their name of an activation of ours."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def read_settings(folder: PathLike, name: str = "config.json") -> dict[str, Any]:
    """Returns the settings in a JSON file of a folder; raises ValueError without such a file."""
    path = epath.Path(folder) / name
    try:
        settings = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} holds no settings in JSON; restore the file.")
    return settings


def check_settings(
    settings: Mapping[str, Any], sizes: Sequence[str], possible: Mapping[str, Sequence[Any]]
) -> None:
    """Raises ValueError, naming each, for settings of a config.json that we cannot honour.

    sizes: settings that must be positive integers, first the width, which the number of heads must
    divide. possible: the values that others may have, if they are there and not null.
    """
    wrong = [name for name in sizes if not is_count(settings.get(name))]
    if wrong:
        raise ValueError(f"config.json lacks a positive number as {', '.join(wrong)}; restore it.")
    width, heads = sizes[0], next(name for name in sizes if "head" in name)
    if settings[width] % settings[heads]:
        raise ValueError(
            f"config.json has {width}={settings[width]}, which does not divide into "
            f"{heads}={settings[heads]}; restore it."
        )
    refused = [
        f"{name}={settings[name]!r} (possible: {', '.join(map(str, values))})"
        for name, values in possible.items()
        if settings.get(name) is not None and settings[name] not in values
    ]
    if refused:
        raise ValueError(
            f"config.json has settings that no model of this package has: {'; '.join(refused)}."
        )


def is_count(value: object) -> bool:
    """Whether a setting is a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def class_names(settings: Mapping[str, Any], count: int) -> list[str]:
    """Returns the names of a classifier's classes; a config.json leaves out those that say nothing.

    Names that two classes have get the class's number: ImageNet has "crane (134)", a bird, and
    "crane (517)". Raises ValueError if there is but one output, which is a number and no class.
    """
    if count < 2:
        raise ValueError("The model has one output, a number to be predicted, and not classes.")
    names = settings.get("id2label") or {}
    if not isinstance(names, dict):
        raise ValueError(f"id2label of config.json must be names by number, not {names!r}.")
    found = [str(names.get(str(i), f"LABEL_{i}")) for i in range(count)]
    repeated = {name for name, times in Counter(found).items() if times > 1}
    return [f"{name} ({i})" if name in repeated else name for i, name in enumerate(found)]


def check_holds(kind: str, task: str, config: Config, possible: Mapping[str, Any]) -> None:
    """Raises ValueError, naming each, for settings of a run that a model of theirs cannot have.

    kind: the class of their model. task: what it is for. possible: the only value that a setting of
    ours may have, by name.
    """
    values = config.values()
    refused = unsupported_settings(config, task)
    refused += [f"{name}={values[name]}" for name in possible if values[name] != possible[name]]
    refuse(refused, kind, "use the format safetensors")
