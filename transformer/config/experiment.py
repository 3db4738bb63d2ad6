"""The configuration of an experiment: groups of settings, validated, to and from JSON.

A setting is changed in `configs/*.py` or on the command line as `--config.GROUP.NAME=VALUE`.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, get_type_hints

import transformer
from transformer.config.data import DataConfig, TokenizerConfig
from transformer.config.groups import DecodingConfig, MeshConfig, OptimizerConfig, TrainingConfig
from transformer.config.model import ModelConfig
from transformer.config.rules import broken_rules
from transformer.config.setting import Setting, Settings, setting, settings_of
from transformer.registry import TASKS

# Settings of earlier versions, and the values that they now always have; None: any value is right.
FORMER = {"training.memory_gib": None, "model.attention_features": 256}


@dataclass
class Config(Settings):
    """The complete configuration.

    `mesh`, `parallelism`, `remat` and `scan_layers` say how the work is computed, not what is
    learnt; but all except `mesh` change which activations dropout drops.
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
    def settings(cls) -> Iterator[Setting]:
        """Yields every setting, in the order of declaration."""
        return settings_of(cls)

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
        AttributeError for an unknown name; the values are checked by `validate`.

        >>> config.with_values({"model.d_ff": lambda base: 2 * base.model.d_ff})
        """
        changed = deepcopy(self)
        for name, value in changes.items():
            group, _, field_name = name.rpartition(".")
            owner = getattr(changed, group) if group else changed
            setattr(owner, field_name, value(self) if callable(value) else value)
        return changed

    def validate(self) -> "Config":
        """Returns itself, or raises ValueError with a line for each mistake, a sentence.

        Rules between settings of which one is still to be chosen hold when `validate` is called
        with the chosen values.
        """
        if mistakes := [*self.wrong_values().values()] or [*broken_rules(self)]:
            raise ValueError("\n".join(mistakes))
        return self

    def wrong_values(self) -> dict[str, str]:
        """Returns {setting: what is wrong with its value}; makes each whole number a float's."""
        wrong = {}
        for known in self.settings():
            try:
                self._change(known, known.check)
            except ValueError as error:
                wrong[known.name] = str(error)
        return wrong

    def automatic_settings(self) -> list[str]:
        """Returns the names of the settings that are to be chosen when a new run starts."""
        values = self.values()
        return [known.name for known in self.settings() if known.is_automatic(values[known.name])]

    def with_choices_of(self, run: "Config") -> "Config":
        """Returns a copy whose automatic settings are those that were chosen for a run."""
        chosen = run.values()
        return self.with_values({name: chosen[name] for name in self.automatic_settings()})

    def with_absolute_paths(self) -> "Config":
        """Returns a copy that names the same files in any working directory."""
        copy = deepcopy(self)
        for known in copy.settings():
            copy._change(known, known.absolute)
        return copy

    def _change(self, known: Setting, change: Callable[[Any], Any]) -> None:
        """Sets a setting to change(its value)."""
        group, _, name = known.name.rpartition(".")
        owner = getattr(self, group) if group else self
        setattr(owner, name, change(getattr(owner, name)))

    def to_json(self) -> str:
        """Returns the content of config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def to_python(self) -> str:
        """Returns a line of Python per setting, as for a file of --config.

        A value that is not the default is followed by the default.
        """
        values = self.values()
        lines = []
        for known in self.settings():
            value, default = values[known.name], known.default
            note = f"  # default: {default!r}" if value != default else ""
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
            cls._check_names(data)
            groups: dict[str, Any] = {
                name: group(**data.pop(name, {}))
                for name, group in get_type_hints(cls).items()
                if dataclasses.is_dataclass(group)
            }
            return cls(**groups, **data).validate()
        except (json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise ValueError(f"This is not a configuration of this version: {error}.") from error

    @classmethod
    def _check_names(cls, data: dict[str, Any]) -> None:
        """Raises ValueError for a setting that this version does not have."""
        known = {setting.name for setting in cls.settings()}
        for group, value in data.items():
            names = [f"{group}.{name}" for name in value] if isinstance(value, dict) else [group]
            if unknown := sorted(set(names) - known):
                raise ValueError(
                    f"{unknown[0]} is no setting of version {transformer.__version__}: a newer "
                    f"version wrote it, which then has to be installed, or it is misspelt."
                )

    def differences(self, other: "Config") -> dict[str, tuple[Any, Any]]:
        """Returns {name: (value here, value in `other`)} of the settings that differ."""
        values = other.values()
        return {
            name: (value, values[name])
            for name, value in self.values().items()
            if value != values[name]
        }
