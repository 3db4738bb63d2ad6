"""Contestant: PyTorch's nn.Transformer, with the parts that it leaves to its user.

Its own: post-norm, ReLU, biases in attention, a last norm after each stack, dropout also on
attention weights and within the feed-forward layer. Added here: one table for both embeddings
(scaled) and the softmax, sinusoids, cross-entropy with label smoothing, Adam. There is no padding
and so no padding mask, which lets its fused attention run. On a GPU it is compiled, under autocast.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from workload import Workload, sinusoids

BOS = 1


class Network(nn.Module):
    """Computes the mean loss of inputs [B, S] and targets [B, T]."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.embedding = nn.Embedding(workload.vocab_size, workload.d_model)
        nn.init.normal_(self.embedding.weight, std=workload.d_model**-0.5)
        self.dropout = nn.Dropout(workload.dropout_rate)
        self.transformer = nn.Transformer(
            d_model=workload.d_model,
            nhead=workload.num_heads,
            num_encoder_layers=workload.num_layers,
            num_decoder_layers=workload.num_layers,
            dim_feedforward=workload.d_ff,
            dropout=workload.dropout_rate,
            batch_first=True,
        )
        self.loss = nn.CrossEntropyLoss(label_smoothing=workload.label_smoothing)
        length = max(workload.source_length, workload.target_length)
        positions = torch.from_numpy(sinusoids(length, workload.d_model))
        self.register_buffer("positions", positions)
        mask = nn.Transformer.generate_square_subsequent_mask(workload.target_length)
        self.register_buffer("causal_mask", mask)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        decoder_inputs = nn.functional.pad(targets[:, :-1], (1, 0), value=BOS)
        x = self.transformer(
            self._embed(inputs),
            self._embed(decoder_inputs),
            tgt_mask=self.causal_mask,
            tgt_is_causal=True,
        )
        logits = nn.functional.linear(x, self.embedding.weight)
        return self.loss(logits.flatten(0, 1), targets.flatten())

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        vectors = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(vectors + self.positions[: ids.shape[1]])


def keep_paper_dropout(network: Network) -> None:
    """Removes the dropout that the paper does not have."""
    for module in network.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            module.dropout = nn.Identity()  # the one within the feed-forward layer


def make_step(workload: Workload) -> Callable[[], torch.Tensor]:
    """Returns a function that does a training step and returns its loss without waiting for it."""
    torch.manual_seed(0)
    on_gpu = workload.device == "gpu"
    device = "cuda" if on_gpu else "cpu"
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    else:
        torch.set_num_threads(workload.num_threads)
    network = Network(workload).to(device).train()
    if workload.paper_dropout:
        keep_paper_dropout(network)
    compute_loss = torch.compile(network) if on_gpu else network
    optimizer = torch.optim.Adam(
        network.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=on_gpu or None
    )
    batch = [torch.as_tensor(ids, dtype=torch.long, device=device) for ids in workload.ids()]
    dtype = getattr(torch, workload.dtype)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = compute_loss(*batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
