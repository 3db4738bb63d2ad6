"""The evaluate command with --attention: a picture of the attention of one example."""

from typing import Any

import jax

from transformer.checkpoint.restore import restore
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.score_translation import read_test_set, read_texts
from transformer.config import Config
from transformer.console import say
from transformer.data.rows.images import load_images
from transformer.evaluation.attention_maps import self_attention_map, translation_map
from transformer.evaluation.plots import AttentionMap, plot_attention
from transformer.inference.translator import Translator
from transformer.registry import task_kind


def draw_attention(flags: EvaluateFlags, config: Config) -> None:
    """Draws the attention of the first text of --input, or of the test set.

    A run of one stack draws its self-attention; one of images takes the first image of the test
    split, the others need a text.
    """
    is_translation = task_kind(config.task) == "translation"
    text = _first_text(read_texts(flags.input)) if flags.input else ""
    attention = (_of_translation if is_translation else _of_stack)(flags, config, text)
    if jax.process_index() == 0:
        plot_attention(attention, flags.attention)
    result = f"\n> {attention.translation}" if is_translation else ""
    say(f"{attention.source}{result}\nattention: {flags.attention}")


def _of_translation(flags: EvaluateFlags, config: Config, text: str) -> AttentionMap:
    text = text or _first_text([source for source, _ in read_test_set(flags, config.data).pairs])
    translator = Translator.from_checkpoint(
        flags.workdir, flags.checkpoints, **flags.compute_settings
    )
    (translation,) = translator.translate([text], **flags.search_options)
    of = flags.attention_of or "encoder_decoder"
    return translation_map(translator, text, translation, of=of, each_head=flags.each_head)


def _of_stack(flags: EvaluateFlags, config: Config, text: str) -> AttentionMap:
    example: Any = text
    if task_kind(config.task) == "images":
        example = load_images(config.data, flags.split or config.data.test_split)[0][0]
    elif not text:
        raise ValueError("--attention needs a text on a run of this task: add --input=FILE.")
    run = restore(flags.workdir, flags.checkpoints, **flags.compute_settings)
    return self_attention_map(run, example, each_head=flags.each_head)


def _first_text(texts: list[str]) -> str:
    """Returns the first text that is not empty; raises ValueError if there is none."""
    for text in texts:
        if text.strip():
            return text
    raise ValueError("--attention needs a text, but the input is empty.")
