"""The same weights in torch.nn.Transformer give the same logits; skipped where torch is missing."""

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, sentence, tiny_model
from transformer.model.encoder_decoder import shift_right
from transformer.registry import POSITION_ENCODINGS

torch = pytest.importorskip("torch")


def copy(parameter, array):
    """Puts a flax kernel [in, out] or vector into a torch parameter [out, in]."""
    with torch.no_grad():
        parameter.copy_(torch.tensor(np.array(array).T))


def copy_attention(theirs, ours):
    kernels = [ours[name]["kernel"] for name in ("query", "key", "value")]
    copy(theirs.in_proj_weight, np.concatenate(kernels, axis=1))
    copy(theirs.out_proj.weight, ours["output"]["kernel"])
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):  # the paper's attention has none
        torch.nn.init.zeros_(bias)


def copy_norm(theirs, ours):
    copy(theirs.weight, ours["scale"])
    copy(theirs.bias, ours["bias"])


def copy_layer(theirs, ours):
    residuals = ["self_residual", "encoder_residual", "feed_forward_residual"]
    residuals = [name for name in residuals if name in ours]
    copy_attention(theirs.self_attn, ours["self_attention"])
    if "encoder_attention" in ours:
        copy_attention(theirs.multihead_attn, ours["encoder_attention"])
    for i, name in enumerate(residuals, start=1):
        copy_norm(getattr(theirs, f"norm{i}"), ours[name]["LayerNorm_0"])
    for linear, name in ((theirs.linear1, "inner"), (theirs.linear2, "outer")):
        copy(linear.weight, ours["feed_forward"][name]["kernel"])
        copy(linear.bias, ours["feed_forward"][name]["bias"])


def make_torch_transformer(config, params):
    theirs = torch.nn.Transformer(
        config.d_model,
        config.num_heads,
        config.num_layers,
        config.num_layers,
        config.d_ff,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=config.norm == "pre",
    )
    for stack, ours in ((theirs.encoder, params["encoder"]), (theirs.decoder, params["decoder"])):
        for i, layer in enumerate(stack.layers):
            copy_layer(layer, ours[f"layer_{i}"])
        if config.norm == "pre":
            copy_norm(stack.norm, ours["last_norm"])
        else:
            stack.norm = None  # torch adds a last norm, which the paper's post-norm model lacks
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_logits_equal_torchs(norm):
    """Catches any difference from an independent Transformer: heads, norms, masks, order."""
    rng = np.random.default_rng(0)
    lengths = ((6, 3), (1, 7), (4, 5))
    batch = make_batch([[(sentence(rng, s), sentence(rng, t))] for s, t in lengths], 6, 7)
    model = tiny_model(norm=norm)
    params = random_params(model.init, batch, deterministic=True)
    ours = jax.jit(lambda p: model.apply({"params": p}, batch, deterministic=True))(params)

    table = np.asarray(params["shared_embedding"]["table"])

    def embed(ids, positions):
        vectors = POSITION_ENCODINGS[model.config.positions](model.config).apply({}, positions)
        return torch.tensor(table[ids] * model.config.d_model**0.5 + np.asarray(vectors))

    is_source_padding = torch.tensor(batch.input_segments == 0)
    attended = make_torch_transformer(model.config, params)(
        embed(batch.inputs, batch.input_positions),
        embed(shift_right(batch.targets, batch.target_positions, 1), batch.target_positions),
        tgt_mask=torch.ones(7, 7).triu(1).bool(),
        src_key_padding_mask=is_source_padding,
        memory_key_padding_mask=is_source_padding,
        tgt_key_padding_mask=torch.tensor(batch.target_segments == 0),
    )
    theirs = attended.detach().numpy() @ table.T
    difference = np.abs(np.asarray(ours) - theirs)[batch.target_segments != 0].max()
    print(f"largest difference of a logit, {norm}-norm: {difference:.1e}")
    assert difference < 1e-5
