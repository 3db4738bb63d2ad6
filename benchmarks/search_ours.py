"""Contestant: this repository's `Translator`."""

import jax
from flax.traverse_util import unflatten_dict

from transformer.config import Config, ModelConfig
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.inference.translator import Translator
from transformer.special_tokens import NUM_SPECIAL


def make_search(workload):
    """search(beam_size, alpha, …) -> the `nbest` translations of each sentence.

    num_pieces: as many pieces, all sources being equally long, or 0: up to the end of sentence.
    """
    translator = make_translator(workload)
    sentences = workload.sentences()

    def search(beam_size, alpha, num_pieces=0, nbest=1, early_stopping=False):
        options = dict(beam_size=beam_size, alpha=alpha, length_penalty="power", nbest=nbest)
        options |= dict(early_stopping=early_stopping)
        if num_pieces:
            source_length = len(sentences[0].split()) + 1
            options |= dict(min_length=num_pieces, max_extra_length=num_pieces - source_length)
        found = translator.translate(sentences, **options)
        if workload.is_text:
            return [[translation.text for translation in best] for best in found]
        return [[" ".join(translator.tokenizer.pieces(t.ids[:-1])) for t in best] for best in found]

    return search


def make_translator(workload):
    """A `Translator` of the run, or with the weights of the folder."""
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
    return Translator(config, jax.device_put(params), tokenizers)
