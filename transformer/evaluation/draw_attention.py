"""Draws the attention of one example of a run of any task."""

from collections.abc import Sequence
from typing import Any

import jax
from etils.epath import PathLike

from transformer.checkpoint.restore import restore
from transformer.data.rows.images import load_images
from transformer.evaluation.attention_maps import self_attention_map, translation_map
from transformer.evaluation.evaluation_set import read_examples
from transformer.evaluation.plots import AttentionMap, plot_attention
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

    A run of one stack draws its self-attention, a translation the attention of the translation that
    is found.

    Args:
      picture: the file, whose suffix says of which kind.
      texts: the first that is not empty is the example; None: the first of the test set, of a run
        of translation or images.
      of: of a translation, whose attention: "encoder_decoder", "encoder" or "decoder".
      each_head: whether each head of each layer is drawn, instead of their mean.
      split, corpus, test_set, dtype, batch_size, search: as of `transformer.evaluate`.

    Raises ValueError if there is no text.
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
        plot_attention(drawn, str(picture))
    return drawn
