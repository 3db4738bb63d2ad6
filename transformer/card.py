"""The card of a run: what it is made of, before it costs anything, and what to do with it then."""

import json
import shlex
from collections import Counter

import jax


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


def data_lines(task):
    """What was read, what was left out and why, and how it is packed."""
    batches, validation = task.training_batches, task.validation_batches
    source_length, target_length = batches.shape
    dropped = ", ".join(f"{count:,} of {reason}" for reason, count in task.notes.items())
    lines = [
        f"data        {task.config.data.corpus} {task.direction}: {len(batches.source):,} training "
        f"pairs; left out: {dropped or 'none'}",
        f"vocabulary  {' and '.join(f'{t.vocab_size:,}' for t in dict.fromkeys(task.tokenizers))} "
        f"pieces",
        f"batch       {batches.rows_per_batch} rows of {source_length} + {target_length} places, "
        f"{batches.fill(10):.1%} of them real; {batches.batches_per_epoch:,} batches an epoch",
        f"validation  {len(task.validation_pairs):,} pairs, {validation.batches_per_epoch} batches",
    ]
    for reason, count in task.not_in_loss.items():
        lines.append(f"            {count:,} of {reason}: in the BLEU, not in the loss")
    return lines


def model_line(config, num_params, parallel):
    """The network and what it runs on."""
    m = config.model
    devices = parallel.mesh.devices.ravel()
    return (
        f"model       {m.num_layers}+{m.num_layers} layers, d_model {m.d_model}, d_ff {m.d_ff}, "
        f"{m.num_heads} heads, {m.norm}-norm, {m.dtype}: {num_params:,} parameters on "
        f"{len(devices)} × {devices[0].device_kind}"
    )


def memory_lines(compiled):
    """What the compiler says of a compiled step: memory a device, arithmetic."""
    memory = compiled.memory_analysis()
    cost = compiled.cost_analysis() or {}
    mib = 2**20
    return [
        f"memory      {memory.argument_size_in_bytes / mib:,.0f} MiB of state and batch + "
        f"{memory.temp_size_in_bytes / mib:,.0f} MiB of work space a device",
        f"arithmetic  {cost.get('flops', 0) / 1e9:,.1f} GFLOP a step (the compiler's count)",
    ]


def how_to_go_on(workdir, sentence):
    """The commands that use what was trained, ready for a shell."""
    source, folder = (json.dumps(text, ensure_ascii=False) for text in (sentence, workdir))
    program = (
        f"from transformer import Translator; "
        f"print(Translator.from_checkpoint({folder}).translate([{source}])[0])"
    )
    workdir = shlex.quote(workdir)
    return [
        "",
        "go on:",
        f"  python eval.py --workdir={workdir}",
        f"  echo {shlex.quote(sentence)} | python eval.py --workdir={workdir} --input=-",
        f"  python eval.py --workdir={workdir} --attention=attention.png",
        f"  python -c {shlex.quote(program)}",
    ]
