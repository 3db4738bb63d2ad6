"""Our weights as a CTranslate2 model; needs ctranslate2, neither JAX nor torch.

All of our model can be expressed, LayerNorm's epsilon and the table of positions too; of the
options, shared embeddings and heads of d_model / num_heads alone.
"""

import numpy as np
from ctranslate2.converters import Converter
from ctranslate2.specs import TransformerSpec

BOS, EOS, UNK = "<s>", "</s>", "<unk>"
EPSILON = 1e-6


class OurConverter(Converter):
    """config: the fields of our ModelConfig; weights: {"encoder/layer_0/…": array, "positions"}.

    vocabulary: a string for every id, the control ids among them. `convert(folder)` writes it.
    """

    def __init__(self, config, weights, vocabulary):
        if config["embedding_sharing"] != "all" or config["head_dim"] or config["value_dim"]:
            raise ValueError("Only shared embeddings and heads of d_model / num_heads convert.")
        self._config, self._weights, self._vocabulary = config, weights, vocabulary

    def _load(self):
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

    def _fill_stack(self, spec, name):
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

    def _fill_attention(self, spec, block, kind, kernels):
        """kernels: of each linear layer of theirs, the projections of ours that it does at once."""
        for linear, names in zip(spec.linear, kernels, strict=True):
            parts = [self._kernel(f"{block}/{kind}_attention/{name}") for name in names]
            linear.weight = np.concatenate(parts)
        self._fill_norm(spec.layer_norm, f"{block}/{kind}_residual/LayerNorm_0")

    def _fill_norm(self, spec, name):
        spec.gamma, spec.beta = self._weights[f"{name}/scale"], self._weights[f"{name}/bias"]

    def _kernel(self, name):
        return np.ascontiguousarray(self._weights[f"{name}/kernel"].T)
