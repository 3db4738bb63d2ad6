"""One setting of a configuration: its help, the values it may take and what a change of it means.

`setting` states these facts where the field of a group is declared; a value is checked when it is
set.
"""

import dataclasses
import difflib
import functools
import math
import os
import re
import traceback
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

from transformer.registry import REGISTERING, Registry

Value = TypeVar("Value", bool, int, float, str)
NO_PATH = re.compile(r"(?!gs:)\w+:|embedded([@#]|$)|$")  # tfds:NAME, sklearn:digits, or nothing
WEIGHT_AND_TAG = re.compile(r"(@[\d.]+)?(#[^/]*)?$")  # of a corpus
SPEED_ONLY = {"resumable": True, "changes_result": False}  # facts of a setting
LARGEST = 2**31 - 1  # steps, lengths and ids are int32
OTHER_NAMES = {  # a setting, or a value of one: what others call it
    "training.batch_tokens": "batch_size max_tokens",
    "training.num_train_steps": "max_steps epochs",
    "optimizer.peak_learning_rate": "lr learning_rate",
    "optimizer.warmup_steps": "warmup",
    "model.dropout_rate": "dropout",
    "model.num_layers": "num_encoder_layers encoder_layers",
    "model.num_decoder_layers": "decoder_layers",
    "model.d_model": "hidden_size embed_dim",
    "model.feed_forward": "ffn",
    "model.d_ff": "ffn_dim intermediate_size",
    "data.row_length": "max_length",
    "model.positions=rotary": "rope",
    "model.activation=swish": "silu",
    "model.feed_forward=gated and model.activation=swish": "swiglu",
    "model.feed_forward=gated and model.activation=gelu": "geglu",
    "model.norm_type=rms_norm": "rmsnorm",
    "optimizer.name=adam and optimizer.weight_decay": "adamw",
    "tokenizer.kind=sentencepiece": "bpe",
    "model.dtype=bfloat16": "bf16",
}
SYNONYMS = {name: meant for meant, names in OTHER_NAMES.items() for name in names.split()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that is stated about one setting."""

    name: str  # the full name, as "model.d_ff"
    type: type[bool] | type[int] | type[float] | type[str]
    default: bool | int | float | str
    help: str  # one or two sentences for `--help`
    choices: Collection[str] = ()  # perhaps a `Registry`; empty where any value of the type will do
    at_least: float = 0
    below: float | None = None
    at_most: int = LARGEST  # far above what is of use: what is larger is a mistake
    minus_one: str = ""  # what -1 stands for, if it is allowed although it is out of bounds
    automatic: int | str | None = None  # has the value chosen when a new run starts
    resumable: bool = False  # a run may be resumed with another value
    changes_result: bool = True  # what a run learns or puts out may depend on it, not speed alone
    is_path: bool = False
    is_list: bool = False  # of paths, with commas between

    @property
    def _bounds(self) -> str:
        if self.choices:
            return f"one of {', '.join(choice or repr(choice) for choice in self.choices)}"
        if self.below is not None:
            return f"from {self.at_least} up to but not including {self.below}"
        return f"at least {self.at_least}" + f", or -1 for {self.minus_one}" * bool(self.minus_one)

    @property
    def help_with_choices(self) -> str:
        """The help for a command line."""
        text = self.help + f" {self._bounds}.".replace("one of", "One of", 1) * bool(self.choices)
        return text if self.automatic is None else f"{text} {self.automatic}: chosen at the start."

    def check(self, value: object) -> Any:
        """Returns a value of the right type; a whole number may stand for a float.

        Raises ValueError, in one sentence that says what is expected, for any other value.
        """
        if self.type is float and type(value) is int:
            value = float(value)
        if expected := self._expected(value):
            hint = f": {REGISTERING}" if isinstance(self.choices, Registry) else ""
            if self.choices and "=" in (meant := SYNONYMS.get(str(value).lower(), "")):
                hint = f": set {meant}"
            raise ValueError(f"{self.name} must be {expected}, not {value!r}{hint}.")
        return value

    def _expected(self, value: Any) -> str:
        """Returns what a value that is not allowed should have been; "" for one that is."""
        if type(value) is not self.type:
            return f"of type {self.type.__name__}"
        if isinstance(value, float) and not math.isfinite(value):
            return "finite"
        if self.is_automatic(value) or (self.minus_one and value == -1):
            return ""
        if isinstance(value, str):
            is_out = self.choices and value not in self.choices
        else:
            is_out = value < self.at_least or (self.below is not None and value >= self.below)
        if is_out:
            is_chosen = self.automatic is not None
            return self._bounds + f", or {self.automatic} to have it chosen" * is_chosen
        return f"at most {self.at_most:,}" if type(value) is int and value > self.at_most else ""

    def is_automatic(self, value: object) -> bool:
        """Whether this value stands for one that is to be chosen when a new run starts."""
        return self.automatic is not None and value == self.automatic

    def absolute(self, value: Any) -> Any:
        """Returns the value with each local path in it from the root on.

        Values of settings that are no path, and names as "tfds:…", stay.
        """

        def from_root(path: str) -> str:
            is_local = not path.startswith("gs://")
            return os.path.abspath(os.path.expanduser(path)) if is_local else path

        return self._with_paths(value, from_root)

    def is_same(self, value: Any, other: Any) -> bool:
        """Whether two values mean the same; paths do if they end in the same name.

        A corpus may have moved since a run began, or be elsewhere on another machine. Datasets
        of a catalogue, as tfds:NAME, do not move.
        """

        def last_name(path: str) -> str:
            return path.rstrip("/").rpartition("/")[2]

        return self._with_paths(value, last_name) == self._with_paths(other, last_name)

    def _with_paths(self, value: Any, change: Callable[[str], str]) -> Any:
        """Returns the value with `change` of each path in it, whose @WEIGHT#TAG stays."""
        if not self.is_path:
            return value
        parts = [part.strip() for part in value.split(",")] if self.is_list else [value]
        for number, part in enumerate(parts):
            if not NO_PATH.match(part):
                path = WEIGHT_AND_TAG.sub("", part, count=1)
                parts[number] = change(path) + part[len(path) :]
        return ",".join(parts)


Mistakes = list[tuple[Exception, traceback.StackSummary]]  # with where each was made
_mistakes: ContextVar[Mistakes | None] = ContextVar("mistakes", default=None)


@contextmanager
def naming_all_mistakes(
    describe: Callable[[Exception, traceback.StackSummary], str] = lambda error, _: str(error),
) -> Generator[Mistakes]:
    """Raises one ValueError with a line for each wrong name or value that a setting gets in it.

    Outside of such a block each of them raises at once. The block gets the list of mistakes so far,
    to which it may add others. describe: returns the line of a mistake.
    """
    mistakes: Mistakes = []
    token = _mistakes.set(mistakes)
    try:
        yield mistakes
    finally:
        _mistakes.reset(token)
    if mistakes:
        lines = [describe(error, stack) for error, stack in mistakes]
        raise ValueError("\n".join(lines)) from mistakes[-1][0]


@dataclasses.dataclass
class Settings:
    """Base of the groups of settings, which checks each value that one is given.

    Raises ValueError for a value that a setting cannot have, AttributeError for a name that is not
    declared, with the one that was meant, and TypeError for a group that becomes something else.
    """

    def __new__(cls, *_: Any, **values: Any) -> Self:
        for name in values.keys() - cls._declared().keys():
            raise AttributeError(cls._mistake(name))
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        known = self._declared().get(name)
        try:
            if known is None:
                raise AttributeError(self._mistake(name))
            if isinstance(known, Setting):
                value = known.check(value)
            elif not isinstance(value, known):
                raise TypeError(f"config.{name} must be a {known.__name__}, not {value!r}.")
        except (AttributeError, ValueError) as error:
            if (mistakes := _mistakes.get()) is None:
                raise
            mistakes.append((error, traceback.extract_stack()))
        else:
            super().__setattr__(name, value)

    if not TYPE_CHECKING:  # which knows all names

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError, as there is no such name."""
            raise AttributeError(name if name.startswith("__") else self._mistake(name))

    @classmethod
    @functools.cache
    def _declared(cls) -> dict[str, Setting | type["Settings"]]:
        """Returns {field: what is stated about it, or the group that it is}."""
        declared = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.metadata:
                facts = {"name": cls._full_name(field.name), "type": declared[field.name]}
                declared[field.name] = Setting(**facts, **field.metadata)
        return declared

    @classmethod
    def settings(cls) -> Iterator[Setting]:
        """Yields every setting, also those of groups in it, in the order of declaration."""
        for known in cls._declared().values():
            if isinstance(known, Setting):
                yield known
            else:
                yield from known.settings()

    @classmethod
    def _full_name(cls, name: str) -> str:
        group = cls.__name__.removesuffix("Config").lower()
        return f"{group}.{name}" if group else name

    @classmethod
    def _mistake(cls, name: str) -> str:
        """Returns a sentence on a name that is not declared, with the one that may be meant."""
        meant = SYNONYMS.get(name, "")
        for nearest in () if meant else difflib.get_close_matches(name, cls._declared(), 1, 0.5):
            meant = cls._full_name(nearest)
        hint = f"did you mean {meant}?" if meant else "see train.py --help."
        return f"there is no {cls._full_name(name)}; {hint}"


def setting(default: Value, help: str, **facts: Any) -> Value:
    """Declares a field of a group; facts: fields of `Setting` other than their defaults."""
    metadata = {"default": default, "help": help, **facts}
    return dataclasses.field(default=default, metadata=metadata)


def count(default: int, help: str, **facts: Any) -> int:
    """A whole number from 1 on; 0 has it chosen when a new run starts."""
    return setting(default, help, at_least=1, automatic=0, **facts)


def rate(default: float, help: str, **facts: Any) -> float:
    """A share of a whole."""
    return setting(default, help, below=1, **facts)
