"""Makes the model of a run from its configuration, its tokenizers and its classes."""

import jax
import numpy as np
from flax import linen as nn

from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.rows.batch import Batch
from transformer.data.rows.images import fill_images, to_patches
from transformer.data.rows.lm_batches import WindowBatch
from transformer.data.tokenizers.files import Tokenizer
from transformer.model.decoder_only import CausalLM
from transformer.model.encoder_decoder import Transformer
from transformer.model.encoder_only import (
    ImageClassifier,
    MaskedLM,
    TextClassifier,
    TokenClassifier,
)
from transformer.registry import OWN_TASK, TASKS, task_kind
from transformer.special_tokens import OWN_IDS


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

    def init(batch: tuple[np.ndarray, ...]) -> Params:
        return model.init(jax.random.PRNGKey(0), batch, deterministic=True)["params"]

    return jax.eval_shape(init, batch)


def check_shapes(model: nn.Module, batch: tuple[np.ndarray, ...], params: Params) -> None:
    """Raises ValueError if `params` are not those of `model`: other names, shapes or layers."""
    expected = abstract_params(model, batch)
    if jax.tree.structure(expected) != jax.tree.structure(params):
        raise ValueError("The checkpoint holds other layers than its settings say.")
    wanted = jax.tree_util.tree_leaves_with_path(expected)
    for (path, want), got in zip(wanted, jax.tree.leaves(params), strict=True):
        if want.shape != got.shape:
            raise ValueError(
                f"The checkpoint does not fit its settings and its tokenizer: "
                f"{jax.tree_util.keystr(path)} must be {want.shape}, but is {got.shape}."
            )
