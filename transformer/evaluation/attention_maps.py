"""The attention weights of one example, of any model of the family, as `plots` draws them."""

from typing import Any

import numpy as np

from transformer.checkpoint.restore import Run
from transformer.data.rows.images import to_patches
from transformer.data.rows.labelled_words import encode_words
from transformer.data.rows.lm_batches import encode_text
from transformer.data.rows.text_pairs import encode_texts
from transformer.evaluation.plots import AttentionMap
from transformer.inference.scoring import weights_of
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.registry import task_kind
from transformer.special_tokens import BOS, EOS


def translation_map(
    translator: Translator,
    source: str,
    translation: Translation,
    *,
    of: str = "encoder_decoder",
    each_head: bool = False,
) -> AttentionMap:
    """Computes the attention of a translation of the sentence `source`.

    of: "encoder_decoder", or the self-attention of the "encoder" or the "decoder". each_head: a
    panel for each head of each layer, instead of their mean.
    """
    found = translator.attention(source, translation)
    from_pieces, to_pieces = found.target_pieces, found.source_pieces
    if of == "encoder":
        from_pieces = found.source_pieces
    elif of == "decoder":  # column t is what predicts target token t reads: BOS, or token t - 1
        to_pieces = [*translator.tokenizer.pieces([BOS]), *found.target_pieces[:-1]]
    weights = _panels(getattr(found, of), each_head)
    text = translator.source_tokenizer.join_pieces(source)
    return AttentionMap(text, translation.text, to_pieces, from_pieces, weights)


def self_attention_map(
    run: Run, example: str | np.ndarray, *, each_head: bool = False
) -> AttentionMap:
    """Computes the self-attention of a model that is one stack.

    example: a text, or an image [height, width, channels] with values from 0 to 1. Raises
    ValueError for a text that is longer than `data.row_length` tokens, and for a Transformer-XL.
    """
    if run.config.model.has_memory:
        raise ValueError(
            "The attention of model.block=transformer_xl is by segments, each with other positions "
            "in its memory, and cannot be drawn as one picture: draw that of a run without it."
        )
    inputs, names = _inputs(run, example)
    _, variables = run.model.apply(
        {"params": run.params}, inputs, deterministic=True, mutable="intermediates"
    )
    stacks: Any = variables["intermediates"]
    weights = weights_of(stacks.get("encoder") or stacks["decoder"], "self_attention")
    text = example if isinstance(example, str) else "image"
    return AttentionMap(text, text, names, names, _panels(weights, each_head))


def _panels(weights: np.ndarray, each_head: bool) -> np.ndarray:
    """Returns [layers, N, T, S] as it is drawn: [layers, N or 1, T, S]."""
    return weights if each_head else weights.mean(axis=1, keepdims=True)


def _inputs(run: Run, example: str | np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Returns the input of the model, a batch of one, and the names of its positions."""
    if not isinstance(example, str):
        size = run.config.data.patch_size
        patches = to_patches(example[None], size)
        columns = example.shape[1] // size
        names = [f"{1 + i // columns},{1 + i % columns}" for i in range(patches.shape[1])]
        return patches, ["class"] * (run.config.model.pooling != "mean") + names
    tokenizer = run.tokenizers[0]
    if task_kind(run.config.task) == "language_model":
        ids = encode_text(tokenizer, example.split("\n"))[:-1]
        if not tokenizer.line_breaks_are_text:  # such models see a text without EOS before it
            ids = np.append(EOS, ids)
    elif task_kind(run.config.task) == "token_classification":
        ids = encode_words(tokenizer, [example], run.config.model)[0][0]
    else:
        ids = encode_texts(tokenizer, [example], run.config.model)[0]
    if len(ids) > (longest := run.config.data.row_length):
        raise ValueError(f"The text has {len(ids)} tokens, the model takes {longest}: shorten it.")
    return ids[None].astype(np.int32), tokenizer.pieces(ids)
