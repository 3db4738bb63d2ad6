"""Completes the configuration of a new run whose settings are left to be chosen.

`choose_settings` needs the corpus and knows the devices; `make_trainer` then divides the step until
it fits the memory, and gives a run that has minutes as many steps as fit them.
"""

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from transformer.config import Config
from transformer.console import phase
from transformer.data.corpora import corpus_facts
from transformer.data.corpora.training_text import TrainingText
from transformer.data.tokenizers.files import train_tokenizer
from transformer.data.workers import num_cores
from transformer.evaluation.metrics import choose_tokenisation
from transformer.parallel import hosts
from transformer.parallel.devices import peak_flops
from transformer.training import automatic_rules as rules
from transformer.training.automatic_rules import Choices
from transformer.training.steps import TrainStep, prefetch
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir

MICRO_BATCHES = "training.accumulate_steps"
MEMORY_SHARE = 0.9  # of a device's memory; the rest is for the batches that follow
GIB = 2**30
TIMED_SECONDS = 5.0
WARM_STEPS = 3  # after the first, which is compiled; they fill caches and tell how many to time
DEFAULT_MINUTES = 10.0
TRAINING_SHARE = 0.7  # of the minutes, by which the size of the model is chosen
FLOPS_PER_CORE = 50e9  # that training sustains; measured on AMD EPYC
CHIP_SHARE = 0.3  # of a chip's peak that training sustains
UNKNOWN_CHIP = 10e12  # FLOP/s
OF_FORMER_RUN = {f"model.{name}" for name in ("d_model", "d_ff", "num_heads", "num_layers")}
OF_FORMER_RUN |= {"tokenizer.vocab_size"}


def choose_settings(config: Config) -> Choices:
    """Chooses the automatic settings of a new run, from its text and the devices.

    Where `training.minutes` decides, the steps are the fewest until `make_trainer` chooses them.
    Raises ValueError for settings that cannot be chosen.
    """
    choices = Choices(config)
    minutes, steps = config.training.minutes, config.training.num_train_steps
    if minutes >= 0 and (minutes > 0) == (steps > 0):
        raise ValueError(
            f"A run takes training.num_train_steps ({steps}), or as many steps as fit "
            f"training.minutes ({minutes:g}): set one of them, and the other to 0."
        )
    if config.task != "translation":
        choices.set(MICRO_BATCHES, 1, "one pass of the devices")
        if names := ", ".join(choices.config.automatic_settings()):
            raise ValueError(f"Only task=translation chooses settings by itself: set {names}.")
    elif config.automatic_settings():
        reason = "the steps are given" if steps else "the usual budget"
        choices.set("training.minutes", 0.0 if steps else DEFAULT_MINUTES, reason)
        _choose_by_files(choices)
    return _as_first_host(choices)


def _choose_by_files(choices: Choices) -> None:
    """Chooses what the names of the files and the run to start from tell, then reads the text."""
    source, target = corpus_facts.find_languages(choices.config.data)
    reason = "from the files' names"
    choices.set("data.target_language", target, reason)
    reason += f"; for the other direction --config.data.source_language={target}"
    choices.set("data.source_language", source, reason)
    choices.set("data.bleu_tokenize", *choose_tokenisation(target))
    if init_from := choices.config.training.init_from:
        run = WorkDir(init_from).load_config().values()
        for name in sorted(OF_FORMER_RUN):
            choices.set(name, run[name], "as in the run to start from")
        choices.open -= OF_FORMER_RUN  # for good
    missing = corpus_facts.missing_splits(choices.config.data)
    if not missing:
        choices.set("data.held_out", "", "all splits have files")
    if choices.config.automatic_settings():
        with phase("choosing settings for the text"):
            _choose_by_text(choices, missing)


def _choose_by_text(choices: Choices, missing: list[str]) -> None:
    """Reads the text once and chooses what depends on it; missing: splits without files."""
    data, machine = choices.config.data, describe_machine()
    if "data.held_out" in choices.open:  # and so are the splits that drop_overlap compares with
        data = replace(data, held_out="", drop_overlap=False)
    text, sample = corpus_facts.measure_text(TrainingText(data).pairs())
    if missing:
        share = rules.share_to_hold_out(text.num_pairs)
        reason = f"no {' and '.join(missing)} files: of {text.num_pairs:,} pairs, drawn by a hash"
        choices.set("data.held_out", ",".join(f"{split}@{share}" for split in missing), reason)
    if file := choices.config.tokenizer.model:
        tokenizer = train_tokenizer(choices.config.tokenizer, [])  # which reads the file
        choices.set("tokenizer.vocab_size", tokenizer.vocab_size, f"that of {file}")
    else:
        rules.choose_vocabulary(choices, text)
    lengths = corpus_facts.measure_lengths(sample, choices.config)
    seconds = 60 * choices.config.training.minutes * TRAINING_SHARE
    facts = rules.Facts(text, lengths, machine, seconds)
    rules.choose_rows(choices, facts)
    rules.choose_model(choices, facts)
    reason = "fast on these devices" if machine.has_bfloat16 else "bfloat16 is no faster here"
    choices.set("model.dtype", "bfloat16" if machine.has_bfloat16 else "float32", reason)
    rules.choose_schedule(choices, choices.config.training.num_train_steps, "the fewest")
    choices.config.validate()


def describe_machine() -> rules.Machine:
    """Returns what there is to compute with, all hosts together."""
    device, number = jax.devices()[0], jax.device_count()
    if device.platform == "cpu":
        flops = num_cores() * jax.process_count() * FLOPS_PER_CORE
        return rules.Machine(number, True, flops, False)
    flops = CHIP_SHARE * peak_flops(jax.devices()) or number * UNKNOWN_CHIP
    generation = float(getattr(device, "compute_capability", 0))  # of NVIDIA's
    return rules.Machine(number, False, flops, device.platform == "tpu" or generation >= 8)


def _as_first_host(choices: Choices) -> Choices:
    """Takes the first host's choices everywhere: another host may have more cores."""
    chosen = {name: choices.config.values()[name] for name in choices.reasons}
    first = json.loads(hosts.gather_from_hosts(json.dumps(chosen).encode())[0])
    for name, value in first.items():
        choices.set(name, value, choices.reasons[name])
    return choices


def make_trainer(config: Config, workdir: WorkDir, *options: Any) -> tuple[Trainer, Choices]:
    """Returns what trains a run, and what was chosen for a new run by memory and time, too.

    options: further arguments of `Trainer`.
    """
    start = time.monotonic()
    choices = Choices(config) if workdir.has_run else choose_settings(config)
    trainer = Trainer(choices.config.validate(), workdir, *options)
    if choose_micro_batches(choices, trainer):
        trainer = Trainer(choices.config.validate(), workdir, *options)
    if choices.config.training.minutes and "training.num_train_steps" in choices.open:
        with phase("timing the training step"):
            step_seconds = time_step(trainer)
        task: Any = trainer.task  # translation: no other chooses its settings
        rules.choose_steps(
            choices,
            task.training_batches,
            step_seconds,
            num_test_pairs=len(task.test_pairs),
            seconds_passed=time.monotonic() - start,
        )
        trainer.take_schedule(_as_first_host(choices).config)
    return trainer, choices


def time_step(trainer: Trainer, clock: Callable[[], float] = time.monotonic) -> float:
    """Returns the seconds of a training step, measured for `TIMED_SECONDS`; all hosts agree.

    What it learns is thrown away; the compiled step serves the run.
    """
    state = trainer.train_step.init_state()
    make_batch = partial(trainer.train_step.make_batch, trainer.task.training_batches)

    def run(num_steps: int) -> float:
        nonlocal state
        start = clock()
        for _ in range(num_steps):
            state, _ = trainer.train_step(state, next(batches))
        jax.block_until_ready(state)
        seconds = (clock() - start) / num_steps
        return float(hosts.gather_from_hosts(repr(seconds).encode())[0])

    with closing(prefetch(make_batch, range(10_000))) as batches:
        run(1)  # which compiles it
        warm = run(WARM_STEPS)
        return run(max(WARM_STEPS, min(1000, int(TIMED_SECONDS / max(warm, 1e-6)))))


def choose_micro_batches(choices: Choices, trainer: Trainer) -> bool:
    """Raises an open `training.accumulate_steps` until the step fits; returns whether it changed.

    It fits if the compiler's figure for the step is at most the memory, if that is known. Raises
    ValueError if even micro-batches of one row for each device are too large.
    """
    limit = _memory_limit()
    if not (limit and MICRO_BATCHES in choices.open):
        return False
    config, task, parallel = trainer.config, trainer.task, trainer.parallel
    number, step = config.training.accumulate_steps, trainer.train_step
    num_rows = task.training_batches.rows_per_batch
    with phase("choosing micro-batches that fit the memory"):
        while (needed := sum(step.memory())) > limit:
            if number >= -(-num_rows // parallel.num_row_shards):
                raise ValueError(
                    f"A step in {number} micro-batches still needs {needed / GIB:.3g} GiB of the "
                    f"{limit / GIB:.3g} GiB on each device: set remat=True, raise mesh.fsdp, or "
                    f"lower data.row_length."
                )
            number *= 2
            divided = config.with_values({MICRO_BATCHES: number})
            step = TrainStep(divided, parallel, task.model, task.loss_fn, step.example_batch)
    reason = f"{needed / GIB:.3g} of {limit / GIB:.3g} GiB on each device"
    choices.set(MICRO_BATCHES, number, reason)
    return choices.config != config


def _memory_limit() -> float:
    """Returns the bytes that a step may take on the smallest device; 0 if nothing is known."""
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return MEMORY_SHARE * min(map(float, hosts.gather_from_hosts(str(limit).encode())))
