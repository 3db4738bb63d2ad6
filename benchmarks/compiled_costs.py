"""What a compiled TPU program moves, and how long the compiler thinks that it takes, by operation.

The compiler's "bytes accessed" counts every operand and result of every operation, also those that
lie in the memory within the chip. Here bytes are those of main memory (HBM) alone, with the padding
of tiles. Cycles are the compiler's estimates; copies between the two memories overlap with other
operations and have none. For a kernel written in Pallas it has none either: its cycles here are the
fewest in which a v5e could move its bytes and do the FLOPs that it states.
"""

import math
import re
from typing import NamedTuple

from compiled_text import Computation, Instruction, read_computations

# They name or reorder memory and move nothing.
FREE = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "partition-id"}
PARTIAL_READS = {"dynamic-slice", "slice", "gather"}  # they read as much as they return
FLOPS_PER_CYCLE = 4 * 128 * 128 * 2  # of a v5e: four units of 128 × 128 products
BYTES_PER_CYCLE = 546  # 819 GB/s at 1.5 GHz
DIRECTIONS = {"transpose(": "backward", "jvp(": "forward"}
SCOPE = re.compile(
    r"layer_\d|jit\(|jvp\(|transpose\(|while|body|cond$|branch_\d|shard_map|closed_call|checkpoint"
)


class Cost(NamedTuple):
    """What operations take."""

    count: int = 0
    num_bytes: int = 0
    cycles: int = 0


Costs = dict[str, Cost]


def add_up(*costs: Cost) -> Cost:
    """Returns the sum of costs."""
    return Cost(*map(sum, zip(Cost(), *costs, strict=True)))


def _add_to(costs: Costs, others: Costs) -> None:
    for label, cost in others.items():
        costs[label] = add_up(costs.get(label, Cost()), cost)


class CompiledProgram:
    """A program by its text."""

    def __init__(self, text: str) -> None:
        self._entry, self._computations = read_computations(text)

    def by_operation(self) -> Costs:
        """Returns {operation: cost}, of all layers together.

        A loop counts as often as its condition says, once if that depends on data.
        """
        return self._inside(self._entry, repeats=1)

    def overcounted_bytes(self) -> int:
        """Returns by how much the compiler's count of bytes charges too much for slices.

        A quarter of an array that is copied to the memory within the chip counts as the whole array
        and the quarter.
        """
        inside = self._computations[self._entry]
        copies = [one for one in inside.instructions.values() if one.opcode == "slice-start"]
        pairs = ((inside.operands(one)[0].shapes[0], one.shapes[1]) for one in copies)
        return sum(array.num_bytes - part.num_bytes for array, part in pairs)

    def step(self) -> Costs:
        """Returns the costs by operation of the loop that moves the most, once through its body.

        Loops and branches in it whose condition depends on data are for what few steps do, and do
        not count.
        """
        main = self._computations[self._entry].instructions.values()
        bodies = [self._inside(one.called[1], 0) for one in main if one.opcode == "while"]
        return max(bodies, key=lambda costs: add_up(*costs.values()).num_bytes)

    def _inside(self, computation: str, repeats: int) -> Costs:
        """Returns the costs of a computation; repeats: of loops that depend on data."""
        inside, found = self._computations[computation], {}
        for one in inside.instructions.values():
            if one.opcode == "while":  # it names its condition, and then its body
                times = self._trip_count(one.called[0]) or repeats
                for label, cost in self._inside(one.called[1], repeats).items():
                    _add_to(found, {label: Cost(*(times * part for part in cost))})
            elif one.opcode == "conditional":
                branches = [self._inside(name, repeats) for name in one.called]
                _add_to(found, min(branches, key=lambda costs: add_up(*costs.values()).num_bytes))
            elif one.opcode == "call":
                _add_to(found, self._inside(one.called[0], repeats))
            elif one.opcode not in FREE and not one.opcode.endswith("-done"):
                moved = self._moved(one, inside)
                cycles = one.cycles or _fewest_cycles(one, moved)
                _add_to(found, {_label(one, inside): Cost(1, moved, cycles)})
        return found

    def _trip_count(self, condition: str) -> int:
        """Returns how often a loop runs that counts from 0 to a constant; 0 for any other."""
        inside = self._computations[condition]
        operands = inside.operands(inside.root)
        if "direction=LT" not in inside.root.attributes or operands[1].opcode != "constant":
            return 0
        return int(operands[1].arguments)

    def _moved(self, one: Instruction, inside: Computation) -> int:
        """Returns the bytes that an instruction reads from main memory and writes to it."""
        if 'custom_call_target="ConcatBitcast"' in one.attributes:
            return 0
        operands = inside.operands(one)
        if one.opcode in ("copy-start", "slice-start"):  # (the source, the result, a flag)
            result = one.shapes[1]
            sides = operands[0].shapes[0], result
            return sum(result.num_bytes for side in sides if side.is_in_hbm)
        if one.opcode in PARTIAL_READS:
            return 2 * one.hbm_bytes
        if one.opcode == "dynamic-update-slice":  # in place
            return 2 * operands[1].hbm_bytes
        written, reads = one.hbm_bytes, [operand.hbm_bytes for operand in operands]
        if one.opcode == "fusion":
            fused = self._computations[one.called[0]]
            written = min(written, _written(fused))
            pairs = zip(reads, fused.parameters, strict=True)
            reads = [min(size, self._read(fused, parameter)) for size, parameter in pairs]
        return written + sum(map(int, reads))

    def _read(self, fused: Computation, value: Instruction) -> float:
        """Returns the bytes of a value that a fused computation reads at most; ∞: all of it."""
        total = 0.0
        for user in fused.users[value.name]:
            if user.opcode == "bitcast":
                total += self._read(fused, user)
            elif user.opcode in PARTIAL_READS:
                total += user.num_bytes
            elif user.opcode == "fusion":
                inner = self._computations[user.called[0]]
                for operand, parameter in zip(user.operands, inner.parameters, strict=True):
                    total += self._read(inner, parameter) if operand == value.name else 0
            elif user.opcode != "dynamic-update-slice" or user.operands[0] != value.name:
                return math.inf
        return total


def _written(fused: Computation) -> float:
    """Returns the bytes that a fused computation writes if it updates in place, else ∞."""
    root = fused.root
    while root.opcode == "bitcast":
        (root,) = fused.operands(root)
    return fused.operands(root)[1].num_bytes if root.opcode == "dynamic-update-slice" else math.inf


def _fewest_cycles(one: Instruction, moved: int) -> int:
    """Returns the cycles that a Pallas kernel takes at least; 0 for other operations."""
    if 'custom_call_target="tpu_custom_call"' not in one.attributes:
        return 0
    stated = re.search(r'"cost_estimate":{"flops":"(\d+)"', one.attributes)
    flops = int(stated[1]) if stated else 0
    return max(flops // FLOPS_PER_CYCLE, moved // BYTES_PER_CYCLE)


def _label(one: Instruction, inside: Computation) -> str:
    """Returns the operation in JAX, without its layer; of a copy, what it is for."""
    for _ in range(4):  # copy-start, copy-done, bitcast, user
        users = [user for user in inside.users[one.name] if user.opcode != "tuple"]
        if one.op_name or not users:
            break
        one = users[0]
    direction = next((word for part, word in DIRECTIONS.items() if part in one.op_name), "")
    parts = [part for part in one.op_name.split("/") if not SCOPE.match(part)]
    return f"{direction} {'/'.join(parts[-3:]) or one.opcode}".strip()
