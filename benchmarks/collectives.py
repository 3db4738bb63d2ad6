"""Counts the collective operations in the text of a program that XLA has compiled."""

import math
import re
from typing import NamedTuple

COLLECTIVE = re.compile(
    r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-done)?\("
)
COMPUTATION = re.compile(r"(?:ENTRY )?%(\S+) .*\{$")
CHANNEL = re.compile(r"channel_id=(\d+)")
ARRAY = re.compile(r"([a-z]+)(\d+)\[([\d,]*)\]")


class Collectives(NamedTuple):
    """The collective operations of one kind and type in a program."""

    count: int
    num_bytes: int  # of their results


def find_collectives(program: str) -> dict[str, Collectives]:
    """Returns the collective operations in the text of a compiled program, by kind and types.

    One inside a loop counts once. Of an asynchronous one only the `-done` half counts, and of one
    that TPUs do beside other operations, in several fusions with one channel, the first part. For
    TPUs a reduce-scatter is an all-reduce that is fused with a slice, before which it is counted.

    >>> find_collectives(" %x = (f32[2,8]{1,0}, bf16[16]{0}) all-reduce(%a, %b)")
    {'all-reduce bf16+f32': Collectives(count=1, num_bytes=96)}
    """
    found: dict[str, Collectives] = {}
    computation, seen = "", set()
    for line in program.split("\n"):
        if head := COMPUTATION.match(line):
            computation = head[1]
        if not (collective := COLLECTIVE.search(line)):
            continue
        kind, channel = collective[2], CHANNEL.search(line)
        if computation.startswith("all-reduce-scatter"):
            kind = "reduce-scatter"
        elif channel and "fus" in computation:  # elsewhere all of a shard_map have one channel
            if (kind, channel[1]) in seen:
                continue
            seen.add((kind, channel[1]))
        arrays = ARRAY.findall(collective[1])
        name = f"{kind} {'+'.join(sorted({letters + bits for letters, bits, _ in arrays}))}"
        num_bytes = sum(
            math.prod(map(int, filter(None, shape.split(",")))) * int(bits) // 8
            for _, bits, shape in arrays
        )
        before = found.get(name, Collectives(0, 0))
        found[name] = Collectives(before.count + 1, before.num_bytes + num_bytes)
    return found
