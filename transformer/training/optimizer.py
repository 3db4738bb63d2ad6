"""Schedules of the learning rate and optimizers, as one optax transformation (section 5.3)."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from transformer.checkpoint.train_state import EmaState
from transformer.config import OptimizerConfig

COOLDOWN_SHARE = 0.2  # of the decay steps after the warm-up, with wsd
MUON_RMS = 0.2  # of an update's elements, as Adam's are (Liu et al. 2025)

DECAYS: dict[str, Callable[[jax.Array], jax.Array]] = {  # from 1 to 0, of the share that has passed
    "cosine": lambda x: (1 + jnp.cos(jnp.pi * x)) / 2,  # Loshchilov & Hutter 2017
    "linear": lambda x: 1 - x,
    "wsd": lambda x: jnp.minimum(1, (1 - x) / COOLDOWN_SHARE),  # Hu et al. 2024, Hägele et al. 2024
}


class Numbers(NamedTuple):
    """The numbers of a schedule; `_rate` computes with them. As Python's, or as arrays []."""

    factor: Any
    warmup: Any
    rise: Any  # per step of the warm-up
    fall: Any  # share of the decay per step after it
    final: Any
    above_final: Any


class ScheduleState(NamedTuple):
    """How many updates there were, and the schedule of their learning rate."""

    count: jax.Array
    numbers: Numbers


def make_schedule(
    config: OptimizerConfig, d_model: int
) -> Callable[[jax.typing.ArrayLike], jax.Array]:
    """Returns lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation (3).

    `config.peak_learning_rate` scales it to another peak; with `config.decay_steps` a curve of
    `DECAYS` replaces the inverse square root. The schedule takes optax's count, which is 0 at the
    first step: the paper's step is count + 1.
    """
    return partial(_rate, config, _numbers(config, d_model))


def _numbers(config: OptimizerConfig, d_model: int) -> Numbers:
    warmup, final = config.warmup_steps, config.final_share
    factor = d_model**-0.5
    if config.peak_learning_rate:
        factor = config.peak_learning_rate * warmup**0.5
    if not config.decay_steps:
        return Numbers(factor, warmup, warmup**-1.5, 0.0, 0.0, 0.0)
    fall = 1 / max(1, config.decay_steps - warmup)
    return Numbers(factor * warmup**-0.5, warmup, 1 / warmup, fall, final, 1 - final)


def _rate(config: OptimizerConfig, n: Numbers, count: jax.typing.ArrayLike) -> jax.Array:
    """Returns the learning rate; the kind of the schedule is `config`'s, its numbers are `n`."""
    step = jnp.asarray(count, jnp.float32) + 1
    if not config.decay_steps:
        return n.factor * jnp.minimum(step**-0.5, step * n.rise)
    passed = jnp.clip((step - n.warmup) * n.fall, 0, 1)
    decayed = n.final + n.above_final * DECAYS[config.decay](passed)
    return n.factor * jnp.minimum(step * n.rise, decayed)


def _scale_by_schedule(config: OptimizerConfig, d_model: int) -> optax.GradientTransformation:
    """Returns `optax.scale_by_learning_rate` of a schedule whose numbers are in the state.

    So another schedule, as of other steps, is the same program.
    """

    def init(params: Any) -> ScheduleState:
        numbers = Numbers(*map(jnp.float32, _numbers(config, d_model)))
        return ScheduleState(jnp.zeros((), jnp.int32), numbers)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, ScheduleState]:
        rate = -1 * _rate(config, state.numbers, state.count)
        updates = jax.tree.map(lambda u: rate.astype(u.dtype) * u, updates)
        return updates, state._replace(count=state.count + 1)

    return optax.GradientTransformation(init, update)


def make_optimizer(config: OptimizerConfig, d_model: int) -> optax.GradientTransformation:
    """Returns the optimizer that the configuration names, by default Adam with the paper's β and ε.

    Clipping and weight decay are added if the configuration sets them. For every optimizer the
    decay is decoupled (AdamW) and multiplied by the learning rate.
    """
    steps = [_make_direction(config)]
    if config.weight_decay:
        # of matrices: biases and norms do not decay
        is_matrix = partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
        steps.append(optax.add_decayed_weights(config.weight_decay, mask=is_matrix))
    optimizer = optax.chain(*steps, _scale_by_schedule(config, d_model))
    if config.clip_norm:
        optimizer = optax.chain(optax.clip_by_global_norm(config.clip_norm), optimizer)
    return _keep_ema(optimizer, config.ema_decay) if config.ema_decay else optimizer


def _keep_ema(
    optimizer: optax.GradientTransformation, decay: float
) -> optax.GradientTransformation:
    """Returns the optimizer with an `EmaState`; after n updates the decay is at most n/(9+n).

    So the initial parameters are soon forgotten, as in TensorFlow and Marian.
    """

    def init(params: Any) -> Any:
        return EmaState(optimizer.init(params), jnp.zeros((), jnp.int32), params)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, inner = optimizer.update(updates, state.optimizer, params)
        count = state.count + 1
        share = 1 - jnp.minimum(decay, count / (9 + count))
        updated = optax.apply_updates(params, updates)
        ema = optax.incremental_update(updated, state.ema, share)
        return updates, EmaState(inner, count, ema)

    return optax.GradientTransformation(init, update)


def _make_direction(config: OptimizerConfig) -> optax.GradientTransformation:
    """Returns the map from gradients to updates for a learning rate of -1."""
    adam = optax.scale_by_adam(config.beta1, config.beta2, config.epsilon)
    match config.name:
        case "adam":
            return adam
        case "lion":
            return optax.scale_by_lion(config.beta1, config.beta2)
        case "adafactor":  # as `optax.adafactor`, whose weight decay ignores the learning rate
            return optax.chain(
                optax.scale_by_factored_rms(),
                optax.clip_by_block_rms(1.0),
                optax.scale_by_param_block_rms(),
            )
    # Muon (Jordan 2024), with updates as large as Adam's (Liu et al. 2025).
    matrix = optax.contrib.MuonDimensionNumbers()
    muon = optax.contrib.scale_by_muon(
        weight_dimension_numbers=lambda updates: jax.tree.map(lambda _: matrix, updates)
    )
    rescale = partial(jax.tree.map, lambda x: MUON_RMS * max(x.shape) ** 0.5 * x)
    muon = optax.chain(muon, optax.stateless(lambda updates, _: rescale(updates)))
    return optax.partition({"muon": muon, "adam": adam}, _label_for_muon)


def _label_for_muon(params: Any) -> Any:
    """Returns a tree of "muon" for the matrices inside the layers, and "adam" for all the rest."""

    def label(path: jax.tree_util.KeyPath, leaf: jax.Array) -> str:
        is_in_layer = any(str(key.key).startswith("layer_") for key in path)
        return "muon" if is_in_layer and leaf.ndim == 2 else "adam"

    return jax.tree_util.tree_map_with_path(label, params)
