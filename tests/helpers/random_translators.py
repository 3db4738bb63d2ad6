"""Translators with random weights with which translations of many lengths win."""

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from tests.helpers.control_ids import BOS, EOS, PAD
from tests.helpers.tiny_models import make_batch, random_params, tiny_config
from transformer.checkpoint.restore import Run
from transformer.config import Config, DecodingConfig
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.inference.translator import Translator
from transformer.interop.portable_model import PortableModel
from transformer.interop.weights.named_arrays import flat_parameters
from transformer.model.encoder_decoder import Transformer

WORDS = [f"w{i}" for i in range(36)]
NEVER = -30.0  # the logit of PAD


def random_translator(eos_logit=1.4, tokenizers=None, **changes):
    """A `Translator` of random weights, which gives no PAD or BOS; changes: of the ModelConfig.

    eos_logit: what the row of EOS adds to its logit.
    """
    tokenizers = tokenizers or (PiecesTokenizer(WORDS, "@@"),) * 2
    model = tiny_config(**(dict(d_model=32, d_ff=64, num_heads=4) | changes))
    network = Transformer(model, *(tokenizer.vocab_size for tokenizer in tokenizers))
    batch = make_batch([[([EOS], [EOS])]], 1, 1)
    params = random_params(network.init, batch, deterministic=True)
    flat = {name: np.array(array) for name, array in flatten_dict(params, sep="/").items()}
    last = f"layer_{model.depth(is_decoder=True) - 1}/feed_forward_residual/LayerNorm_0"
    norm = f"decoder/{'last_norm' if model.norm == 'pre' else last}"
    if model.norm_type == "layer_norm":
        _set_logits(flat, norm, model, eos_logit)
    config = Config(model=model, decoding=DecodingConfig(batch_size=8, max_extra_length=12))
    config.data.row_length = 64
    return Translator(Run.in_memory(config, tokenizers, params=unflatten_dict(flat, sep="/")))


def _set_logits(flat, norm, model, eos_logit):
    """Makes EOS likely and PAD and BOS impossible, whatever comes before them."""
    scale, bias = flat[f"{norm}/scale"], flat[f"{norm}/bias"]
    name = {"all": "shared_embedding", "target": "target_embedding", "none": "softmax"}
    table = flat[f"{name[model.embedding_sharing]}/table"]
    table[EOS] += eos_logit * bias / (bias @ bias)
    # Times z · scale + bias, where the components of z add up to 0, that is a constant.
    table[PAD] = NEVER / (bias / scale).sum() / scale
    table[BOS] = 0.7 * table[PAD]


def random_sentences(number=16, longest=12):
    """Random words, of random lengths."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, longest))) for _ in range(number)]


def as_written(translator):
    """The model of a translator as the writers of formats take it."""
    tokenizers = translator.source_tokenizer, translator.tokenizer
    return PortableModel(translator.config, flat_parameters(translator.params), tokenizers)
