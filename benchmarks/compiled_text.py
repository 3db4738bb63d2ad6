"""Reads the text of a program that XLA has compiled: its computations and their instructions."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

ARRAY = re.compile(r"([a-z]+[a-z\d]*)\[([\d,]*)\](?:\{([^{}]*)\})?")
INSTRUCTION = re.compile(r"\s+(ROOT )?%([^ ]+) = ")
CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation|branch_computations)"
    r"=\{?((?:%[^,}\s]+(?:, )?)+)"
)


class Shape(NamedTuple):
    """An array of a compiled program."""

    dtype: str
    num_bytes: int  # with the padding of its tiles
    is_in_hbm: bool  # in main memory, and not in that within a TPU chip (VMEM)


@dataclass(frozen=True)
class Instruction:
    """An operation: `%name = shapes opcode(arguments), attributes`."""

    name: str
    opcode: str
    shapes: list[Shape]  # several for a tuple
    arguments: str  # "%operand, …", or the number of a parameter
    attributes: str
    is_root: bool

    @cached_property
    def operands(self) -> list[str]:
        """The names of the instructions that it reads."""
        return re.findall(r"%([^ ,()]+)", self.arguments)

    @cached_property
    def called(self) -> list[str]:
        """The computations that it names: fused ones, or the condition and body of a loop."""
        names = " ".join(CALLED.findall(self.attributes))
        return re.findall(r"%([^,\s]+)", names)

    @cached_property
    def op_name(self) -> str:
        """The path of modules and the operation in JAX, "" if the compiler added it."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found[1] if found else ""

    @cached_property
    def cycles(self) -> int:
        """The TPU compiler's estimate; 0 where it gives none."""
        found = re.search(r'"estimated_cycles":"(\d+)"', self.attributes)
        return int(found[1]) if found else 0

    @property
    def hbm_bytes(self) -> int:
        """The bytes of its results in main memory."""
        return sum(shape.num_bytes for shape in self.shapes if shape.is_in_hbm)

    @property
    def num_bytes(self) -> int:
        """The bytes of its results in any memory."""
        return sum(shape.num_bytes for shape in self.shapes)


class Computation:
    """Instructions by their names, in the order in which they run."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self.instructions = {one.name: one for one in instructions}
        self.users: dict[str, list[Instruction]] = defaultdict(list)
        for one in instructions:
            for operand in one.operands:
                self.users[operand].append(one)
        parameters = [one for one in instructions if one.opcode == "parameter"]
        self.parameters = sorted(parameters, key=lambda one: int(one.arguments))

    @property
    def root(self) -> Instruction:
        """The instruction whose result it returns."""
        return next(one for one in self.instructions.values() if one.is_root)

    def operands(self, one: Instruction) -> list[Instruction]:
        """Returns the instructions that `one` reads."""
        return [self.instructions[name] for name in one.operands]


def read_computations(text: str) -> tuple[str, dict[str, Computation]]:
    """Returns the name of a program's main computation, and all computations by name."""
    entry, computations = "", {}
    for name, is_entry, lines in _split(text):
        computations[name] = Computation([one for one in map(_parse, lines) if one])
        entry = name if is_entry else entry
    return entry, computations


def _split(text: str) -> Iterator[tuple[str, bool, list[str]]]:
    """Yields (name, whether it is the main one, lines) of each computation."""
    name, is_entry, lines = "", False, []
    for line in text.split("\n"):
        head = re.match(r"(ENTRY )?%([^ ]+) .*\{$", line)
        if head:
            name, is_entry, lines = head[2], bool(head[1]), []
        elif line == "}":
            yield name, is_entry, lines
        else:
            lines.append(line)


def _parse(line: str) -> Instruction | None:
    head = INSTRUCTION.match(line)
    if not head:
        return None
    rest = line[head.end() :]
    end = _closing(rest) if rest.startswith("(") else rest.index(" ")
    shapes = [_shape(*found) for found in ARRAY.findall(rest[:end])]
    opcode, bracket, rest = rest[end:].strip().partition("(")
    end = _closing(bracket + rest) - 2
    return Instruction(head[2], opcode, shapes, rest[:end], rest[end:], bool(head[1]))


def _closing(text: str) -> int:
    """Returns the index behind the bracket that closes the one at the start of `text`."""
    depth = 0
    for bracket in re.finditer(r"[()]", text):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end()
    raise ValueError(f"A bracket is not closed in: {text[:80]}")


def _shape(dtype: str, dims: str, layout: str) -> Shape:
    """Returns the shape of an array's text.

    bf16[32,8,64]{2,1,0:T(8,128)(2,1)} has rows of 64 that are padded to 128: 32·8·128·2 bytes. Of a
    layout, the axis that varies fastest comes first; S(1) is VMEM.
    """
    sizes = [int(size) for size in dims.split(",") if size]
    order, _, tiles = layout.partition(":")
    fastest = [sizes[int(axis)] for axis in order.split(",") if axis] or sizes[::-1]
    tile = re.match(r"T\(([\d,]+)\)", tiles)
    units = [int(unit) for unit in tile[1].split(",")][::-1] if tile else []
    for axis, unit in enumerate(units[: len(fastest)]):
        fastest[axis] = -(-fastest[axis] // unit) * unit
    bits = re.search(r"\d+", dtype)
    num_bytes = math.prod(fastest) * (int(bits[0]) if bits else 8) // 8
    space = re.search(r"S\((\d+)\)", tiles)
    return Shape(dtype, num_bytes, space is None or space[1] == "0")
