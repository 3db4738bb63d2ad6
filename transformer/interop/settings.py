"""Settings of other systems: reading them, their names beside ours, and what has no counterpart."""

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import yaml
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.files.reading import read_file
from transformer.files.storage import PathLike
from transformer.interop.portable_model import Vocabulary

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
    return parse_settings(read_file(path), path, is_json=name.endswith(".json"))


def parse_settings(content: bytes, name: PathLike, *, is_json: bool) -> dict[str, Any]:
    """Returns the settings in a text; raises ValueError, which says `name`, if there are none."""
    parse = json.loads if is_json else yaml.safe_load
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


class Setting(NamedTuple):
    """Our setting for one of theirs; default: of theirs, None for a size that must be there."""

    ours: str
    default: Any = None


@dataclass(frozen=True)
class SettingsTable:
    """Settings of a kind of model of another system beside ours, for both directions.

    names: our setting for each of theirs, as {"hidden_size": Setting("d_model")}. Two of theirs may
    be one of ours, and must be equal then. possible: the values that further settings of theirs may
    have, if they are there and not null.
    """

    names: Mapping[str, Setting]
    possible: Mapping[str, Sequence[Any]]

    def read(self, settings: Mapping[str, Any], file: PathLike = "config.json") -> dict[str, Any]:
        """Returns the settings of `ModelConfig`; raises ValueError, naming all that are wrong."""
        given = {name: value for name, value in settings.items() if value is not None}
        values: dict[str, Any] = {}
        possible, lacking = dict[str, Sequence[Any]](self.possible), []
        for name, (ours, default) in self.names.items():
            if ours == "activation":
                possible.setdefault(name, [*ACTIVATIONS])
            elif ours in values:
                possible[name] = [values[ours]]
            elif default is None and not is_count(given.get(name)):
                lacking.append(name)
            values.setdefault(ours, given.get(name, default))
        if lacking:
            raise ValueError(f"{file} lacks a positive number as {', '.join(lacking)}; restore it.")
        refused = [
            f"{name}={given[name]!r} (possible: {', '.join(map(str, allowed))})"
            for name, allowed in possible.items()
            if name in given and given[name] not in allowed
        ]
        width, num_heads = values["d_model"], values["num_heads"]
        if width % num_heads:
            refused.append(f"a width of {width}, which does not divide by {num_heads} heads")
        if refused:
            raise ValueError(f"{file}: no model of this package has {'; '.join(refused)}.")
        return values | {"activation": ACTIVATIONS[values["activation"]]}

    def write(self, model: ModelConfig) -> dict[str, Any]:
        """Returns the settings of a model by their names."""
        activation = next(name for name, ours in ACTIVATIONS.items() if ours == model.activation)
        depth = model.depth(is_decoder=True)
        values = vars(model) | {"activation": activation, "num_decoder_layers": depth}
        return {name: values[ours] for name, (ours, _) in self.names.items()}


def translation_config(
    settings: Mapping[str, Any],
    vocabulary: Vocabulary,
    *,
    is_tied: bool,
    is_shared: bool,
    beam_size: int,
    alpha: float,
) -> Config:
    """Returns the configuration of a run with an imported model, not validated yet.

    settings: of `ModelConfig`. is_tied: whether the softmax has the decoder's table; is_shared:
    whether both languages have one. A score is divided by the length to the power of alpha.
    """
    sharing = "none" if not is_tied else "all" if is_shared else "target"
    model = ModelConfig(**settings, embedding_sharing=sharing)
    config = Config(model=replace(model, projection_bias=True, output_bias=True))
    source, target = (t.pieces(range(t.vocab_size)) for t in vocabulary.tokenizers)
    config.tokenizer.kind, config.tokenizer.shared = "imported", source == target
    data, decoding = config.data, config.decoding
    data.source_language = vocabulary.languages[0] or data.source_language
    data.target_language = vocabulary.languages[1] or data.target_language
    decoding.beam_size, decoding.length_penalty, decoding.alpha = beam_size, "power", alpha
    return config


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
