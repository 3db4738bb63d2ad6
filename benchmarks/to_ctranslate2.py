"""Converts our weights to a CTranslate2 model; needs ctranslate2, neither JAX nor torch.

The converted model is exact, with LayerNorm's epsilon and the table of positions. It must have
shared embeddings and heads of d_model / num_heads.
"""

from typing import Any

import numpy as np
from ctranslate2.converters import Converter
from ctranslate2.specs import TransformerSpec

BOS, EOS, UNK = "<s>", "</s>", "<unk>"
EPSILON = 1e-6


class OurConverter(Converter):
    """Converts weights {"encoder/layer_0/…": array, "positions": array}; `convert` writes a folder.

    config: the fields of our ModelConfig. vocabulary: a string for every id, special tokens
    included.
    """

    def __init__(
        self, config: dict[str, Any], weights: dict[str, np.ndarray], vocabulary: list[str]
    ) -> None:
        if config["embedding_sharing"] != "all" or config["head_dim"] or config["value_dim"]:
            raise ValueError("Only shared embeddings and heads of d_model / num_heads convert.")
        self._config, self._weights, self._vocabulary = config, weights, vocabulary

    def _load(self) -> TransformerSpec:
        config = self._config
        spec = TransformerSpec.from_config(
            config["num_layers"], config["num_heads"], pre_norm=config["norm"] == "pre"
        )
        table = self._weights["shared_embedding/table"]
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
        spec.decoder.projection.weight = table
        for name in ("encoder", "decoder"):
            self._fill_stack(getattr(spec, name), name)
        spec.register_source_vocabulary(self._vocabulary)
        spec.register_target_vocabulary(self._vocabulary)
        spec.config.bos_token = spec.config.decoder_start_token = BOS
        spec.config.eos_token, spec.config.unk_token = EOS, UNK
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = EPSILON
        return spec

    def _fill_stack(self, spec: Any, name: str) -> None:
        spec.position_encodings.encodings = self._weights["positions"]
        if hasattr(spec, "layer_norm"):
            self._fill_norm(spec.layer_norm, f"{name}/last_norm")
        for i, layer in enumerate(spec.layer):
            block = f"{name}/layer_{i}"
            kernels = ["query", "key", "value"]
            self._fill_attention(layer.self_attention, block, "self", [kernels, ["output"]])
            if hasattr(layer, "attention"):
                kernels = [["query"], ["key", "value"], ["output"]]
                self._fill_attention(layer.attention, block, "encoder", kernels)
            self._fill_norm(layer.ffn.layer_norm, f"{block}/feed_forward_residual/LayerNorm_0")
            for linear, ours in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
                linear.weight = self._kernel(f"{block}/feed_forward/{ours}")
                linear.bias = self._weights[f"{block}/feed_forward/{ours}/bias"]

    def _fill_attention(self, spec: Any, block: str, kind: str, kernels: list[list[str]]) -> None:
        """Fills an attention; kernels: the projections of ours in each linear layer of theirs."""
        for linear, names in zip(spec.linear, kernels, strict=True):
            parts = [self._kernel(f"{block}/{kind}_attention/{name}") for name in names]
            linear.weight = np.concatenate(parts)
        self._fill_norm(spec.layer_norm, f"{block}/{kind}_residual/LayerNorm_0")

    def _fill_norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self._weights[f"{name}/scale"], self._weights[f"{name}/bias"]

    def _kernel(self, name: str) -> np.ndarray:
        return np.ascontiguousarray(self._weights[f"{name}/kernel"].T)
