"""The configuration of an experiment: groups of settings, validated, to and from JSON.

A setting is changed in `configs/*.py` or on the command line as `--config.GROUP.NAME=VALUE`.
"""

import dataclasses
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, get_type_hints

import transformer
from transformer.config.data import DataConfig, TokenizerConfig
from transformer.config.groups import DecodingConfig, MeshConfig, OptimizerConfig, TrainingConfig
from transformer.config.model import ModelConfig
from transformer.config.rules import RULES
from transformer.config.setting import Settings, naming_all_mistakes, setting
from transformer.registry import TASKS

# Settings of earlier versions, and the values that they now always have; None: any value is right.
FORMER = {"training.memory_gib": None, "model.attention_features": 256}


@dataclass
class Config(Settings):
    """The complete configuration.

    `mesh`, `parallelism`, `remat` and `scan_layers` say how the work is computed, not what is
    learnt; but the last two change which activations dropout drops.
    """

    task: str = setting("translation", "What is learnt.", choices=TASKS)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    parallelism: str = setting(
        "sharded",
        "sharded: jit over the mesh; pmap: all parameters on every device.",
        choices=("sharded", "pmap"),
        resumable=True,
    )
    remat: bool = setting(
        False, "Recompute activations in the backward pass: less memory.", resumable=True
    )
    scan_layers: bool = setting(
        False, "Compile one layer for all of them: a quicker compile.", resumable=True
    )

    @classmethod
    def groups(cls) -> list[str]:
        """Returns the names of the groups of settings, as "model"."""
        return [
            name for name, kind in get_type_hints(cls).items() if dataclasses.is_dataclass(kind)
        ]

    def values(self) -> dict[str, Any]:
        """Returns every setting's value by its full name, as "model.d_ff"."""
        return {known.name: attrgetter(known.name)(self) for known in self.settings()}

    def effective_values(self) -> dict[str, Any]:
        """Returns `values` with the values of a complete model that its zeros stand for."""
        key_dim, value_dim = self.model.widths_of_head
        return self.values() | {
            "model.num_decoder_layers": self.model.depth(is_decoder=True),
            "model.head_dim": key_dim,
            "model.value_dim": value_dim,
        }

    def with_values(self, changes: Mapping[str, Any]) -> "Config":
        """Returns a copy with other values of some settings, given by their full names.

        A value may be a function, which gets this configuration and returns the value. Raises
        AttributeError for an unknown name, and ValueError with a line for each impossible value.

        >>> config.with_values({"model.d_ff": lambda base: 2 * base.model.d_ff})
        """
        changed = deepcopy(self)
        with naming_all_mistakes():
            for name, value in changes.items():
                group, _, field_name = name.rpartition(".")
                owner = getattr(changed, group) if group else changed
                getattr(owner, field_name)  # raises AttributeError
                setattr(owner, field_name, value(self) if callable(value) else value)
        return changed

    def validate(self) -> "Config":
        """Returns itself, or raises ValueError with a line for each broken rule, a sentence.

        A rule whose sentence names a setting that is still to be chosen is left out.
        """
        automatic = self.automatic_settings()
        broken = [
            sentence.format(c=self)
            for sentence, is_broken in RULES.items()
            if not any(name in sentence for name in automatic) and is_broken(self)
        ]
        if broken:
            raise ValueError("\n".join(broken))
        return self

    def automatic_settings(self) -> list[str]:
        """Returns the names of the settings that are to be chosen when a new run starts."""
        values = self.values()
        return [known.name for known in self.settings() if known.is_automatic(values[known.name])]

    def with_absolute_paths(self) -> "Config":
        """Returns a copy that names the same files in any working directory."""
        values = self.values()
        changes = {known.name: known.absolute(values[known.name]) for known in self.settings()}
        return self.with_values(changes)

    def to_json(self) -> str:
        """Returns the content of config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def to_python(self) -> str:
        """Returns a line of Python per setting, as for a file of --config.

        A value that is not the default is followed by the default.
        """
        lines, values = [], self.values()
        for known in self.settings():
            is_changed = (value := values[known.name]) != known.default
            note = f"  # default: {known.default!r}" * is_changed
            lines.append(f"config.{known.name} = {value!r}{note}")
        return "\n".join(lines)

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads what `to_json` wrote, in this version or an earlier one.

        Settings that are missing get their defaults; raises ValueError for unknown ones.
        """
        try:
            data = json.loads(text)
            for name, value in FORMER.items():
                group, _, field_name = name.partition(".")
                if data.get(group, {}).pop(field_name, value) != value and value is not None:
                    raise ValueError(f"{name} is always {value} now.")
            with naming_all_mistakes():
                for name, group in get_type_hints(cls).items():
                    if dataclasses.is_dataclass(group):
                        data[name] = group(**data.get(name, {}))
                config = cls(**data)
            return config.validate()
        except (json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise ValueError(
                f"This is no configuration of version {transformer.__version__}, but perhaps of a "
                f"newer one, which then has to be installed: {error}"
            ) from error

    def differences(self, other: "Config") -> dict[str, tuple[Any, Any]]:
        """Returns {name: (value here, value in `other`)} of the settings that differ."""
        there = other.values()
        return {n: (here, there[n]) for n, here in self.values().items() if here != there[n]}
