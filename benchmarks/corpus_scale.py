"""What a large corpus costs: python benchmarks/corpus_scale.py --pairs=1000000

It makes a corpus of that many pairs, whose words are as frequent as those of a language (Zipf) and
of which a sentence has 14 on average, and prints the pace of SentencePiece on one core beside that
of the preparation on all cores, and of a restart the seconds until the first batch and the resident
memory, each beside those of the embedded corpus.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import sentencepiece

from transformer.config import Config
from transformer.data.corpora.pair_files import sample_evenly
from transformer.data.corpora.training_text import TrainingText
from transformer.data.files.text import open_lines
from transformer.data.prepared.prepare import MOST_PAIRS, Share, training_corpus
from transformer.data.tokenizers.files import load_tokenizers, save_tokenizers, train_tokenizers
from transformer.data.workers import num_cores

ROOT = Path(__file__).parents[1]
NUM_WORDS = 200_000  # of a language
MEAN_WORDS = 14  # of a sentence
SIDES = "en", "de"
ROWS = 100_000  # pairs that are made at a time
SAMPLE = 20_000  # sentences of which the pace of SentencePiece is taken
VOCABULARY = 16_000
START = """
import json, sys, time
start = time.monotonic()
from benchmarks.corpus_scale import memory, settings
from transformer.parallel.mapping import make_parallel
from transformer.tasks.translation import TranslationTask
from transformer.workdir import WorkDir
config = settings(sys.argv[1], sys.argv[2])
parallel, workdir = make_parallel(config), WorkDir(sys.argv[3])
imported = time.monotonic()
task = TranslationTask(config, parallel, workdir)
task.training_batches[0]
ready = time.monotonic()
num_steps = int(sys.argv[4])
for step in range(1, num_steps):
    task.training_batches[step]
print(json.dumps({
    "seconds": ready - imported, "batch": (time.monotonic() - ready) / max(1, num_steps - 1),
    "peak": memory("VmHWM"), "anonymous": memory("RssAnon"),
    "fill": task.training_batches.fill(20)}))
"""


def settings(corpus, cache):
    """The configuration of a run on a corpus."""
    values = {"data.corpus": corpus, "data.cache": cache, "tokenizer.vocab_size": VOCABULARY}
    if corpus == "embedded":
        values["tokenizer.vocab_size"] = Config().tokenizer.vocab_size
    return Config().with_values(values).validate()


def memory(kind):
    """MiB of this process: VmHWM, the most that was resident, or RssAnon, without files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith(kind))


def make_words(rng):
    """Words of syllables, the frequent ones shorter, with and without an umlaut."""
    syllables = [a + b for a in "bdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "en", "ü")]
    lengths = 1 + np.minimum(rng.poisson(np.log10(np.arange(1, NUM_WORDS + 1)) / 2), 5)
    chosen = rng.integers(len(syllables), size=lengths.sum())
    ends = np.cumsum(lengths)
    return [
        "".join(syllables[i] for i in chosen[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def write_corpus(folder, num_pairs, seed=0):
    """Writes train, validation and test of both sides, unless they are there."""
    if (folder / "test.de").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    chances = 1 / np.arange(1, NUM_WORDS + 1) ** 1.05
    bounds = np.cumsum(chances / chances.sum())
    languages = {name: make_words(np.random.default_rng((seed, name == "de"))) for name in SIDES}
    rng = np.random.default_rng(seed)
    for split, number in (("train", num_pairs), ("validation", 1000), ("test", 1000)):
        for start in range(0, number, ROWS):
            count = min(ROWS, number - start)
            lengths = np.clip(rng.gamma(3, MEAN_WORDS / 3, count).round().astype(int), 1, 100)
            for name, words in languages.items():
                own = np.maximum(1, lengths + rng.integers(-1, 2, count))
                chosen = np.searchsorted(bounds, rng.random(own.sum())).clip(max=NUM_WORDS - 1)
                texts, ends = [words[i] for i in chosen.tolist()], np.cumsum(own)
                begins = (ends - own).tolist()
                with open(folder / f"{split}.{name}", "a") as file:
                    for begin, end in zip(begins, ends.tolist(), strict=True):
                        file.write(" ".join(texts[begin:end]) + "\n")


def sentencepiece_pace(folder, model):
    """Sentences a second of SentencePiece itself on one core."""
    lines = open_lines(folder / "train.en")
    sentences = [line for _, line in zip(range(SAMPLE), lines, strict=False)]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    start = time.perf_counter()
    processor.encode(sentences, num_threads=1)
    return len(sentences) / (time.perf_counter() - start)


def restart(corpus, cache, workdir, num_steps):
    """Seconds to the first batch, seconds a batch, and MiB, of a process that starts anew."""
    words = [sys.executable, "-c", START, str(corpus), str(cache), str(workdir), str(num_steps)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return json.loads(result.stdout)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the corpus is made, and kept")
    parser.add_argument("--steps", type=int, default=200, help="batches that are made at a restart")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="corpus_scale-"))
    corpus = folder / f"pairs_{options.pairs}"
    start = time.perf_counter()
    write_corpus(corpus, options.pairs)
    print(f"corpus      {options.pairs:,} pairs made in {time.perf_counter() - start:.0f} s")
    config = settings(str(corpus), str(folder / "cache"))
    workdir = folder / f"run_{options.pairs}"
    text = TrainingText(config.data)
    tokenizers = _tokenizers(config, text, workdir)
    pace = sentencepiece_pace(corpus, tokenizers[0].to_bytes()) / 2
    print(f"one core    {pace:,.0f} pairs/s of SentencePiece alone")
    start = time.perf_counter()
    _, prepared = training_corpus(config, text, workdir, tokenizers, Share())
    ours = options.pairs / (time.perf_counter() - start)
    print(f"prepared    {ours:,.0f} pairs/s with {num_cores()} cores: {ours / pace:.2f} times that")
    num_bytes = sum(file.stat().st_size for file in prepared.folder.iterdir())
    print(f"files       {num_bytes / options.pairs:.0f} bytes a pair")
    del prepared
    _report_restarts(str(corpus), str(folder / "cache"), workdir, folder, options)


def _tokenizers(config, text, workdir):
    """The vocabulary of the run, learnt as a new run learns it and kept in its work directory."""
    if not (workdir / "config.json").exists():
        start = time.perf_counter()
        learnt = train_tokenizers(config.tokenizer, sample_evenly(text.pairs(), MOST_PAIRS)[0])
        print(f"vocabulary  learnt in {time.perf_counter() - start:.0f} s")
        workdir.mkdir(parents=True, exist_ok=True)
        save_tokenizers(workdir, *learnt)
        (workdir / "config.json").write_text(config.to_json())
    return load_tokenizers(workdir)


def _report_restarts(corpus, cache, workdir, folder, options):
    small = folder / "run_embedded"
    restart("embedded", cache, small, 1)  # prepares it
    rows = {
        "embedded": restart("embedded", cache, small, options.steps),
        "this corpus": restart(corpus, cache, workdir, options.steps),
    }
    for name, row in rows.items():
        print(
            f"restart     {name}: {row['seconds']:.1f} s to the first batch, then "
            f"{1000 * row['batch']:.1f} ms a batch; peak memory {row['peak']:,.0f} MiB, "
            f"at the end {row['anonymous']:,.0f} MiB that are no files; fill {row['fill']:.1%}"
        )
    more = rows["this corpus"]["seconds"] - rows["embedded"]["seconds"]
    memory = rows["this corpus"]["peak"] - rows["embedded"]["peak"]
    per_pair = memory * 2**20 / options.pairs
    print(f"difference  {more:.1f} s; {memory:,.0f} MiB at the peak, {per_pair:.0f} bytes a pair")


if __name__ == "__main__":
    main()
