"""Completes the configuration of a new run whose settings are left to be chosen.

`choose_settings` needs the corpus and knows the devices; `fix_steps` then times the compiled
training step, and chooses how many of them fit the minutes that the run may take.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace

import jax
from etils.epath import PathLike

from transformer.config import Config
from transformer.console import phase, quantity
from transformer.data.corpora import corpus_facts
from transformer.data.corpora.training_text import TrainingText
from transformer.data.prepared.cache import cache_folder, text_facts
from transformer.data.prepared.prepare import vocabularies, vocabulary_folder
from transformer.data.tokenizers.files import train_tokenizer
from transformer.evaluation.metrics import choose_tokenisation
from transformer.parallel import hosts
from transformer.parallel.devices import find_chip
from transformer.tasks.batches import prefetch
from transformer.tasks.translation import TranslationTask
from transformer.training import automatic_rules as rules
from transformer.training.automatic_rules import Choices
from transformer.training.steps import TrainStep
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir

NUM_PARTS = "training.accumulate_steps"
MEMORY_SHARE = 0.9  # of a device's memory; the rest is for the batches that follow
GIB = 2**30
Clock = Callable[[], float]  # seconds, from any start
TIMED_SECONDS = 5.0
WARM_STEPS = 3  # that fill caches; they are not timed
DEFAULT_MINUTES = 10.0
TRAINING_SHARE = 0.7  # of the minutes, by which the size of the model is chosen
FLOPS_PER_CORE = 50e9  # that training sustains; measured on AMD EPYC
CHIP_SHARE = 0.3  # of a chip's peak that training sustains
UNKNOWN_CHIP = 10e12  # FLOP/s
TRANSLATION_COST = 5  # translating a sentence takes as long as training on so many pairs
FINISHING_SECONDS = 30.0  # compiling the search, restoring, bootstrap, pictures
NETWORK = ("model.d_model", "model.d_ff", "model.num_heads", "model.num_layers")
VALIDATION_SHARE = 0.08  # of the minutes


def choose_settings(config: Config, workdir: PathLike) -> Choices:
    """Chooses the automatic settings of a new run, from its text and the devices.

    What it learns of the text on the way, the vocabulary, is kept with the prepared corpora.
    Where `training.minutes` decides, the steps are an estimate, and `fix_steps` chooses them anew.
    Raises ValueError for settings that cannot be chosen.
    """
    choices = Choices(config)
    _check_budget(config)
    if not config.automatic_settings():
        return choices
    if config.task != "translation":
        choices.set(NUM_PARTS, 1, "one pass of the devices")
        if names := ", ".join(choices.config.automatic_settings()):
            raise ValueError(f"Only task=translation chooses settings by itself: set {names}.")
        return choices
    _choose_budget(choices)
    _choose_languages(choices)
    if config.training.init_from:
        run = WorkDir(config.training.init_from).load_config()
        choices.take((*NETWORK, "tokenizer.vocab_size"), run, "as in the run to start from")
    missing = corpus_facts.missing_splits(choices.config.data)
    if not missing:
        choices.set("data.held_out", "", "all splits have files")
    if choices.config.automatic_settings():
        with phase("choosing settings for the text"):
            _choose_for_text(choices, missing, workdir)
    return _as_first_host(choices)


def _choose_for_text(choices: Choices, missing: list[str], workdir: PathLike) -> None:
    """Reads the text once and chooses what depends on it; missing: splits without files."""
    data = choices.config.data
    if choices.is_open("data.held_out"):  # and so are the splits that drop_overlap compares with
        data = replace(data, held_out="", drop_overlap=False)
    training_text = TrainingText(data)
    training_text.keep_in_memory()
    text, sample = corpus_facts.measure_text(training_text.pairs())
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
    facts = rules.Facts(text, lengths, describe_machine(), seconds)
    rules.choose_rows(choices, facts)
    rules.choose_model(choices, facts)
    _choose_estimates(choices, facts)
    config = choices.config.validate()
    if training_text.blocks and not config.training.init_from and not config.tokenizer.model:
        chosen = TrainingText(config.data, training_text.blocks)  # which need not be read again
        cache = cache_folder(config.data, workdir)
        vocabularies(config, chosen, vocabulary_folder(config, cache, text_facts(chosen)))


def _check_budget(config: Config) -> None:
    training = config.training
    if training.minutes > 0 and training.num_train_steps > 0:
        raise ValueError(
            f"training.minutes={training.minutes:g} is for a run whose number of steps is to be "
            f"chosen, but training.num_train_steps is {training.num_train_steps}: set one of them "
            f"to 0."
        )
    if training.minutes == training.num_train_steps == 0:
        raise ValueError(
            "training.num_train_steps=0 has the number of steps chosen from the minutes that the "
            "run may take: set --config.training.minutes=…."
        )


def _choose_budget(choices: Choices) -> None:
    steps = choices.config.training.num_train_steps
    value, reason = (0.0, "the steps are given") if steps else (DEFAULT_MINUTES, "the usual budget")
    choices.set("training.minutes", value, reason)


def _choose_languages(choices: Choices) -> None:
    """Chooses the languages and the tokenisation of BLEU."""
    source, target = corpus_facts.find_languages(choices.config.data)
    reason = "from the files' names"
    choices.set("data.target_language", target, reason)
    reason += f"; for the other direction --config.data.source_language={target}"
    choices.set("data.source_language", source, reason)
    tokenize, reason = choose_tokenisation(target)
    choices.set("data.bleu_tokenize", tokenize, reason)


def _choose_estimates(choices: Choices, facts: rules.Facts) -> None:
    """Chooses what depends on the speed: as it is given, or from an estimate of it."""
    model_type = "bfloat16" if facts.machine.has_bfloat16 else "float32"
    reason = "fast on these devices" if facts.machine.has_bfloat16 else "bfloat16 is no faster here"
    choices.set("model.dtype", model_type, reason)
    training = choices.config.training
    if steps := training.num_train_steps:
        rules.choose_schedule(choices, "given", steps)
    else:
        steps = int(rules.tokens_seen(choices.config, facts) / training.batch_tokens)
        minutes = f"about as many as fit into {quantity(training.minutes, 'minute')}"
        rules.choose_schedule(choices, minutes, max(rules.NUM_CHECKPOINTS, steps))
    choices.set("data.max_validation_sentences", rules.HELD_OUT_PAIRS, "at most")


def describe_machine() -> rules.Machine:
    """Returns what there is to compute with, all hosts together."""
    device = jax.devices()[0]
    number, chip = jax.device_count(), find_chip(device.device_kind)
    if device.platform == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        flops = (cores or 1) * jax.process_count() * FLOPS_PER_CORE
        return rules.Machine(number, True, flops, False)
    flops = number * (chip.peak_tflops * 1e12 * CHIP_SHARE if chip else UNKNOWN_CHIP)
    generation = float(getattr(device, "compute_capability", 0))  # of NVIDIA's
    return rules.Machine(number, False, flops, device.platform == "tpu" or generation >= 8)


def _as_first_host(choices: Choices) -> Choices:
    """Takes the first host's choices everywhere: another host may have more cores."""
    chosen = {name: choices.config.values()[name] for name in choices.reasons}
    first = json.loads(hosts.gather_from_hosts(json.dumps(chosen).encode())[0])
    for name, value in first.items():
        choices.set(name, value, choices.reasons[name])
    return choices


# ---- by the measured speed


def fix_steps(
    trainer: Trainer, choices: Choices, started: float, clock: Clock = time.monotonic
) -> None:
    """Times the training step of a new run and gives it as many as its minutes allow.

    started: when the run began, by the clock. Does nothing unless the minutes are to decide.
    """
    training, task = choices.config.training, trainer.task
    if not (training.minutes and choices.is_open("training.num_train_steps")):
        return
    assert isinstance(task, TranslationTask)  # no other chooses its settings
    with phase("timing the training step"):
        step_seconds = time_step(trainer, clock)
    batches, minutes = task.training_batches, quantity(training.minutes, "minute")
    pairs_per_step = batches.plan.pairs_per_epoch / batches.batches_per_epoch
    per_sentence = TRANSLATION_COST * step_seconds / pairs_per_step
    validation = 60 * training.minutes * VALIDATION_SHARE
    number = int(validation / rules.NUM_EVALUATIONS / per_sentence) // 50 * 50
    number = min(rules.HELD_OUT_PAIRS, max(100, number))
    reason = f"all validations take about {VALIDATION_SHARE:.0%} of the time"
    choices.set("data.max_validation_sentences", number, reason)
    left = 60 * training.minutes - validation - (clock() - started) - FINISHING_SECONDS
    steps = (left - len(task.test_pairs) * per_sentence) / step_seconds
    most = rules.MAX_EPOCHS * batches.batches_per_epoch
    reason = f"{minutes} at {step_seconds:.3g} s a step"
    if steps < rules.NUM_CHECKPOINTS:
        reason = f"the fewest; too little time: {reason}"
    elif steps > most:
        reason = f"{rules.MAX_EPOCHS} times the corpus: more text would help more than more time"
    rules.choose_schedule(choices, reason, max(rules.NUM_CHECKPOINTS, int(min(steps, most))))
    trainer.take_schedule(_as_first_host(choices).config)


def time_step(trainer: Trainer, clock: Clock = time.monotonic) -> float:
    """Returns the seconds of a training step, measured for `TIMED_SECONDS`; all hosts agree.

    What it learns is thrown away; the compiled step serves the run.
    """
    state = trainer.train_step.init_state()
    make_batch, training_batches = trainer.train_step.make_batch, trainer.task.training_batches
    batches = prefetch(lambda step: make_batch(training_batches, step), range(10_000))

    def run(num_steps: int) -> float:
        nonlocal state
        start = clock()
        for _ in range(num_steps):
            state, _ = trainer.train_step(state, next(batches))
        jax.block_until_ready(state)
        seconds = (clock() - start) / num_steps
        return float(hosts.gather_from_hosts(repr(seconds).encode())[0])

    run(1)  # which compiles it
    warm = run(WARM_STEPS)
    seconds = run(max(WARM_STEPS, min(1000, int(TIMED_SECONDS / max(warm, 1e-6)))))
    batches.close()
    return seconds


# ---- by the memory


def choose_micro_batches(choices: Choices, trainer: Trainer) -> bool:
    """Raises an open `training.accumulate_steps` until the step fits; returns whether it changed.

    It fits if the compiler's figure for the step is at most the memory, if that is known. Raises
    ValueError if even micro-batches of one row for each device are too large.
    """
    limit = _memory_limit(choices.config)
    if not (limit and choices.is_open(NUM_PARTS)):
        return False
    parts = choices.config.training.accumulate_steps
    num_rows, num_devices = (
        trainer.task.training_batches.rows_per_batch,
        trainer.parallel.num_row_shards,
    )
    with phase("choosing micro-batches that fit the memory"):
        while (needed := step_memory(_step_in_parts(trainer, parts))) > limit:
            if parts >= -(-num_rows // num_devices):
                raise ValueError(
                    f"A step in {parts} micro-batches still needs {needed / GIB:.3g} GiB of the "
                    f"{limit / GIB:.3g} GiB on each device: set remat=True, raise mesh.fsdp, or "
                    f"lower data.row_length."
                )
            parts *= 2
    choices.set(NUM_PARTS, parts, f"{needed / GIB:.3g} of {limit / GIB:.3g} GiB on each device")
    return choices.config != trainer.config


def step_memory(step: TrainStep) -> int:
    """Returns the bytes that the compiled step needs on each device, its state included."""
    memory = step.lower().compile().memory_analysis()
    assert memory  # every backend that we compile for knows it
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return memory.argument_size_in_bytes + results + memory.temp_size_in_bytes


def _step_in_parts(trainer: Trainer, num_parts: int) -> TrainStep:
    task, batch = trainer.task, trainer.train_step.example_batch
    config = trainer.config.with_values({NUM_PARTS: num_parts})
    return TrainStep(config, trainer.parallel, task.model, task.loss_fn, batch)


def _memory_limit(config: Config) -> float:
    """Returns the bytes that a step may take on the smallest device; 0 if nothing is known."""
    if config.training.memory_gib:
        return config.training.memory_gib * GIB
    found = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return MEMORY_SHARE * min(map(float, hosts.gather_from_hosts(str(found).encode())))
