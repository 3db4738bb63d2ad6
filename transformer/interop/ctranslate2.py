"""Translation models as folders of CTranslate2, an engine for CPUs and GPUs with int8.

The converted model computes the same: also ε and the table of positions are written. CTranslate2
knows tokens by their text, so the vocabularies keep their order.
"""

import pathlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.interop import writing
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.weights.folds import position_table
from transformer.interop.weights.name_table import GAMMA_BETA, Entry, entries, write
from transformer.optional_libraries import require
from transformer.special_tokens import OWN_IDS, SpecialIds

ACTIVATIONS = {
    "relu": "RELU",
    "swish": "SWISH",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "gelu_sigmoid": "GELUSigmoid",
}
NAMES = {
    "source_positions/table": "encoder.position_encodings.encodings",
    "target_positions/table": "decoder.position_encodings.encodings",
    "source_norm": "encoder.layernorm_embedding",
    "target_norm": "decoder.layernorm_embedding",
    "layer": "@.layer.#.",
    "self_attention/query": "self_attention.linear.0",
    "self_attention/key": "self_attention.linear.0",
    "self_attention/value": "self_attention.linear.0",
    "self_attention/output": "self_attention.linear.1",
    "self_residual/LayerNorm_0": "self_attention.layer_norm",
    "encoder_attention/query": "attention.linear.0",
    "encoder_attention/key": "attention.linear.1",
    "encoder_attention/value": "attention.linear.1",
    "encoder_attention/output": "attention.linear.2",
    "encoder_residual/LayerNorm_0": "attention.layer_norm",
    "feed_forward/inner": "ffn.linear_0",
    "feed_forward/outer": "ffn.linear_1",
    "feed_forward_residual/LayerNorm_0": "ffn.layer_norm",
    "encoder/last_norm": "encoder.layer_norm",
    "decoder/last_norm": "decoder.layer_norm",
}
MAX_INPUT_LENGTH = 1024  # of a source, unless its caller raises that


def save_ctranslate2(model: PortableModel, folder: pathlib.Path, quantization: str = "") -> str:
    """Writes a new folder with model, tokenizers and README.md; returns a sentence about it.

    quantization: a number format of CTranslate2 for the matrices, as "int8"; "" is float32. Raises
    ValueError if there is no such format or the model has parts that CTranslate2 has not.
    """
    if "bfloat16" in quantization and find_spec("torch") is None:
        raise ValueError(f"CTranslate2 converts to {quantization} by PyTorch: pip install torch.")
    writing.check_holds("CTranslate2", model.config)
    decoding, target = model.config.decoding, model.tokenizers[1]
    longest = max(256, model.config.data.row_length) + decoding.max_extra_length  # in the run
    vocabularies = [writing.vocabulary(tokenizer) for tokenizer in model.tokenizers]
    length = max(MAX_INPUT_LENGTH, longest)
    spec = make_spec(model.config.model, model.params, vocabularies, length, target.special)
    save_spec(spec, folder, quantization)
    files = writing.sentencepiece_files(model.tokenizers)
    readme = writing.render(
        "ctranslate2.md.jinja",
        files=[*files],
        kinds=[type(tokenizer).__name__ for tokenizer in model.tokenizers],
        start=[writing.first_pieces(tokenizer) for tokenizer in model.tokenizers],
        joiner=getattr(target, "joiner", ""),
        end=repr(target.pieces([target.special.eos])[0]),
        decoding=decoding,
        has_gnmt=writing.is_gnmt(decoding),
        max_length=longest,
        notes=writing.search_notes(decoding, "CTranslate2"),
    )
    writing.write_files(folder, {**files, "README.md": readme})
    return f"CTranslate2, {quantization or 'float32'}"


def save_spec(spec: Any, folder: pathlib.Path, quantization: str = "") -> None:
    """Writes the files of a `TransformerSpec`."""
    spec.validate()
    spec.optimize(quantization or None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def make_spec(
    config: ModelConfig,
    params: FlatParams,
    vocabularies: Sequence[list[str]],
    length: int,
    special: SpecialIds = OWN_IDS,
) -> Any:
    """Returns the `TransformerSpec` of CTranslate2 with our parameters.

    vocabularies: the pieces of the source's and of the target's ids. length: of the table of
    positions, beyond which nothing can be translated. special: of the target.
    """
    specs = require("ctranslate2.specs")
    spec = specs.TransformerSpec.from_config(
        tuple(config.depth(is_decoder=is_decoder) for is_decoder in (False, True)),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=specs.common_spec.Activation[ACTIVATIONS[config.activation]],
        layernorm_embedding=config.embedding_norm,
    )
    _fill(spec, config, params, length)
    source, target = vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.bos_token = spec.config.decoder_start_token = target[special.bos]
    spec.config.eos_token, spec.config.unk_token = target[special.eos], target[special.unk]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _fill(spec: Any, model: ModelConfig, params: FlatParams, length: int) -> None:
    """Puts all arrays into a spec, as copies: quantisation writes into them.

    In the table of names "layer.0" is the first element of the list `layer`.
    """
    is_shared, softmax = model.embedding_sharing == "all", SOFTMAX[model.embedding_sharing]
    source, target = ("shared", "shared") if is_shared else ("source", "target")
    positions = "source_positions/table", "target_positions/table"
    params = params | {name: position_table(model, params, name, length) for name in positions}
    table = [
        Entry(f"{source}_embedding/table", "encoder.embeddings.0.weight"),
        Entry(f"{target}_embedding/table", "decoder.embeddings.weight"),
        Entry(f"{softmax}/table", "decoder.projection.weight"),
        *entries(params, {f"{softmax}/bias": "decoder.projection.bias"} | NAMES, GAMMA_BETA),
    ]
    for name, array in write(table, params).items():
        *path, last = name.split(".")
        owner = spec
        for step in path:
            owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
        setattr(owner, last, np.array(array, np.float32, order="C"))
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = model.scale_embedding
