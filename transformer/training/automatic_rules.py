"""The rules by which settings are chosen for a corpus, the devices and the time there is.

They follow what is known of small corpora: a vocabulary so small that its pieces are seen often
(Gowda & May 2020), small models and batches, and more dropout the more often the same text is seen
(Sennrich & Zhang 2019; Araabi & Monz 2020); and a learning rate that falls to a tenth along a
cosine by the end of the budget. Constants without a source were measured on 2 CPU cores with
the Tatoeba (en-de) and small_parallel_enja corpora.
"""

import math
from typing import Any, NamedTuple

from transformer.config import Config
from transformer.console import quantity
from transformer.data.corpora.corpus_facts import Lengths, TextFacts
from transformer.data.rows.packing import PackedBatches
from transformer.evaluation.scores import plain_table
from transformer.model.costs import num_layer_weights, training_flops

BYTES_PER_TOKEN = 5  # of UTF-8, with vocabularies of some thousand pieces
OCCURRENCES = 50  # of the rarest pieces; Gowda & May find 100 best, for longer trainings
SMALL_TEXT = 100_000  # tokens, for which Sennrich & Zhang take 2,000 pieces
VOCAB_SIZES = 1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000, 32_000
ROW_LENGTHS = 64, 96, 128, 192, 256, 384, 512
SENTENCES_PER_ROW = 6  # at least, of mean length: then rows are filled to 94% or more
LONG_ROW = 192  # beyond it, attention costs more than fuller rows save
LONGEST_SHARE = 99.9  # percent of the sentences that fit a row
SIZES = (128, 2), (192, 3), (256, 3), (512, 6), (1024, 6)  # d_model, num_layers
WEIGHTS_PER_CORPUS_TOKEN = 8  # more are learnt by heart
TOKENS_PER_WEIGHT = 3  # seen in training, target tokens; a larger model is not ready by then
DROPOUT = (15, 0.1), (50, 0.2), (math.inf, 0.3)  # up to so many epochs
MAX_EPOCHS = 150  # after so many the rest of a budget is better spent on more text
WARMUP_SHARE, MAX_WARMUP = 0.1, 4000
NUM_CHECKPOINTS = 40  # in a run; the last tenth of it is averaged
NUM_AVERAGED = 4
NUM_EVALUATIONS = 5
CPU_BATCH, CPU_PART, CHIP_BATCH = 2048, 512, 8192  # target tokens; CHIP_BATCH of each device
HELD_OUT_PAIRS = 1000
TRANSLATION_COST = 5  # translating a sentence takes as long as training on so many pairs
FINISHING_SECONDS = 30.0  # compiling the search, restoring, bootstrap, pictures


class Choices:
    """A copy of a configuration that is completed; what it sets already stays as it is.

    config: the configuration so far. open: the names of the settings that are to be chosen.
    reasons: why each value was chosen, by the setting's name.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.open = config, set(config.automatic_settings())
        self.reasons: dict[str, str] = {}

    def set(self, name: str, value: Any, reason: str) -> None:
        """Gives an open setting a value, for the first time or anew."""
        if name in self.open:
            self.config = self.config.with_values({name: value})
            self.reasons[name] = reason

    def with_model(self, d_model: int, num_layers: int) -> Config:
        """Returns the configuration with a model of this size, as far as that is open."""
        width = d_model if "model.d_model" in self.open else self.config.model.d_model
        heads = next(h for h in (max(4, width // 64), 2, 1) if width % h == 0)
        sizes = {"d_model": width, "d_ff": 4 * width, "num_layers": num_layers, "num_heads": heads}
        values = {f"model.{name}": size for name, size in sizes.items()}
        return self.config.with_values({k: v for k, v in values.items() if k in self.open})

    def lines(self) -> list[str]:
        """Returns the block of the start-up summary: each setting, its value and the reason."""
        values, rows = self.config.values(), []
        for name, reason in self.reasons.items():
            value = values[name]
            rows.append((name, f"{value:,}" if isinstance(value, int) else str(value), reason))
        table = enumerate(plain_table(rows, "l"))
        return [f"{'' if number else 'chosen':<12}{line}" for number, line in table]


class Machine(NamedTuple):
    """What there is to compute with. flops: FLOP/s that training sustains on all devices."""

    num_devices: int
    is_cpu: bool
    flops: float
    has_bfloat16: bool


class Facts(NamedTuple):
    """What the sizes follow from. seconds: time to train for; 0 if the steps are given."""

    text: TextFacts
    lengths: Lengths
    machine: Machine
    seconds: float

    @property
    def corpus_tokens(self) -> float:
        """The target tokens of the training text."""
        return self.text.num_pairs * float(self.lengths.target.mean())


def share_to_hold_out(num_pairs: int) -> str:
    """Returns the percentage for each split: 2%, but 100 to 1,000 pairs and at most a tenth."""
    number = min(HELD_OUT_PAIRS, max(100, num_pairs // 50), num_pairs // 10)
    return f"{max(100 * number / max(num_pairs, 1), 0.001):.2g}%"


def choose_vocabulary(choices: Choices, text: TextFacts) -> None:
    """Chooses the largest vocabulary whose rarest pieces still occur often, by Zipf's law."""
    num_tokens = text.num_bytes / BYTES_PER_TOKEN
    usual = VOCAB_SIZES[1 if num_tokens >= SMALL_TEXT else 0]
    often = [v for v in VOCAB_SIZES if v * math.log(v) * OCCURRENCES <= num_tokens]
    for_characters = -(-15 * text.least_vocabulary // 1000) * 100  # half as many again
    size = min(max([usual, *often, for_characters]), text.largest_vocabulary)
    reason = f"about {_rounded(num_tokens)} tokens, {text.num_characters:,} characters"
    choices.set("tokenizer.vocab_size", size, reason)


def choose_rows(choices: Choices, facts: Facts) -> None:
    """Chooses the row length that fits the sentences, and how many rows a batch has."""
    lengths, machine = facts.lengths, facts.machine
    mean = lengths.target.mean()
    longest = max(sorted(side)[int((len(side) - 1) * LONGEST_SHARE / 100)] for side in lengths)
    wanted = max(longest, min(SENTENCES_PER_ROW * mean, LONG_ROW))
    length = next((n for n in ROW_LENGTHS if n >= wanted), ROW_LENGTHS[-1])
    reason = f"sentences of {mean:.0f} tokens, 99.9% of at most {longest:.0f}"
    choices.set("data.row_length", length, reason)
    length = choices.config.data.row_length
    most = CPU_BATCH if machine.is_cpu else CHIP_BATCH * machine.num_devices
    tokens = min(most, facts.corpus_tokens / 50)
    num_rows = max(8, int(tokens // length) // 8 * 8)
    reason = "small batches learn more from little text"
    choices.set("training.batch_tokens", num_rows * length, reason)
    num_parts, reason = 1, "one pass of the devices"
    if machine.is_cpu:
        most, reason = choices.config.training.batch_tokens, "micro-batches fit a CPU's caches"
        num_parts = next(n for n in (8, 4, 2, 1) if n == 1 or n * CPU_PART <= most)
    choices.set("training.accumulate_steps", num_parts, reason)


def choose_model(choices: Choices, facts: Facts) -> None:
    """Chooses the largest model for which there is enough text, and enough time."""
    best, *others = (choices.with_model(*size) for size in SIZES)
    for config in others:
        weights = num_layer_weights(config.model)
        is_text = weights <= WEIGHTS_PER_CORPUS_TOKEN * facts.corpus_tokens
        if is_text and tokens_seen(config, facts) >= TOKENS_PER_WEIGHT * weights:
            best = config
    model, epochs = best.model, tokens_seen(best, facts) / facts.corpus_tokens
    weights, tokens, times = map(_rounded, (num_layer_weights(model), facts.corpus_tokens, epochs))
    reason = f"{weights} weights in layers for {tokens} target tokens, seen {times} times"
    choices.set("model.d_model", model.d_model, reason)
    choices.set("model.num_layers", model.num_layers, "goes with the width")
    choices.set("model.d_ff", model.d_ff, "4 d_model, as in the paper")
    choices.set("model.num_heads", model.num_heads, "of 32 to 64 dimensions each")
    rate = next(rate for most, rate in DROPOUT if epochs <= most)
    choices.set("model.dropout_rate", rate, f"each pair is seen about {times} times")


def tokens_seen(config: Config, facts: Facts) -> float:
    """Returns the target tokens that training sees, by the steps or by the model's arithmetic."""
    training = config.training
    if training.num_train_steps:
        return float(training.num_train_steps * training.batch_tokens)
    flops = training_flops(config.model, config.tokenizer.vocab_size, *facts.lengths)
    flops_per_target = flops / facts.lengths.target.sum()
    seen = facts.seconds * facts.machine.flops / flops_per_target
    return min(seen, MAX_EPOCHS * facts.corpus_tokens)


def choose_steps(
    choices: Choices,
    batches: PackedBatches,
    step_seconds: float,
    *,
    num_test_pairs: int,
    seconds_passed: float,
) -> None:
    """Chooses as many steps as the minutes allow, and all that counts steps.

    The minutes are for what has passed, the steps, the validations, and the scores at the end.
    """
    data, minutes = choices.config.data, choices.config.training.minutes
    num_validated = data.max_validation_sentences or HELD_OUT_PAIRS
    most = MAX_EPOCHS * batches.batches_per_epoch
    pair_seconds = step_seconds * batches.batches_per_epoch / batches.plan.pairs_per_epoch
    num_translated = NUM_EVALUATIONS * num_validated + num_test_pairs
    finishing = FINISHING_SECONDS + TRANSLATION_COST * num_translated * pair_seconds
    steps = (60 * minutes - seconds_passed - finishing) / step_seconds
    reason = f"{quantity(minutes, 'minute')} at {step_seconds:.3g} s a step"
    if steps < NUM_CHECKPOINTS:
        reason = f"the fewest; too little time: {reason}"
    elif steps > most:
        reason = f"{MAX_EPOCHS} times the corpus: more text would help more than more time"
    choose_schedule(choices, int(min(steps, most)), reason)


def choose_schedule(choices: Choices, num_steps: int, reason: str) -> None:
    """Chooses everything that counts steps. reason: why there are so many, if that is open."""
    if "training.num_train_steps" in choices.open:
        num_steps = max(num_steps, NUM_CHECKPOINTS)
    every = max(1, num_steps // NUM_CHECKPOINTS)
    choices.set("training.num_train_steps", every * NUM_CHECKPOINTS, reason)
    minutes = choices.config.training.minutes
    validated = min(HELD_OUT_PAIRS, max(100, int(100 * minutes))) if minutes else HELD_OUT_PAIRS
    choices.set("data.max_validation_sentences", validated, "at most")
    steps, model = choices.config.training.num_train_steps, choices.config.model
    warmup = max(1, min(MAX_WARMUP, round(steps * WARMUP_SHARE)))
    choices.set("optimizer.warmup_steps", warmup, "a tenth of the steps")
    peak = 0.5 / model.d_model * math.sqrt(2 / model.num_layers)
    choices.set("optimizer.peak_learning_rate", float(f"{peak:.2g}"), "0.5/d_model, less if deep")
    choices.set("optimizer.decay_steps", steps, "a cosine to the end of the run")
    log_every = max(n for n in (1, 2, 5, 10, 20, 50, 100) if n <= max(1, steps / 200))
    choices.set("training.log_every", log_every, "about 200 reports")
    choices.set("training.checkpoint_every", every, f"{NUM_CHECKPOINTS} checkpoints")
    evaluate_every = every * NUM_CHECKPOINTS // NUM_EVALUATIONS
    choices.set("training.eval_every", evaluate_every, f"{NUM_EVALUATIONS} evaluations")
    average = choices.config.decoding.average_checkpoints or NUM_AVERAGED
    choices.set("training.keep_checkpoints", max(5, average), "those to be averaged")
    average = min(NUM_AVERAGED, choices.config.training.keep_checkpoints)
    choices.set("decoding.average_checkpoints", average, "the last tenth of the run")


def _rounded(number: float) -> str:
    """Returns two digits of a number: "150", "0.42", "1.2 million"."""
    if number >= 1e6:
        return f"{_rounded(number / 1e6)} million"
    return f"{float(f'{number:.2g}'):,.10g}"
