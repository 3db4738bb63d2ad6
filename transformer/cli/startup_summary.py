"""The card of a run: what it is made of, before it costs anything, and what to do with it then."""

import math
import re
import shlex
from collections import Counter

import jax

from transformer.parallel.devices import find_chip

MIB = 2**20
COLLECTIVE = re.compile(
    r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-done)?\("
)
ARRAY = re.compile(r"[a-z]+(\d+)\[([\d,]*)\]")


def parameter_table(params):
    """Lines of the weights by part of the model: shape, number, share."""
    sizes, shapes = Counter(), {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = "/".join(str(key.key) for key in path)
        sizes[name] += leaf.size
        shapes[name] = "×".join(map(str, leaf.shape))
    total = sum(sizes.values())
    width = max(map(len, sizes))
    lines = [
        f"  {name:<{width}}  {shapes[name]:>12}  {size:>12,}  {size / total:>6.1%}"
        for name, size in sizes.items()
    ]
    return [*lines, f"  {'all':<{width}}  {'':>12}  {total:>12,}"]


def model_line(config, num_params):
    """The network."""
    m = config.model
    layers = f"{m.num_layers}+{m.num_layers}" if config.task == "translation" else m.num_layers
    return (
        f"model       {layers} layers, d_model {m.d_model}, d_ff {m.d_ff}, "
        f"{m.num_heads} heads, {m.norm}-norm, {m.dtype}: {num_params:,} parameters"
    )


def device_lines(config, parallel, state):
    """What it runs on, how the work is shared, and what each device keeps of a TrainState."""
    devices = parallel.mesh.devices.ravel()
    num_hosts = len({device.process_index for device in devices})
    arranged = [name for name in ("remat", "scan_layers") if getattr(config, name)]
    if config.training.accumulate_steps > 1:
        arranged.append(f"in {config.training.accumulate_steps} parts")
    params, whole = (parallel.bytes_per_device(tree) / MIB for tree in (state.params, state))
    return [
        f"devices     {len(devices)} × {devices[0].device_kind} on {num_hosts} host"
        f"{'s' * (num_hosts > 1)}, {', '.join([parallel.describe(), *arranged])}",
        f"memory      {params:,.1f} MiB of parameters, {whole:,.1f} MiB with the optimizer's, "
        f"on each device",
    ]


def work_line(flops, num_tokens):
    """The arithmetic of a training step, by the model's formula."""
    return (
        f"step        {num_tokens:,.0f} target tokens, {flops / 1e9:,.1f} GFLOP (the model's, on "
        f"real tokens)"
    )


def compiled_lines(compiled, device_kind):
    """What the compiler says of a step: memory and arithmetic of a device, collectives.

    It counts the body of a loop (parts of a batch, scanned layers) once.
    """
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis() or {}
    kept, work = memory.argument_size_in_bytes / MIB, memory.temp_size_in_bytes / MIB
    known = find_chip(device_kind)
    room = ""
    if known:
        verdict = "fits" if kept + work < known.memory_gib * 1024 else "DOES NOT FIT"
        room = f": {verdict} into {known.memory_gib} GiB"
    collectives = ", ".join(
        f"{count} {kind} ({size / MIB:,.1f} MiB)"
        for kind, (count, size) in collectives_of(compiled.as_text()).items()
    )
    return [
        f"compiled    {kept:,.0f} MiB of state and batch + {work:,.0f} MiB of work space on each "
        f"device{room}",
        f"            {cost.get('flops', 0) / 1e9:,.1f} GFLOP a step on each device, by the "
        f"compiler's count (loops once)",
        f"            collectives: {collectives or 'none'}",
    ]


def collectives_of(program):
    """{kind: (how many, bytes of their results)} in the text of a compiled program.

    What stands in a loop is counted once, and what is done while other work goes on at its end.
    """
    found = {}
    for result, kind in COLLECTIVE.findall(program):
        size = sum(
            math.prod(map(int, filter(None, shape.split(",")))) * int(bits) // 8
            for bits, shape in ARRAY.findall(result)
        )
        count, total = found.get(kind, (0, 0))
        found[kind] = count + 1, total + size
    return found


def next_commands(workdir, text, program):
    """The commands that use what was trained, ready for a shell; as `Task.next_commands` says."""
    folder = shlex.quote(workdir)
    commands = [f"python eval.py --workdir={folder}"]
    if text:
        commands.append(f"echo {shlex.quote(text)} | python eval.py --workdir={folder} --input=-")
    if program:
        commands.append(f"python -c {shlex.quote(program)}")
    return ["", "go on:", *(f"  {command}" for command in commands)]
