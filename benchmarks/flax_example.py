"""Contestant: the `train_step` of Flax's WMT example, from the folder examples/wmt of a release.

Its train.py and models.py are imported unchanged. train.py also imports TensorFlow, CLU and its
input pipeline, which its step does not use: empty mocks replace them, so that none of them has to
be installed. This module does what its `train_and_evaluate` does before its loop: it makes the
model, the optimizer, a `pmap` over one device, and a batch with the positions and segments that its
input pipeline makes.

The example's defaults apply: pre-norm, dropout on attention weights and within the feed-forward
layer, one-hot smoothed targets, accuracy among its metrics. On a GPU its train.py would choose
float16 with dynamic loss scaling; here it gets bfloat16, as on a TPU.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import flax.io  # noqa: F401  (looks for TensorFlow, so it comes before the mock of it)
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils
from workload import Workload

MOCKED = "tensorflow", "clu", "input_pipeline"
MAX_LENGTH = 256  # its default, as are the learning rate and warm-up below


def load_train(folder: str) -> ModuleType:
    """Imports the module train.py of the example in `folder`."""
    sys.path.insert(0, folder)
    sys.modules.update({name: MagicMock() for name in MOCKED})
    train = importlib.import_module("train")
    for name in MOCKED:
        del sys.modules[name]
    return train


def make_step(workload: Workload, folder: str) -> Callable[[], jax.Array]:
    """Returns a function that does a training step and returns its loss without waiting for it."""
    train = load_train(folder)
    config = make_config(train.models, workload)
    batch = make_batch(*workload.ids())
    learning_rate_fn = make_schedule(train)
    init_rng, rng = jax.random.split(jax.random.key(0))
    state = make_state(train, config, batch, learning_rate_fn, init_rng)
    state, batch = jax_utils.replicate(state), jax.device_put(common_utils.shard(batch))
    rngs = jax.random.split(rng, jax.local_device_count())
    train_step = map_train_step(train, config, workload, learning_rate_fn)

    def step() -> jax.Array:
        nonlocal state
        state, metrics = train_step(state, batch, dropout_rng=rngs)
        return metrics["loss"]

    return step


def make_schedule(train: ModuleType) -> Callable:
    """Returns its learning rate by step."""
    return train.create_learning_rate_schedule(learning_rate=0.002, warmup_steps=1000)


def map_train_step(
    train: ModuleType,
    config: Any,
    workload: Workload,
    learning_rate_fn: Callable,
    devices: Sequence[jax.Device] | None = None,
) -> Any:
    """Returns its train_step under `pmap` over `devices`; None: all."""
    return jax.pmap(
        functools.partial(
            train.train_step,
            config=config,
            learning_rate_fn=learning_rate_fn,
            label_smoothing=workload.label_smoothing,
        ),
        axis_name="batch",
        devices=devices,
        donate_argnums=(0,),
    )


def make_config(models: ModuleType, workload: Workload) -> Any:
    """Makes its TransformerConfig with our sizes."""
    return models.TransformerConfig(
        vocab_size=workload.vocab_size,
        output_vocab_size=workload.vocab_size,
        share_embeddings=True,
        logits_via_embedding=True,
        dtype=jnp.dtype(workload.dtype),
        emb_dim=workload.d_model,
        num_heads=workload.num_heads,
        num_layers=workload.num_layers,
        qkv_dim=workload.d_model,
        mlp_dim=workload.d_ff,
        max_len=MAX_LENGTH,
        dropout_rate=workload.dropout_rate,
        attention_dropout_rate=0.0 if workload.paper_dropout else workload.dropout_rate,
    )


def make_state(
    train: ModuleType, config: Any, batch: dict, learning_rate_fn: Callable, rng: jax.Array
) -> Any:
    """Makes its TrainState, with AdamW and its weight decay of 0."""
    network = train.models.Transformer(config.replace(deterministic=True))
    variables = jax.jit(network.init)(rng, batch["inputs"], batch["targets"])
    optimizer = optax.adamw(learning_rate_fn, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.0)
    return train.TrainState.create(
        apply_fn=network.apply, params=variables["params"], tx=optimizer, dynamic_scale=None
    )


def make_batch(inputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Makes the features of its input pipeline from ids [B, S] and [B, T], a sentence per row."""
    batch = {}
    for name, ids in (("inputs", inputs), ("targets", targets)):
        positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
        segments = np.ones_like(ids)
        batch |= {name: ids, f"{name}_position": positions, f"{name}_segmentation": segments}
    return batch
