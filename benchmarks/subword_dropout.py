"""What subword dropout costs: milliseconds per batch on one core, and how long a step waits for it.

Makes batches of a corpus with and without `data.subword_dropout`; then lets the prefetch thread of
the training make them, while this program sleeps for as long as a device's step may take.

    python benchmarks/subword_dropout.py --corpus=path/to/folder --vocab_size=8000
"""

import argparse
import time
from collections.abc import Callable
from itertools import islice

import sentencepiece

from transformer.config import Config
from transformer.data.bpe_dropout import SubwordDropout
from transformer.data.packing import PackedBatches, num_rows_of_batch
from transformer.data.ragged import Ragged
from transformer.data.tokenizer import SentencePieceTokenizer
from transformer.data.training_text import TrainingText
from transformer.tasks.batches import prefetch

NUM_BATCHES = 10
STEPS = 50, 100, 200  # milliseconds


def processor_ms(make: Callable[[int], object]) -> float:
    """Returns the least processor time of make(number) for a few numbers, in milliseconds."""
    times = []
    for number in range(NUM_BATCHES):
        start = time.process_time()
        make(number)
        times.append(time.process_time() - start)
    return 1000 * min(times)


def share_waited(batches: PackedBatches, step_ms: int) -> float:
    """Returns the share of its time that a loop over steps of `step_ms` waits for batches."""
    made = prefetch(batches.__getitem__, range(3 * NUM_BATCHES))
    next(made)  # the first one always waits
    waited, start = 0.0, time.perf_counter()
    for _ in range(2 * NUM_BATCHES):
        time.sleep(step_ms / 1000)
        asked = time.perf_counter()
        next(made)
        waited += time.perf_counter() - asked
    made.close()
    return waited / (time.perf_counter() - start)


def main() -> None:
    """Parses the flags, measures and prints."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--corpus", default="embedded")
    flags.add_argument("--pairs", type=int, default=100_000, help="the most pairs that are read")
    flags.add_argument("--vocab_size", type=int, default=8000)
    flags.add_argument("--rate", type=float, default=0.1)
    flags.add_argument("--row_length", type=int, default=128)
    flags.add_argument("--batch_tokens", type=int, default=25_000)
    chosen = flags.parse_args()
    data = Config().with_values({"data.corpus": chosen.corpus}).data
    texts = list(zip(*islice(TrainingText(data).pairs(), chosen.pairs), strict=True))
    tokenizer = SentencePieceTokenizer.train([*texts[0], *texts[1]], chosen.vocab_size)
    source, target = (Ragged.encode(tokenizer, side) for side in texts)
    rows_per_batch = num_rows_of_batch(chosen.batch_tokens, chosen.row_length)
    dropout = SubwordDropout([tokenizer] * 2, chosen.rate, (source, target), seed=0)
    for subword_dropout in (None, dropout):
        batches = PackedBatches(
            source,
            target,
            row_length=chosen.row_length,
            rows_per_batch=rows_per_batch,
            seed=0,
            too_long=0.001,
            subword_dropout=subword_dropout,
        )
        waits = ", ".join(f"{share_waited(batches, ms):.1%} of {ms} ms" for ms in STEPS)
        rate = chosen.rate if subword_dropout else 0
        print(
            f"rate {rate}: {processor_ms(batches.__getitem__):.1f} ms of this process a batch, "
            f"{batches.fill(10):.1%} real tokens; steps wait {waits}"
        )
    print(
        f"{dropout.growth[0]:.3f} and {dropout.growth[1]:.3f} times as many pieces; "
        f"{batches.undropped_share(10):.1%} of the sentences keep theirs, as their row is full"
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)

    def sample(number: int) -> None:
        pairs, _ = batches.plan.rows(number)
        for side in (source, target):
            for text in processor.decode([side[pair].tolist() for pair in pairs]):
                sentencepiece.set_random_generator_seed(number)
                processor.encode(text, enable_sampling=True, alpha=chosen.rate, nbest_size=-1)

    print(f"SentencePiece, for comparison: {processor_ms(sample):.1f} ms for the same sentences")


if __name__ == "__main__":
    main()
