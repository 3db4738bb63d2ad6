"""How full rows become, and how long planning takes, for a synthetic corpus of any size.

Sentence pairs have log-normal lengths, as those of text. Prints the share of positions that hold a
token, and the seconds for what a restarted run waits for: the number of batches, and the plan of a
block in the middle of an epoch.

    python benchmarks/packing.py --pairs=1000000 --row_length=128
"""

import argparse
import time

import numpy as np

from transformer.data.epoch_plan import CorpusPart, EpochPlan
from transformer.data.packing import choose_source_length

CHUNK = 1_000_000  # pairs made at a time


def make_lengths(num_pairs: int, mean: float, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths of sources and targets, uint16; sides differ by 15% of their length."""
    rng, spread, unevenness = np.random.default_rng(0), 0.55, 0.15
    median = mean / np.exp((spread**2 + unevenness**2) / 2)
    lengths = np.empty((2, num_pairs), np.uint16)
    for start in range(0, num_pairs, CHUNK):
        part = lengths[:, start : start + CHUNK]
        pair = rng.normal(np.log(median), spread, part.shape[1])
        sides = np.exp(pair + rng.normal(0, unevenness, part.shape))
        part[:] = np.clip(sides.round(), 2, longest)
    return lengths[0], lengths[1]


def main() -> None:
    """Parses the flags, plans and prints."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--pairs", type=int, default=1_000_000)
    flags.add_argument("--mean", type=float, default=14, help="mean tokens of a sentence")
    flags.add_argument("--row_length", type=int, default=128)
    flags.add_argument("--batch_tokens", type=int, default=25_000)
    chosen = flags.parse_args()
    lengths = make_lengths(chosen.pairs, chosen.mean, chosen.row_length)
    start = time.perf_counter()
    shape = (choose_source_length(*lengths, chosen.row_length, 0.001), chosen.row_length)
    rows_per_batch = chosen.batch_tokens // chosen.row_length
    parts = [CorpusPart(chosen.pairs)]
    plan = EpochPlan(lengths, shape, rows_per_batch=rows_per_batch, seed=0, parts=parts)
    counted = time.perf_counter()
    plan.rows(plan.batches_per_epoch // 2)
    planned = time.perf_counter()
    num_tokens = sum(int(side.sum()) for side in lengths)
    positions = plan.batches_per_epoch * rows_per_batch * sum(shape)
    print(
        f"{chosen.pairs:,} pairs in rows of {shape[0]} + {shape[1]}: {num_tokens / positions:.1%} "
        f"real tokens, {plan.batches_per_epoch:,} batches an epoch in {plan.num_blocks} block(s)\n"
        f"{counted - start:.2f} s to count the batches, {planned - counted:.2f} s to plan a block"
    )


if __name__ == "__main__":
    main()
