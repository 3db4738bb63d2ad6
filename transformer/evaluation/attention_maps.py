"""The attention weights of one example, of any model of the family, and pictures of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import Run, restore
from transformer.data.rows.encoded_texts import encode_texts, encode_words
from transformer.data.rows.images import load_images, to_patches
from transformer.data.rows.lm_batches import encode_text
from transformer.evaluation import plots
from transformer.evaluation.evaluation_set import read_examples
from transformer.evaluation.plots import AttentionMap
from transformer.inference.scoring import weights_of
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.registry import task_kind
from transformer.workdir import WorkDir


def draw_attention(
    workdir: PathLike,
    picture: PathLike,
    texts: Sequence[str] | None = None,
    checkpoint: str | int = "default",
    *,
    of: str = "encoder_decoder",
    each_head: bool = False,
    split: str | None = None,
    corpus: str | None = None,
    test_set: str = "",
    dtype: str | None = None,
    batch_size: int | None = None,
    **search: Any,
) -> AttentionMap:
    """Draws the attention of a run of one example, and returns what was drawn.

    A run of one stack draws its self-attention, a translation that of the translation found.

    Args:
      picture: the file, whose suffix says of which kind.
      texts: the first that is not empty is the example; None: the first of the test set, of a run
        of translation or images.
      of: of a translation, whose attention: "encoder_decoder", "encoder" or "decoder".
      each_head: whether each head of each layer is drawn, instead of their mean.
      split, corpus, test_set, dtype, batch_size, search: as of `transformer.evaluate`.
    """
    run, compute = WorkDir(workdir), {"dtype": dtype, "batch_size": batch_size}
    config = run.load_config()
    kind = task_kind(config.task)
    if texts is None and kind == "translation":
        what = {"split": split, "corpus": corpus, "test_set": test_set}
        texts = read_examples(run, config, **what).sources
    text = next((text for text in texts or () if text.strip()), "")
    if not text and kind != "images":
        raise ValueError("--attention needs a text that is not empty: add --input=FILE.")
    if kind == "translation":
        translator = Translator.from_checkpoint(run, checkpoint, **compute)
        (translation,) = translator.translate([text], **search)
        drawn = translation_map(translator, text, translation, of=of, each_head=each_head)
    else:
        config.data.corpus = corpus or config.data.corpus
        example = text or load_images(config.data, split or config.data.test_split)[0][0]
        restored = restore(run, checkpoint, **compute)
        drawn = self_attention_map(restored, example, each_head=each_head)
    if jax.process_index() == 0:
        draw = partial(plots.draw_attention, attention=drawn, title=drawn.translation)
        plots.save_picture(draw, str(picture))
    return drawn


def translation_map(
    translator: Translator,
    source: str,
    translation: Translation,
    *,
    of: str = "encoder_decoder",
    each_head: bool = False,
) -> AttentionMap:
    """Computes the attention of a translation of `source`; of, each_head: as `draw_attention`."""
    attention, tokenizer = translator.attention(source, translation), translator.tokenizer
    from_pieces, to_pieces = attention.target_pieces, attention.source_pieces
    axes = "source", "translation"
    if of == "encoder":
        from_pieces, axes = attention.source_pieces, ("source", "source")
    elif of == "decoder":  # column t is what predicts target token t reads: BOS, or token t - 1
        to_pieces = [*tokenizer.pieces([tokenizer.special.bos]), *attention.target_pieces[:-1]]
        axes = "translation so far", "next token"
    weights = getattr(attention, of)
    weights = weights if each_head else weights.mean(axis=1, keepdims=True)
    text = translator.source_tokenizer.join_pieces(source)
    return AttentionMap(text, translation.text, to_pieces, from_pieces, weights, axes)


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
    weights = weights if each_head else weights.mean(axis=1, keepdims=True)
    text = example if isinstance(example, str) else "image"
    return AttentionMap(text, text, names, names, weights, ("attended to", "attends"))


def _inputs(run: Run, example: str | np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Returns the input of the model, a batch of one, and the names of its positions."""
    config = run.config
    if not isinstance(example, str):
        size = config.data.patch_size
        patches = to_patches(example[None], size)
        columns = example.shape[1] // size
        names = [f"{1 + i // columns},{1 + i % columns}" for i in range(patches.shape[1])]
        return patches, ["class"] * (config.model.pooling != "mean") + names
    tokenizer, kind = run.tokenizers[0], task_kind(config.task)
    if kind == "language_model":
        ids = encode_text(tokenizer, example.split("\n"))[:-1]
        if not tokenizer.line_breaks_are_text:  # such models see a text without EOS before it
            ids = np.append(tokenizer.special.eos, ids)
    elif kind == "token_classification":
        ids = encode_words(tokenizer, [example], config.model)[0][0]
    else:
        ids = encode_texts(tokenizer, [example], config.model)[0]
    if len(ids) > config.data.row_length:
        raise ValueError(
            f"The text has {len(ids)} tokens, the model takes {config.data.row_length}: shorten it."
        )
    return ids[None].astype(np.int32), tokenizer.pieces(ids)
