"""Times attention functions at several lengths: full, fused, sparse and Performer.

python benchmarks/attention_length.py
python benchmarks/attention_length.py --lengths=512,2048 --dtype=bfloat16 --mask=causal

In one process, each function runs once forward, and once forward and backward, in every round; each
round begins with another function. Milliseconds are medians over the rounds, without compiling.
"error" is the root mean square of the difference from full attention, divided by that of full
attention's result, for queries and keys whose entries have standard deviation --deviation. Sparse
attention is no approximation: its error is taken from full attention under its pattern. "memory" is
what the compiled program, forward and backward, holds at once besides its arguments and results.
"""

import argparse
import datetime
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
from referee import describe_machine
from table import align

from transformer.model.attention import causal_mask
from transformer.model.attention_functions import fused_attention, scaled_dot_product_attention
from transformer.model.performer_attention import performer_attention
from transformer.model.sparse_attention import PATTERNS, sparse_attention


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--head_dim", type=int, default=64)
    parser.add_argument(
        "--block", type=int, default=64, help="model.attention_block of local, strided and fixed"
    )
    parser.add_argument(
        "--features", type=int, default=256, help="random features of the Performer"
    )
    parser.add_argument(
        "--deviation", type=float, default=0.5, help="standard deviation of the entries of q and k"
    )
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--mask", choices=["none", "causal"], default="none")
    parser.add_argument(
        "--longest_full", type=int, default=8192, help="length up to which all pairs are computed"
    )
    return parser.parse_args()


def attention_functions(arguments: argparse.Namespace, length: int) -> dict[str, Callable]:
    """Returns {name: attention function}."""
    sparse = partial(sparse_attention, block=arguments.block)
    functions = {name: partial(sparse, pattern=name) for name in PATTERNS}
    functions["performer"] = partial(performer_attention, num_features=arguments.features)
    if length > arguments.longest_full:
        return functions
    full = {"scaled_dot_product": scaled_dot_product_attention, "fused": fused_attention}
    return full | functions


def compile_pair(attention: Callable, qkv: list[jax.Array], mask: jax.Array | None) -> tuple:
    """Returns (forward, forward and backward) of a function, both compiled and run once."""

    def loss(qkv: list[jax.Array]) -> jax.Array:
        return attention(*qkv, mask=mask).astype(jnp.float32).var()

    forward = jax.jit(lambda qkv: attention(*qkv, mask=mask)).lower(qkv).compile()
    pair = forward, jax.jit(jax.grad(loss)).lower(qkv).compile()
    for run in pair:
        jax.block_until_ready(run(qkv))
    return pair


def milliseconds(run: Callable, qkv: list[jax.Array]) -> float:
    """Times one run to the end of the device's work."""
    start = time.perf_counter()
    jax.block_until_ready(run(qkv))
    return 1000 * (time.perf_counter() - start)


def measure(
    functions: dict[str, Callable], qkv: list[jax.Array], mask: jax.Array | None, num_rounds: int
) -> dict[str, tuple[float, float, float, float]]:
    """Returns {name: (ms forward, ms forward and backward, MiB, error)} at one length.

    The milliseconds are medians; the error is NaN where full attention is not computed.
    """
    compiled = {name: compile_pair(f, qkv, mask) for name, f in functions.items()}
    times = {name: ([], []) for name in functions}
    names = list(functions)
    for turn in range(num_rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            for run, found in zip(compiled[name], times[name], strict=True):
                found.append(milliseconds(run, qkv))
    results = {name: np.float32(pair[0](qkv)) for name, pair in compiled.items()}
    found = {}
    for name, (_, both) in compiled.items():
        memory = both.memory_analysis().temp_size_in_bytes / 2**20
        error = np.nan
        if "scaled_dot_product" in results:
            full = results["scaled_dot_product"]
            if name in PATTERNS:
                full = np.float32(full_under_pattern(qkv, mask, **functions[name].keywords))
            error = np.sqrt(((results[name] - full) ** 2).mean() / (full**2).mean())
        found[name] = (*map(median, times[name]), memory, error)
    return found


def full_under_pattern(
    qkv: list[jax.Array], mask: jax.Array | None, block: int, pattern: str
) -> jax.Array:
    """Returns full attention [B, T, N, H] under the mask of sparse attention."""
    positions = jnp.arange(qkv[0].shape[1])
    seen = PATTERNS[pattern](positions[:, None], positions, block)[None, None]
    return scaled_dot_product_attention(*qkv, mask=seen if mask is None else seen & mask)


def make_inputs(
    arguments: argparse.Namespace, length: int
) -> tuple[list[jax.Array], jax.Array | None]:
    """Returns [query, key, value], each [B, T, N, H], and the mask."""
    rng = np.random.default_rng(0)
    shape = arguments.rows, length, arguments.heads, arguments.head_dim
    deviations = arguments.deviation, arguments.deviation, 1
    qkv = [jnp.asarray(d * rng.normal(size=shape), arguments.dtype) for d in deviations]
    return qkv, causal_mask(length) if arguments.mask == "causal" else None


def main() -> None:
    arguments = parse_arguments()
    device = jax.devices()[0].platform
    print(f"{datetime.date.today()}, {describe_machine(device)}, jax {jax.__version__}")
    print(
        f"{arguments.rows} × {arguments.heads} heads of {arguments.head_dim}, {arguments.dtype}, "
        f"mask {arguments.mask}, block {arguments.block}, {arguments.features} features; standard "
        f"deviation of q and k {arguments.deviation}; medians of {arguments.rounds} rounds"
    )
    rows = [("length, attention", "forward", "and backward", "memory", "error")]
    for length in map(int, arguments.lengths.split(",")):
        qkv, mask = make_inputs(arguments, length)
        functions = attention_functions(arguments, length)
        results = measure(functions, qkv, mask, arguments.rounds)
        for name, (forward, both, memory, error) in results.items():
            label = f"{length:>6,}  {name}"
            cells = f"{forward:,.1f} ms", f"{both:,.1f} ms", f"{memory:,.0f} MiB"
            rows.append((label, *cells, "–" if np.isnan(error) else f"{error:.1e}"))
    print(align(rows))


if __name__ == "__main__":
    main()
