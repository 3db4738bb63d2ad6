"""Prints the BLEU of two baselines without a model: a copy, and the nearest training sentence.

python tools/baselines.py  # on the embedded corpus
python tools/baselines.py --train_source=train.en --train_target=train.de \\
    --test_source=test.en --test_target=test.de
"""

import argparse
import collections
import itertools
import lzma
import pathlib

import numpy as np
import sacrebleu

EMBEDDED = pathlib.Path(__file__).parents[1] / "transformer/embedded/en-de.tsv.xz"


def load_embedded(path):
    """Returns the sources and targets of train, then those of test."""
    rows = [
        line.split("\t") for line in lzma.decompress(path.read_bytes()).decode().split("\n")[:-1]
    ]
    return [
        [row[column] for row in rows if row[0] == split]
        for split in ("train", "test")
        for column in (1, 2)
    ]


def load_files(paths):
    """Returns the lines of four files: sources and targets of train, then of test."""
    corpora = [
        pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for path in paths
    ]
    for side, source, target in (("train", *corpora[:2]), ("test", *corpora[2:])):
        if len(source) != len(target):
            raise ValueError(
                f"both files of {side} must have equally many lines, "
                f"got {len(source)} and {len(target)}"
            )
    return corpora


def word_ngrams(sentence):
    """Counts the words of a sentence and its pairs of neighbouring words."""
    words = ["<s>", *sentence.split(), "</s>"]
    return collections.Counter(words[1:-1] + [f"{a} {b}" for a, b in itertools.pairwise(words)])


def index_ngrams(sentences):
    """Returns {n-gram: (sentence numbers, TF-IDF weights)}, each sentence a unit vector."""
    counts = [word_ngrams(sentence) for sentence in sentences]
    frequency = collections.Counter(gram for count in counts for gram in count)
    idf = {gram: np.log(1 + len(sentences) / number) for gram, number in frequency.items()}
    postings = {gram: ([], []) for gram in frequency}
    for number, count in enumerate(counts):
        norm = sum((times * idf[gram]) ** 2 for gram, times in count.items()) ** 0.5
        for gram, times in count.items():
            postings[gram][0].append(number)
            postings[gram][1].append(times * idf[gram] / norm)
    return {
        gram: (np.array(rows), np.array(weights)) for gram, (rows, weights) in postings.items()
    }, idf


def nearest(sentence, index, idf, num_sentences):
    """Returns the number of the most similar sentence by cosine, the first of equals."""
    similarity = np.zeros(num_sentences)
    for gram, times in word_ngrams(sentence).items():
        if gram in index:
            rows, weights = index[gram]
            similarity[rows] += times * idf[gram] * weights
    return int(similarity.argmax())


def print_bleu(name, translations, references):
    """Prints the BLEU of translations, with its signature."""
    bleu = sacrebleu.BLEU()
    score = bleu.corpus_score(translations, [references])
    print(f"{name}: {score.score:.1f}  {bleu.get_signature()}")


def main():
    """Reads the flags and prints both baselines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ["train_source", "train_target", "test_source", "test_target"]
    for name in names:
        parser.add_argument(f"--{name}")
    paths = [getattr(parser.parse_args(), name) for name in names]
    if any(paths) and not all(paths):
        parser.error("name all four files, or none for the embedded corpus")
    train_source, train_target, test_source, test_target = (
        load_files(paths) if all(paths) else load_embedded(EMBEDDED)
    )
    index, idf = index_ngrams(train_source)
    found = [train_target[nearest(line, index, idf, len(train_source))] for line in test_source]
    print_bleu("copy of the source", test_source, test_target)
    print_bleu("nearest training sentence", found, test_target)


if __name__ == "__main__":
    main()
