"""What a setting may name: what is built in, and what a user's Python file registers.

    @transformer.register_attention("cosine")
    def cosine_attention(query, key, value, *, mask=None, dropout=None): ...

From then on `config.model.attention = "cosine"` is valid in that process. Restoring a run reads
data and never code: a process that opens it has to register the same names first, by importing the
module or with --register=FILE. What is built in is imported when it is used, as the configuration
needs no JAX.
"""

import inspect
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

REGISTERING = "one of your own is registered by --register=FILE, or by importing its module first"
OWN_TASK = "a task of your own"  # in `task_kind`: one that extends no built-in task


class Registry(UserDict[str, Any]):
    """Entries by name; the built-in ones are imported when they are looked up.

    kind: what they are, as "metric". built_in: "module:attribute" by name. check: called with the
    name and the entry that are to be registered; raises ValueError for an unfit entry.
    """

    def __init__(
        self,
        kind: str,
        built_in: Mapping[str, str],
        check: Callable[[str, Any], None] = lambda name, entry: None,
    ) -> None:
        super().__init__(built_in)
        self.kind, self.built_in, self._check = kind, built_in, check

    def __getitem__(self, key: str) -> Any:
        """Returns the entry of a name; raises ValueError if there is none."""
        if key not in self:
            names = ", ".join(self)
            raise ValueError(f"There is no {self.kind} {key!r} but {names}: {REGISTERING}.")
        entry = self.data[key]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            return getattr(import_module(module), attribute)
        return entry

    def register(self, name: str, entry: Any = None) -> Any:
        """Adds an entry and returns it; without one, returns a decorator that does.

        Raises ValueError if the name is taken, unless by an earlier version of the same definition,
        as when a cell of a notebook is run again.
        """
        if not isinstance(name, str):
            raise ValueError(f"The name of this {self.kind} must be a text, not {name!r}.")
        if entry is None:
            return lambda entry: self.register(name, entry)
        self._check(name, entry)
        if name in self and _origin(entry) != _origin(self.data.get(name)):
            raise ValueError(f"The {self.kind} {name!r} exists already: choose another name.")
        self.data[name] = entry
        return entry


def _origin(entry: Any) -> tuple[str, str]:
    """Returns the module and the name under which a function or class was defined."""
    definition = entry.metric if isinstance(entry, MetricEntry) else entry
    return getattr(definition, "__module__", ""), getattr(definition, "__qualname__", "")


def _check_attention(name: str, function: Callable[..., Any]) -> None:
    """Raises ValueError unless an attention function takes all it is called with."""
    is_class = isinstance(function, type)
    arguments = inspect.signature(function.__call__ if is_class else function)
    arrays = ("self", "query", "key", "value")[not is_class :]
    try:
        arguments.bind(*arrays, mask=None)
        arguments.bind(*arrays, mask=None, dropout=None)
    except TypeError as error:
        raise ValueError(
            f"The attention function {name!r} must take (query, key, value, *, mask=None, "
            f"dropout=None), not {arguments}: {error}."
        ) from None


_FUNCTIONS = "transformer.model.attention_functions"
SPARSE_ATTENTION = ("local", "strided", "fixed")
ATTENTION_FUNCTIONS = Registry(
    "attention function",
    {
        "scaled_dot_product": f"{_FUNCTIONS}:scaled_dot_product_attention",
        "dot_product": f"{_FUNCTIONS}:dot_product_attention",
        "general": "transformer.model.attention_modules:GeneralAttention",
        "additive": "transformer.model.attention_modules:AdditiveAttention",
        "content": "transformer.model.attention_modules:ContentAttention",
        "location": "transformer.model.attention_modules:LocationAttention",
        "hard": "transformer.model.attention_modules:HardAttention",
        "hard_gumbel": "transformer.model.attention_modules:HardGumbelAttention",
        "fused": f"{_FUNCTIONS}:fused_attention",
        **dict.fromkeys(SPARSE_ATTENTION, "transformer.model.sparse_attention:sparse_attention"),
        "performer": "transformer.model.performer_attention:performer_attention",
    },
    _check_attention,
)
# For positions of one sequence, or of a source: attention of the other kind stays the paper's.
SELF_ATTENTION_ONLY = (*SPARSE_ATTENTION, "performer")
HARD_ATTENTION = ("hard", "hard_gumbel")
SOURCE_ATTENTION_ONLY = ("location", *HARD_ATTENTION)
_RELATIVE = "transformer.model.relative_positions"
POSITION_ENCODINGS = Registry(
    "position encoding",
    {
        "sinusoidal": "transformer.model.embedding:SinusoidalPositions",
        "sinusoidal_tensor2tensor": "transformer.model.embedding:Tensor2TensorPositions",
        "sinusoidal_fairseq": "transformer.model.embedding:FairseqPositions",
        "learned": "transformer.model.embedding:LearnedPositions",
        "none": f"{_RELATIVE}:NoPositions",
        "rotary": f"{_RELATIVE}:RotaryPositions",
        "relative": f"{_RELATIVE}:ShawPositions",
        "t5": f"{_RELATIVE}:T5Positions",
        "alibi": f"{_RELATIVE}:AlibiPositions",
    },
)
BLOCKS = Registry(
    "block",
    {
        "transformer": "transformer.model.layers:Block",
        "transformer_xl": "transformer.model.transformer_xl:TransformerXLBlock",
    },
)
TASKS = Registry(
    "task",
    {
        "translation": "transformer.tasks.translation:TranslationTask",
        "classification": "transformer.tasks.classification:ClassificationTask",
        "token_classification": "transformer.tasks.classification:TokenClassificationTask",
        "language_model": "transformer.tasks.language_model:LanguageModelTask",
        "masked_lm": "transformer.tasks.masked_lm:MaskedLMTask",
        "images": "transformer.tasks.images:ImageTask",
    },
)
METRICS = Registry(
    "metric",
    {
        "bleu": "transformer.evaluation.metrics:BLEU_ENTRY",
        "line_error_rate": "transformer.evaluation.metrics:LINE_ERROR_RATE_ENTRY",
        "ter": "transformer.evaluation.metrics:TER_ENTRY",
    },
)
REGISTRIES = ATTENTION_FUNCTIONS, POSITION_ENCODINGS, BLOCKS, TASKS, METRICS


@dataclass(frozen=True)
class MetricEntry:
    """A metric that may choose the best checkpoint; see `register_metric`."""

    metric: Callable[..., Any]
    label: str
    higher_is_better: bool = True


# Each of these registers an entry under a name; given the name alone, it returns a decorator.
#
# For `model.attention`: a function of query [B, T, N, H], key and value [B, S, N, H], mask=
# (boolean, broadcastable to [B, N, T, S], True = may attend) and dropout= (a function of the
# weights, or None) that returns [B, T, N, H]; or a Flax module class, if it has weights, whose
# instances do. It raises ValueError for an argument that it cannot honour.
register_attention = ATTENTION_FUNCTIONS.register
# For `model.positions`: a Flax module class that is made of a ModelConfig and maps positions [...],
# which count from 0 in each sentence, to vectors [..., D].
register_position_encoding = POSITION_ENCODINGS.register
register_block = BLOCKS.register  # for `model.block`: a subclass of `model.layers.Block`
register_task = TASKS.register  # for `task`: a subclass of `tasks.task.Task`


def register_metric(
    name: str, metric: Any = None, *, label: str = "", higher_is_better: bool = True
) -> Any:
    """Registers a metric of translations for `data.selection_metric`; also a decorator.

    metric: a function of (translation, reference), one line each, whose mean over the lines is the
    score; or a subclass of `sacrebleu.metrics.base.Metric`, made without arguments. Intervals and
    paired tests follow. label: its name in reports; "" for `name`.
    """
    if metric is None:
        return lambda metric: register_metric(
            name, metric, label=label, higher_is_better=higher_is_better
        )
    METRICS.register(name, MetricEntry(metric, label or name, higher_is_better))
    return metric


def task_kind(name: str) -> str:
    """Returns the built-in task that a task is or extends, else `OWN_TASK`."""
    if name in TASKS.built_in:
        return name
    kinds = {path: kind for kind, path in TASKS.built_in.items()}
    paths = (f"{base.__module__}:{base.__qualname__}" for base in TASKS[name].__mro__)
    return next((kinds[path] for path in paths if path in kinds), OWN_TASK)
