"""Translation models as folders of CTranslate2, an engine for CPUs and GPUs with int8.

The converted model computes the same: also ε and the table of positions are written. CTranslate2
knows tokens by their text, so the vocabularies keep our order.
"""

import pathlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.portable_model import SOFTMAX, TARGET, FlatParams, PortableModel
from transformer.interop.weights.positions import position_table
from transformer.interop.writing import (
    first_pieces,
    is_gnmt,
    longest_translation,
    refuse,
    render,
    search_notes,
    sentencepiece_files,
    unsupported_settings,
    vocabulary,
)
from transformer.optional_libraries import require
from transformer.special_tokens import BOS, EOS, UNK

ACTIVATIONS = {
    "relu": "RELU",
    "swish": "SWISH",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "gelu_sigmoid": "GELUSigmoid",
}
MAX_INPUT_LENGTH = 1024  # of a source, unless its caller raises that


def save_ctranslate2(model: PortableModel, folder: pathlib.Path, quantization: str = "") -> str:
    """Writes a new folder with model, tokenizers and README.md; returns a sentence about it.

    quantization: a number format of CTranslate2 for the matrices, as "int8"; "" is float32. Raises
    ValueError if there is no such format or the model has parts that CTranslate2 has not.
    """
    check_quantization(quantization)
    unsupported = unsupported_settings(model.config)
    refuse(unsupported, "CTranslate2", "use the format program or safetensors")
    length = max(MAX_INPUT_LENGTH, longest_translation(model.config))
    vocabularies = [vocabulary(tokenizer) for tokenizer in model.tokenizers]
    spec = make_spec(model.config.model, model.params, vocabularies, length)
    save_spec(spec, folder, quantization)
    for name, content in sentencepiece_files(model.tokenizers).items():
        (folder / name).write_bytes(content)
    (folder / "README.md").write_text(_readme(model), encoding="utf-8")
    mib = (folder / "model.bin").stat().st_size / 2**20
    return f"CTranslate2, {quantization or 'float32'}, model.bin {mib:,.1f} MiB"


def _readme(model: PortableModel) -> str:
    decoding, target = model.config.decoding, model.tokenizers[1]
    return render(
        "ctranslate2/readme.md.jinja",
        files=[*sentencepiece_files(model.tokenizers)],
        kinds=[type(tokenizer).__name__ for tokenizer in model.tokenizers],
        start=[first_pieces(tokenizer) for tokenizer in model.tokenizers],
        joiner=getattr(target, "joiner", ""),
        end=repr(target.pieces([EOS])[0]),
        decoding=decoding,
        has_gnmt=is_gnmt(decoding),
        max_length=longest_translation(model.config),
        notes=search_notes(decoding, "CTranslate2"),
    )


def check_quantization(quantization: str) -> None:
    """Raises ValueError for a number format that CTranslate2 does not have."""
    known = require("ctranslate2.specs.model_spec").ACCEPTED_MODEL_TYPES
    if quantization and quantization not in known:
        raise ValueError(f"quantization is one of {', '.join(known)}, not {quantization}.")
    if "bfloat16" in quantization and find_spec("torch") is None:
        raise ValueError(
            f"CTranslate2 converts to {quantization} by PyTorch: pip install torch, or choose "
            f"{quantization.replace('bfloat16', 'float16')}."
        )


def save_spec(spec: Any, folder: pathlib.Path, quantization: str = "") -> None:
    """Writes the files of a `TransformerSpec`."""
    spec.validate()
    spec.optimize(quantization or None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def make_spec(
    config: ModelConfig, params: FlatParams, vocabularies: Sequence[list[str]], length: int
) -> Any:
    """Returns the `TransformerSpec` of CTranslate2 with our parameters.

    vocabularies: the pieces of the source's and of the target's ids. length: of the table of
    positions, beyond which nothing can be translated.
    """
    specs = require("ctranslate2.specs")
    spec = specs.TransformerSpec.from_config(
        tuple(config.depth(is_decoder=is_decoder) for is_decoder in (False, True)),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=specs.common_spec.Activation[ACTIVATIONS[config.activation]],
        layernorm_embedding=config.embedding_norm,
    )
    _Filler(config, params, length).fill(spec)
    source, target = vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS]
    spec.config.eos_token, spec.config.unk_token = target[EOS], target[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


class _Filler:
    """Puts our parameters into the spec; their linear layers are [out, in], ours [in, out]."""

    def __init__(self, config: ModelConfig, params: FlatParams, length: int) -> None:
        self._config, self._params, self._length = config, params, length

    def fill(self, spec: Any) -> None:
        """Fills both stacks and the tables."""
        sharing = self._config.embedding_sharing
        source = "shared" if sharing == "all" else "source"
        softmax = SOFTMAX[sharing]
        spec.encoder.embeddings[0].weight = self._array(f"{source}_embedding/table")
        spec.decoder.embeddings.weight = self._array(f"{TARGET[sharing]}/table")
        spec.decoder.projection.weight = self._array(f"{softmax}/table")
        if self._config.output_bias:
            spec.decoder.projection.bias = self._array(f"{softmax}/bias")
        self._fill_stack(spec.encoder, "encoder", "source")
        self._fill_stack(spec.decoder, "decoder", "target")

    def _fill_stack(self, spec: Any, name: str, side: str) -> None:
        spec.scale_embeddings = self._config.scale_embedding
        spec.position_encodings.encodings = position_table(
            self._config, self._params, side, self._length
        )
        if self._config.embedding_norm:
            self._fill_norm(spec.layernorm_embedding, f"{side}_norm")
        if self._config.norm == "pre":
            self._fill_norm(spec.layer_norm, f"{name}/last_norm")
        for i, layer in enumerate(spec.layer):
            block = f"{name}/layer_{i}"
            parts = [["query", "key", "value"], ["output"]]
            self._fill_attention(layer.self_attention, block, "self", parts)
            if name == "decoder":
                parts = [["query"], ["key", "value"], ["output"]]
                self._fill_attention(layer.attention, block, "encoder", parts)
            self._fill_norm(layer.ffn.layer_norm, f"{block}/feed_forward_residual/LayerNorm_0")
            for linear, ours in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
                self._fill_linear(linear, [f"{block}/feed_forward/{ours}"], bias=True)

    def _fill_attention(self, spec: Any, block: str, kind: str, parts: list[list[str]]) -> None:
        """Fills an attention; parts: the projections of ours in each linear layer of theirs."""
        for linear, projections in zip(spec.linear, parts, strict=True):
            names = [f"{block}/{kind}_attention/{projection}" for projection in projections]
            self._fill_linear(linear, names, bias=self._config.projection_bias)
        self._fill_norm(spec.layer_norm, f"{block}/{kind}_residual/LayerNorm_0")

    def _fill_linear(self, spec: Any, names: list[str], *, bias: bool) -> None:
        """Fills a linear layer that has the outputs of all `names`."""
        spec.weight = np.concatenate([self._array(f"{name}/kernel").T for name in names])
        if bias:
            spec.bias = np.concatenate([self._array(f"{name}/bias") for name in names])

    def _fill_norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self._array(f"{name}/scale"), self._array(f"{name}/bias")

    def _array(self, name: str) -> np.ndarray:
        return np.array(self._params[name], np.float32)  # a copy: quantisation writes into it
