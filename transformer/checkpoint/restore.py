"""Loads the configuration, model, parameters and tokenizers of a run from its work directory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from etils.epath import PathLike
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.typing import DTypeLike

from transformer.checkpoint.about import FILES, as_trained, files_of
from transformer.checkpoint.checkpoints import load_checkpoint
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import phase
from transformer.data.files.labels import FILE as CLASSES
from transformer.data.files.labels import Labels
from transformer.data.rows.batch import Batch
from transformer.data.rows.images import fill_images, to_patches
from transformer.data.rows.lm_batches import WindowBatch
from transformer.data.tokenizers.files import Tokenizer, parse_tokenizers
from transformer.files.reading import read_file
from transformer.model.encoder_decoder import Transformer
from transformer.model.single_stack import (
    CausalLM,
    ImageClassifier,
    MaskedLM,
    TextClassifier,
    TokenClassifier,
)
from transformer.registry import OWN_TASK, TASKS, task_kind
from transformer.special_tokens import OWN_IDS
from transformer.workdir import WorkDir

# Matrices of float32 computations, by a name in their paths: positions, T5's biases, additive
# attention, token types and the outputs of classifiers.
USED_IN_FLOAT32 = {"positions", "biases", "vector", "types", "classes", "next_sentence"}


@dataclass(frozen=True)
class Run:
    """A run that has been restored: `model.apply({"params": params}, …)` computes with it."""

    model: nn.Module
    params: Params  # numpy arrays, nested dicts named as the modules of `model`; None: none yet
    config: Config
    tokenizers: tuple[Tokenizer, ...]  # (source, target), perhaps the same twice; () for images
    labels: Labels  # the names of a classifier's classes; no names for other tasks
    workdir: WorkDir
    checkpoint: str = "in memory"  # this and the next two are those of `checkpoints.Loaded`
    step: int | None = None
    num_averaged: int = 1

    @classmethod
    def in_memory(
        cls,
        config: Config,
        tokenizers: tuple[Tokenizer, ...] = (),
        labels: Labels | None = None,
        params: Params = None,
    ) -> Self:
        """Returns a run of given parameters, or of none yet, that is in no folder."""
        labels = labels or Labels([])
        model = make_model(config, tokenizers, labels)
        return cls(model, params, config, tokenizers, labels, WorkDir("in memory"))

    def __repr__(self) -> str:
        """As "Run(runs/x, best (600), translation, 1.18M parameters)"."""
        size = count_parameters(self.params)
        return f"Run({self.name}, {self.config.task}, {size})"

    @property
    def name(self) -> str:
        """As "runs/x, best (600)"."""
        in_folder = self.step is not None
        return f"{self.workdir.path}, {self.checkpoint}" if in_folder else self.checkpoint


def restore(
    workdir: PathLike,
    checkpoint: str | int = "default",
    *,
    tasks: Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    batch_size: int | None = None,
) -> Run:
    """Restores a run of any task from its work directory, whatever devices wrote it.

    >>> run = transformer.restore("runs/m30k")
    >>> logits = run.model.apply({"params": run.params}, batch, deterministic=True)

    Args:
      workdir: a work directory or an export, local or gs://.
      checkpoint: "last", "best", a step, "average:N" (the mean of the last N), or "default": the
        mean of `decoding.average_checkpoints` if that is above 1, else the best, else the last.
      tasks: built-in tasks that the caller supports, as it does those that extend them; None: all.
      dtype: number format of the computation, "float32" or "bfloat16"; None: the run's.
      batch_size: replaces `decoding.batch_size` of the configuration.

    Raises ValueError if the folder holds no run, a run of another task, no such checkpoint, or a
    checkpoint that does not fit the configuration and the tokenizers.
    """
    run = WorkDir(workdir)
    config = run.load_config()
    kind = task_kind(config.task)
    if tasks is not None and kind not in tasks:
        raise ValueError(
            f"{run.path} holds a run of {config.task}, not of {' or '.join(tasks)}; "
            f"open it with the class for its task: Translator, Classifier, Tagger, "
            f"LanguageModel or TextEncoder."
        )
    with phase(f"restoring {run.path}"):
        name, step, num_averaged, params, about = load_checkpoint(run, config, checkpoint)
    config = as_trained(config, about, run.path)
    if dtype is not None:
        config.model.dtype = dtype if isinstance(dtype, str) else jnp.dtype(dtype).name
    if batch_size is not None:
        config.decoding.batch_size = batch_size
    model, tokenizers, labels = load_model(run, config.validate(), files_of(about))
    check_shapes(model, smallest_batch(config, labels), params)
    return Run(model, params, config, tokenizers, labels, run, name, step, num_averaged)


def load_model(
    run: WorkDir, config: Config, files: Mapping[str, bytes] | None = None
) -> tuple[nn.Module, tuple[Tokenizer, ...], Labels]:
    """Returns the model of a run, its tokenizers and its classes, without any parameters.

    files: those of the vocabularies and of the classes; None: those in its work directory.
    """
    if files is None:
        files = {file.name: read_file(file) for file in run.path.iterdir() if file.stem in FILES}
    kind = task_kind(config.task)
    has_text = kind not in ("images", OWN_TASK) or any("tokenizer" in name for name in files)
    tokenizers = parse_tokenizers(files, run.path) if has_text else ()
    has_classes = kind in ("classification", "token_classification", "images")
    labels = Labels.parse(files.get(CLASSES, b""), run.path) if has_classes else Labels([])
    return make_model(config, tokenizers, labels), tokenizers, labels


def count_parameters(params: Params | None) -> str:
    """Returns the number of parameters as text: "1.18M parameters"."""
    number = sum(leaf.size for leaf in jax.tree.leaves(params))
    return f"{number / 1e6:.3g}M parameters" if number >= 1e6 else f"{number:,} parameters"


def cast_matrices(params: Params, config: Config, in_float32: Collection[str] = ()) -> Params:
    """Returns `params` with those matrices in `model.dtype` that are used in no other type.

    in_float32: names in the paths of further ones that stay as they are.
    """
    dtype, kept = jnp.dtype(config.model.dtype), USED_IN_FLOAT32.union(in_float32)

    def cast(path: jax.tree_util.KeyPath, array: Any) -> Any:
        is_cast = array.ndim > 1 and kept.isdisjoint(part.key for part in path)
        return array.astype(dtype) if is_cast else array

    return jax.tree.map_with_path(cast, params)


def make_model(config: Config, tokenizers: tuple[Tokenizer, ...], labels: Labels) -> nn.Module:
    """Returns the model of `config.task`.

    tokenizers: (source, target), the same twice if the run has one; () for images. labels: the
    classes of a classifier; no names for other tasks.
    """
    sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    special = tokenizers[-1].special if tokenizers else OWN_IDS
    match task_kind(config.task):
        case "translation":
            return Transformer(config.model, *sizes, special=special)
        case "classification":
            return TextClassifier(config.model, sizes[0], len(labels.names), special=special)
        case "token_classification":
            return TokenClassifier(config.model, sizes[0], len(labels.names), special=special)
        case "images":
            return ImageClassifier(config.model, len(labels.names))
        case "language_model":
            return CausalLM(config.model, sizes[0], special=special)
        case "masked_lm":
            return MaskedLM(config.model, sizes[0], special=special)
    return TASKS[config.task].model_and_blank_batch(config)[0]


def smallest_batch(config: Config, labels: Labels) -> tuple[np.ndarray, ...]:
    """Returns a batch of one shortest example, from which the shapes of parameters follow.

    A task that extends no built-in one says itself which batch and which model are its own.
    """
    kind = task_kind(config.task)
    if kind == OWN_TASK:
        return TASKS[config.task].model_and_blank_batch(config)[1]
    if kind == "images":
        patches = to_patches(np.zeros([1, *labels.image_shape]), config.data.patch_size)
        return fill_images(patches, np.zeros(1, np.int32), 1)
    if kind == "language_model":
        return WindowBatch.zeros(1, 1)
    return Batch.zeros(1, 1)


def abstract_params(model: nn.Module, batch: tuple[np.ndarray, ...]) -> Params:
    """Returns the shapes and types of a model's parameters, without computing any."""
    init = partial(model.init, deterministic=True)
    return jax.eval_shape(init, jax.random.key(0), batch)["params"]


def check_shapes(model: nn.Module, batch: tuple[np.ndarray, ...], params: Params) -> None:
    """Raises ValueError if `params` are not those of `model`: other names, shapes or layers."""
    expected: dict[str, Any] = flatten_dict(abstract_params(model, batch), sep="/")
    given: dict[str, Any] = flatten_dict(params or {}, sep="/")
    if expected.keys() != given.keys():
        raise ValueError("The parameters are of other layers than the settings say.")
    for name, array in expected.items():
        if array.shape != given[name].shape:
            raise ValueError(
                f"The parameters do not fit the settings and the tokenizer: {name} must be "
                f"{array.shape}, but is {given[name].shape}."
            )
