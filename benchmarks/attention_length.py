"""Times attention against length: full, by a fused kernel, under a window, and by a Performer.

python benchmarks/attention_length.py
python benchmarks/attention_length.py --lengths=512,2048 --dtype=bfloat16 --mask=causal

One process; in every round each function runs once forward, and once forward and backward, another
one first each time. Milliseconds are medians over the rounds, without the compiles. "error" is the
root mean square of the difference from full attention over that of its result, for queries and keys
with entries of deviation --deviation; local attention is held against full attention under its
window, of which it is no sketch but the same.
"""

import argparse
import datetime
import time
from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
from referee import describe_machine
from table import align

from transformer.model.attention_functions import fused_attention, scaled_dot_product_attention
from transformer.model.efficient_attention import local_attention, performer_attention
from transformer.model.masks import causal_mask


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--head_dim", type=int, default=64)
    parser.add_argument("--block", type=int, default=64, help="of local attention")
    parser.add_argument("--features", type=int, default=256, help="of the Performer")
    parser.add_argument("--deviation", type=float, default=0.5, help="of entries of q and k")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--mask", choices=["none", "causal"], default="none")
    return parser.parse_args()


def contestants(arguments):
    """{name: attention function}; a Performer has no causal mask."""
    functions = {
        "scaled_dot_product": scaled_dot_product_attention,
        "fused": fused_attention,
        "local": partial(local_attention, block=arguments.block),
        "performer": partial(performer_attention, num_features=arguments.features),
    }
    if arguments.mask == "causal":
        functions.popitem()
    return functions


def compile_pair(attention, qkv, mask):
    """(forward, forward and backward) of a function, both compiled and run once."""

    def loss(qkv):
        return attention(*qkv, mask=mask).astype(jnp.float32).var()

    pair = jax.jit(lambda qkv: attention(*qkv, mask=mask)), jax.jit(jax.grad(loss))
    for run in pair:
        jax.block_until_ready(run(qkv))
    return pair


def milliseconds(run, qkv):
    start = time.perf_counter()
    jax.block_until_ready(run(qkv))
    return 1000 * (time.perf_counter() - start)


def measure(functions, qkv, mask, num_rounds):
    """{name: (median of forward, of forward and backward, error)} at one length."""
    compiled = {name: compile_pair(f, qkv, mask) for name, f in functions.items()}
    times = {name: ([], []) for name in functions}
    names = list(functions)
    for turn in range(num_rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            for run, found in zip(compiled[name], times[name], strict=True):
                found.append(milliseconds(run, qkv))
    results = {name: np.float32(pair[0](qkv)) for name, pair in compiled.items()}
    errors = {}
    for name, ours in results.items():
        full = results["scaled_dot_product"]
        if name == "local":
            full = np.float32(under_window(qkv, mask, functions[name].keywords["block"]))
        errors[name] = np.sqrt(((ours - full) ** 2).mean() / (full**2).mean())
    return {name: (*map(median, times[name]), errors[name]) for name in functions}


def under_window(qkv, mask, block):
    """Full attention [B, T, N, H] that sees what local attention does."""
    places = jnp.arange(qkv[0].shape[1])
    seen = (abs(places[:, None] - places) <= block)[None, None]
    return scaled_dot_product_attention(*qkv, mask=seen if mask is None else seen & mask)


def make_inputs(arguments, length):
    """(query, key, value), each [B, T, N, H], and the mask."""
    rng = np.random.default_rng(0)
    shape = arguments.rows, length, arguments.heads, arguments.head_dim
    deviations = arguments.deviation, arguments.deviation, 1
    qkv = [jnp.asarray(d * rng.normal(size=shape), arguments.dtype) for d in deviations]
    return qkv, causal_mask(length) if arguments.mask == "causal" else None


def main():
    arguments = parse_arguments()
    device = jax.devices()[0].platform
    print(f"{datetime.date.today()}, {describe_machine(device)}, jax {jax.__version__}")
    print(
        f"{arguments.rows} × {arguments.heads} heads of {arguments.head_dim}, {arguments.dtype}, "
        f"mask {arguments.mask}, block {arguments.block}, {arguments.features} features; entries "
        f"of q and k deviate by {arguments.deviation}; medians of {arguments.rounds} rounds"
    )
    rows = [("length, attention", "forward", "and backward", "full/it", "and backward", "error")]
    for length in map(int, arguments.lengths.split(",")):
        qkv, mask = make_inputs(arguments, length)
        results = measure(contestants(arguments), qkv, mask, arguments.rounds)
        forward, both, _ = results["scaled_dot_product"]
        for name, (its_forward, its_both, error) in results.items():
            label = f"{length:>6,}  {name}"
            cells = f"{its_forward:,.1f} ms", f"{its_both:,.1f} ms"
            ratios = f"{forward / its_forward:.2f}", f"{both / its_both:.2f}"
            rows.append((label, *cells, *ratios, f"{error:.1e}"))
    print(align(rows))


if __name__ == "__main__":
    main()
