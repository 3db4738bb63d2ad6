"""Alignment error rate of a run on the embedded corpus: which layer's attention aligns best?

    PYTHONPATH=.:tools python benchmarks/alignment_error.py runs/embedded_en_de [validation]

Its sentences are made of frames whose slots are filled in both languages, so that the generator
(pip install '.[corpus]') knows which words belong together. Sure links are those between the words
of a name, weekday, month, city or language of equally many words; possible ones are all between
fillers of one slot, and between words of the frame outside its slots, of which nothing is known.
The rate is 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) (Och and Ney 2003), 0 at best.
"""

import random
import sys

from embedded_corpus.frames import Filler, Forms, choose_fillers, finish_sentence, read_frames
from embedded_corpus.german import German
from embedded_corpus.renderings import Renderings

from transformer import Translator
from transformer.config import DataConfig
from transformer.data.training_text import load_evaluation_pairs

NUM_SENTENCES, SEED = 29_500, 2017  # of tools/make_embedded_corpus.py
SURE = {"person", "other", "weekday", "month", "city", "town", "language", "tongue"}
FIRST = 0xE000  # private characters that mark the words of the slots


def marked(filler, number):
    """Returns a filler whose words end in the private character of its slot."""

    def mark(forms):
        words = {name: form.split() for name, form in forms.items()}
        return Forms({k: " ".join(w + chr(FIRST + number) for w in v) for k, v in words.items()})

    return Filler(filler.key, mark(filler.source), mark(filler.target), filler.open_keys)


def slots_of(text):
    """Returns (the text without marks, the number of the slot of each word or -1)."""
    words = finish_sentence(text).split()
    numbers = [next((ord(c) - FIRST for c in word if ord(c) >= FIRST), -1) for word in words]
    clean = " ".join("".join(c for c in word if ord(c) < FIRST) for word in words)
    return clean[0].upper() + clean[1:], numbers


def links(slots, source, target):
    """Returns the (sure, possible) links of two lists of slot numbers."""
    possible = {(s, t) for s, a in enumerate(source) for t, b in enumerate(target) if a == b}
    sure = set()
    for number, slot in enumerate(slots):
        sides = [
            [i for i, other in enumerate(side) if other == number] for side in (source, target)
        ]
        if slot in SURE and len(sides[0]) == len(sides[1]):
            sure |= set(zip(*sides, strict=True))
    return sure, possible


def gold(pairs):
    """Yields (source, target, sure, possible) of the pairs that are sentences of a frame."""
    table = German(Renderings("de", German.polish))
    frames, rng, wanted = read_frames(table.frames), random.Random(f"{SEED}/frames"), set(pairs)
    for index in range(NUM_SENTENCES):
        *templates, slots = frames[index % len(frames)]
        fillers = choose_fillers(slots, table, rng)
        marks = {slot: marked(fillers[slot], number) for number, slot in enumerate(slots)}
        sides = [
            slots_of(template.format(**{s: getattr(f, side) for s, f in marks.items()}))
            for template, side in zip(templates, ("source", "target"), strict=True)
        ]
        texts = tuple(text for text, _ in sides)
        if texts in wanted:
            wanted.remove(texts)
            yield *texts, *links(slots, sides[0][1], sides[1][1])


def error_rate(found, rows):
    """Returns the rate over all sentences, in percent."""
    hits = total = 0
    for alignment, (_, _, sure, possible) in zip(found, rows, strict=True):
        links = set(alignment)
        hits += len(links & sure) + len(links & (possible | sure))
        total += len(links) + len(sure)
    return 100 * (1 - hits / total)


def main():
    """Prints the rate of each layer."""
    workdir, split = sys.argv[1], (sys.argv[2:] or ["validation"])[0]
    rows = list(gold(load_evaluation_pairs(DataConfig(), split)))
    print(f"{len(rows)} sentences of {split}, {sum(len(row[2]) for row in rows)} sure links")
    translator = Translator.from_checkpoint(workdir)
    sources, targets = [row[0] for row in rows], [row[1] for row in rows]
    for layer in range(translator.config.model.depth(is_decoder=True)):
        found = translator.align(sources, targets, layer)
        print(f"layer {layer + 1}: {error_rate(found, rows):.1f}%")
    diagonal = [
        [(i * len(s.split()) // len(t.split()), i) for i in range(len(t.split()))]
        for s, t in zip(sources, targets, strict=True)
    ]
    print(f"the diagonal: {error_rate(diagonal, rows):.1f}%")


if __name__ == "__main__":
    main()
