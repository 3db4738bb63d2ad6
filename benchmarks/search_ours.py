"""Contestant: this repository's `Translator`."""

from collections.abc import Callable
from typing import Any

import jax
from flax.traverse_util import unflatten_dict
from search_workload import SearchWorkload

from transformer.checkpoint.restore import Run
from transformer.config import Config, ModelConfig
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.inference.translator import Translator
from transformer.special_tokens import NUM_SPECIAL


def make_search(workload: SearchWorkload) -> Callable[..., list[list[str]]]:
    """Returns search(beam_size, alpha, …), which returns `nbest` translations per sentence.

    Its num_tokens is the number of tokens of every translation, with sources of one length; 0 lets
    sentences end by themselves.
    """
    translator = make_translator(workload)
    sentences = workload.sentences()

    def search(
        beam_size: int,
        alpha: float,
        num_tokens: int = 0,
        nbest: int = 1,
        early_stopping: bool = False,
    ) -> list[list[str]]:
        options: dict[str, Any] = {
            "beam_size": beam_size,
            "alpha": alpha,
            "length_penalty": "power",
            "nbest": nbest,
            "early_stopping": early_stopping,
        }
        if num_tokens:
            source_length = len(sentences[0].split()) + 1
            options["min_length"] = num_tokens
            options["max_extra_length"] = num_tokens - source_length
        found = translator.translate(sentences, **options)
        if workload.is_text:
            return [[translation.text for translation in best] for best in found]
        return [[" ".join(translator.tokenizer.pieces(t.ids[:-1])) for t in best] for best in found]

    return search


def make_translator(workload: SearchWorkload) -> Translator:
    """Makes a `Translator` of the run, or with the weights of the folder."""
    if workload.workdir:
        translator = Translator.from_checkpoint(workload.workdir)
        config, params = translator.config, translator.params
        tokenizers = translator.source_tokenizer, translator.tokenizer
    else:
        model, weights, vocabulary = workload.model()
        del weights["positions"]
        config, params = Config(model=ModelConfig(**model)), unflatten_dict(weights, sep="/")
        tokenizers = (PiecesTokenizer(vocabulary[NUM_SPECIAL:], ""),) * 2
    config.model.dtype = workload.dtype
    config.decoding.batch_size = workload.batch_size or config.decoding.batch_size
    devices = jax.local_devices() if workload.device == "cpu" else jax.local_devices()[:1]
    return Translator(Run.in_memory(config, tokenizers, params=jax.device_put(params)), devices)
