"""What a memory of earlier segments is worth: nats per character, and time beside recomputing.

Scores two finished runs on the last tenth of their text: one of configs/transformer_xl.py, with
memories of several lengths, and one of its variant "plain" without: in windows of its context, and
in windows of which only the second half counts, so that each character has half a window before it.
Milliseconds per character: of one pass with a memory, and of computing the whole context again for
each character. Then the seconds of continuing a text, after compiling.

    python benchmarks/transformer_xl.py --memory=runs/transformer_xl --plain=runs/plain
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import numpy as np

import transformer
from transformer.checkpoint.restore import Run
from transformer.data.lm_batches import encode_text
from transformer.model.decoder_only import CausalLM
from transformer.special_tokens import EOS, PAD
from transformer.tasks.language_model import LanguageModelTask

MEMORIES = 64, 128, 256, 512
ROWS = 16


def read_ids(run: Run) -> np.ndarray:
    """Returns the ids of the test split, EOS in front."""
    lines = LanguageModelTask.load_split(run.config, run.config.data.test_split).lines
    return np.concatenate([[EOS], encode_text(run.tokenizers[0], lines)]).astype(np.int32)


def with_memory(run: Run, memory: int) -> CausalLM:
    """Returns the model of a run with a memory of another length."""
    return CausalLM(replace(run.config.model, memory_length=memory), run.tokenizers[0].vocab_size)


def windows(ids: np.ndarray, length: int, stride: int) -> Iterator[np.ndarray]:
    """Yields up to `ROWS` windows [B, length + 1] at a time, from every `stride`-th id on.

    PAD fills the last one.
    """
    ids = np.pad(ids, (0, -(len(ids) - 1 - length) % stride), constant_values=PAD)
    starts = np.arange(0, len(ids) - length, stride)
    for part in np.split(starts, range(ROWS, len(starts), ROWS)):
        yield ids[part[:, None] + np.arange(length + 1)]


def nats(run: Run, model: CausalLM, ids: np.ndarray, length: int, stride: int) -> float:
    """Returns the mean loss of the last `stride` targets of each window."""

    def losses_of(rows: np.ndarray) -> np.ndarray:
        logits = apply(run.params, rows[:, :-1])[:, -stride:]
        log_probs = np.asarray(jax.nn.log_softmax(logits))
        targets = rows[:, -stride:]
        return -np.take_along_axis(log_probs, targets[..., None], axis=2)[targets != PAD]

    apply = jax.jit(lambda params, ids: model.apply({"params": params}, ids, deterministic=True))
    losses = [losses_of(rows).ravel() for rows in windows(ids, length, stride)]
    return float(np.concatenate(losses).mean())


def seconds(run: Callable[[], object]) -> float:
    """Returns the least time of three calls, after one that compiles."""
    jax.block_until_ready(run())
    times = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def milliseconds(run: Run, model: CausalLM, shape: tuple[int, int], num_scored: int) -> float:
    """Returns the time of one pass over ids of a shape, for each character that it scores."""
    ids = np.full(shape, 5, np.int32)
    apply = jax.jit(lambda params: model.apply({"params": params}, ids, deterministic=True))
    params = jax.device_put(run.params)
    return 1000 * seconds(lambda: apply(params)) / num_scored


def main() -> None:
    """Parses the flags, scores, times and prints a table."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    flags.add_argument("--memory", required=True, help="a run of configs/transformer_xl.py")
    flags.add_argument("--plain", required=True, help="a run of its variant plain")
    flags.add_argument("--num_pieces", type=int, default=1024)
    arguments = flags.parse_args()
    run, plain = (transformer.restore(path) for path in (arguments.memory, arguments.plain))
    ids, length = read_ids(run), plain.config.data.row_length
    print("| model | nats per character | ms per character | ms if the context is recomputed |")
    print("|---|---|---|---|")
    for stride in (length, length // 2):
        loss = nats(plain, plain.model, ids, length, stride)
        once = milliseconds(plain, plain.model, (ROWS, length), ROWS * stride)
        again = milliseconds(plain, plain.model, (ROWS, length), ROWS)
        print(f"| plain, windows of {length} by {stride} | {loss:.3f} | {once:.3f} | {again:.2f} |")
    for memory in MEMORIES:
        model, row = with_memory(run, memory), 8 * max(memory, length)
        loss = nats(run, model, ids, row, row)
        once = milliseconds(run, model, (1, row), row)
        again = milliseconds(plain, plain.model, (ROWS, memory + length // 2), ROWS)
        print(f"| memory of {memory} | {loss:.3f} | {once:.3f} | {again:.2f} |")
    for name in (arguments.memory, arguments.plain):
        model = transformer.LanguageModel.from_checkpoint(name)
        options = dict(num_pieces=arguments.num_pieces, seed=1)
        taken = seconds(lambda m=model, o=options: m.generate(["ROMEO:"], **o))
        print(f"{name}: {taken:.2f} s to continue a text by {arguments.num_pieces} characters")


if __name__ == "__main__":
    main()
