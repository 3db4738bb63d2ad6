"""One setting of a configuration: its help, the values it may take and what a change of it means.

`setting` states these facts where the field of a dataclass is declared; `settings_of` reads them.
"""

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

from transformer.registry import REGISTERING, Registry

Value = TypeVar("Value", bool, int, float, str)
WEIGHT_AND_TAG = re.compile(r"(@[\d.]+)?(#[^/]*)?$")  # of a corpus
SPEED_ONLY = {"resumable": True, "changes_result": False}  # facts of a setting
LARGEST = 2**31 - 1  # steps, lengths and ids are int32
SYNONYMS = {  # what others call a setting, or a value of one: what it is here
    "batch_size": "training.batch_tokens",
    "max_tokens": "training.batch_tokens",
    "max_steps": "training.num_train_steps",
    "epochs": "training.num_train_steps",
    "lr": "optimizer.peak_learning_rate",
    "learning_rate": "optimizer.peak_learning_rate",
    "warmup": "optimizer.warmup_steps",
    "dropout": "model.dropout_rate",
    "num_encoder_layers": "model.num_layers",
    "encoder_layers": "model.num_layers",
    "decoder_layers": "model.num_decoder_layers",
    "hidden_size": "model.d_model",
    "embed_dim": "model.d_model",
    "ffn": "model.feed_forward",
    "ffn_dim": "model.d_ff",
    "intermediate_size": "model.d_ff",
    "max_length": "data.row_length",
    "rope": "model.positions=rotary",
    "silu": "model.activation=swish",
    "swiglu": "model.feed_forward=gated and model.activation=swish",
    "geglu": "model.feed_forward=gated and model.activation=gelu",
    "rmsnorm": "model.norm_type=rms_norm",
    "adamw": "optimizer.name=adam and optimizer.weight_decay",
    "bpe": "tokenizer.kind=sentencepiece",
    "bf16": "model.dtype=bfloat16",
}
# Called with (full name, "" or what is wrong with that name) when a setting is given a value, so
# that all mistakes of a file can be collected. None: a wrong name raises AttributeError.
ON_ASSIGNMENT: ContextVar[Callable[[str, str], None] | None] = ContextVar(
    "on_assignment", default=None
)
NO_PATH = re.compile(r"\w+:|embedded([@#]|$)|$")  # tfds:NAME, sklearn:digits, gs://…, or nothing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that is stated about one setting.

    name: the full name, as "model.d_ff".
    help: one or two sentences for `--help`.
    choices: the values that it may take, perhaps a `Registry`; empty where any value of the type
        will do.
    at_least, below: bounds of a number; None where there is none.
    at_most: the largest whole number, far above what is of use: larger ones are mistakes that would
        be allocated.
    minus_one: what -1 stands for, if it is allowed although it is out of bounds; else "".
    automatic: the value that has it chosen when a new run starts; None: it is never chosen.
    resumable: whether a run may be resumed with another value.
    changes_result: False if neither the parameters that a run learns nor its outputs depend on it,
        but only speed or what is logged.
    is_path: whether it names a file or a folder.
    is_list: whether it may hold several values with commas between.
    """

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    default: bool | int | float | str
    help: str
    choices: Collection[str] = ()
    at_least: float | None = None
    below: float | None = None
    at_most: int = LARGEST
    minus_one: str = ""
    automatic: int | str | None = None
    resumable: bool = False
    changes_result: bool = True
    is_path: bool = False
    is_list: bool = False

    @property
    def allowed(self) -> str:
        """The values that it may take, as "at least 1"; "" where any value of the type will do."""
        bounds = self._bounds
        if not bounds or self.automatic is None:
            return bounds
        return f"{bounds}, or {self.automatic} to have it chosen"

    @property
    def _bounds(self) -> str:
        if self.choices:
            return f"one of {', '.join(choice or repr(choice) for choice in self.choices)}"
        if self.below is not None:
            return f"from {self.at_least} up to but not including {self.below}"
        if self.minus_one:
            return f"at least {self.at_least}, or -1 for {self.minus_one}"
        return "" if self.at_least is None else f"at least {self.at_least}"

    @property
    def help_with_choices(self) -> str:
        """The help for a command line."""
        choices = self._bounds.replace("one of", "One of", 1)
        text = f"{self.help} {choices}." if self.choices else self.help
        return text if self.automatic is None else f"{text} {self.automatic}: chosen at the start."

    def check(self, value: object) -> Any:
        """Returns a value of the right type; a whole number may stand for a float.

        Raises ValueError, in one sentence that says what is expected, for any other value.
        """
        if self.type is float and type(value) is int:
            value = float(value)
        if type(value) is not self.type:
            raise self._error(f"of type {self.type.__name__}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error("finite", value)
        if not self._is_allowed(value):
            raise self._error(self.allowed, value)
        if type(value) is int and value > self.at_most:
            raise self._error(f"at most {self.at_most:,}", value)
        return value

    def is_automatic(self, value: object) -> bool:
        """Whether this value stands for one that is to be chosen when a new run starts."""
        return self.automatic is not None and value == self.automatic

    def _is_allowed(self, value: Any) -> bool:
        if self.is_automatic(value):
            return True
        if self.choices:
            return value in self.choices
        if self.minus_one and value == -1:
            return True
        is_high_enough = self.at_least is None or value >= self.at_least
        return is_high_enough and (self.below is None or value < self.below)

    def absolute(self, value: Any) -> Any:
        """Returns the value with each local path in it from the root on.

        Values of settings that are no path, and names as "tfds:…", stay.
        """
        if not self.is_path:
            return value
        if not self.is_list:
            return _absolute(value)
        return ",".join(_absolute(part.strip()) for part in value.split(","))

    def is_same(self, value: Any, other: Any) -> bool:
        """Whether two values mean the same; paths do if they end in the same name.

        A corpus may have moved since a run began, or be elsewhere on another machine. Datasets
        of a catalogue, as tfds:NAME, do not move.
        """
        if not self.is_path or value == other:
            return value == other
        paths = ((v.split(",") if self.is_list else [v]) for v in (value, other))
        first, second = (list(map(_name_of_path, each)) for each in paths)
        return first == second

    def _error(self, expected: str, value: object) -> ValueError:
        hint = f": {REGISTERING}" if isinstance(self.choices, Registry) else ""
        if self.choices and "=" in (meant := SYNONYMS.get(str(value).lower(), "")):
            hint = f": set {meant}"
        return ValueError(f"{self.name} must be {expected}, not {value!r}{hint}.")


def _name_of_path(part: str) -> str:
    """Returns the last name of a path, with its @WEIGHT#TAG; of what is no path, all of it."""
    if NO_PATH.match(part) and not part.startswith("gs://"):
        return part
    path = WEIGHT_AND_TAG.sub("", part, count=1)
    return path.rstrip("/").rpartition("/")[2] + part[len(path) :]


def _absolute(part: str) -> str:
    """Returns an absolute path, perhaps with @WEIGHT#TAG at its end; see `Setting.absolute`."""
    if NO_PATH.match(part):
        return part
    path = WEIGHT_AND_TAG.sub("", part, count=1)
    return os.path.abspath(os.path.expanduser(path)) + part[len(path) :]


@dataclasses.dataclass
class Settings:
    """Base of the groups of settings: a name that a group does not declare cannot be set.

    A misspelt one would otherwise have no effect. Raises AttributeError for it, with the name that
    was meant, and TypeError for a group that is replaced by something else.
    """

    def __new__(cls, *_: Any, **values: Any) -> Self:
        for name in values:
            if mistake := cls._mistake(name):
                raise AttributeError(mistake)
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        mistake = self._mistake(name)
        if on_assignment := ON_ASSIGNMENT.get():
            on_assignment(self._full_name(name), mistake)
        elif mistake:
            raise AttributeError(mistake)
        if mistake:
            return
        kind = type(self).__dataclass_fields__[name].default_factory
        if isinstance(kind, type) and not isinstance(value, kind):
            raise TypeError(f"config.{name} must be a {kind.__name__}, not {value!r}.")
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # which knows all names

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError, as there is no such name."""
            raise AttributeError(name if name.startswith("__") else self._mistake(name))

    @classmethod
    def _full_name(cls, name: str) -> str:
        group = cls.__name__.removesuffix("Config").lower()
        return f"{group}.{name}" if group else name

    @classmethod
    def _mistake(cls, name: str) -> str:
        """Returns "" for the name of a field, else a sentence with the one that may be meant."""
        fields = cls.__dataclass_fields__
        if name in fields:
            return ""
        meant = SYNONYMS.get(name, "")
        for nearest in () if meant else difflib.get_close_matches(name, fields, 1, 0.5):
            meant = cls._full_name(nearest)
        hint = f"did you mean {meant}?" if meant else "see train.py --help."
        return f"there is no {cls._full_name(name)}; {hint}"


def setting(default: Value, help: str, **facts: Any) -> Value:
    """Declares a field of a dataclass; facts: fields of `Setting` other than their defaults."""
    metadata = {"default": default, "help": help, **facts}
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(config: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Yields the settings of a dataclass and of those that its fields are, in order.

    prefix: is put before their names, as "model.".
    """
    types = get_type_hints(config)
    for field in dataclasses.fields(config):
        name, value_type = prefix + field.name, types[field.name]
        if dataclasses.is_dataclass(value_type):
            yield from settings_of(value_type, f"{name}.")
        else:
            yield Setting(name=name, type=value_type, **field.metadata)


def count(default: int, help: str, **facts: Any) -> int:
    """A whole number from 1 on; 0 has it chosen when a new run starts."""
    return setting(default, help, at_least=1, automatic=0, **facts)


def rate(default: float, help: str, **facts: Any) -> float:
    """A share of a whole."""
    return setting(default, help, at_least=0, below=1, **facts)
