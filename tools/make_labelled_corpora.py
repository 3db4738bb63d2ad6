"""Makes two labelled corpora of the embedded corpus's English sentence frames, with their labels.

    pip install '.[corpus]'
    python tools/make_labelled_corpora.py --output=data

OUTPUT/entities/*.conll: words with labels in the BIO notation, since it is known which words filled
which slot. OUTPUT/entailment/*.tsv: pairs of a sentence and a statement that follows from it, or
does not, as a filler was changed or two were exchanged. Made text: it shows that a model learns,
and no score on it is comparable with one on people's text. Sentences are divided by the hash of
their fillers, as those of the embedded corpus: no date or combination of fillers is in two splits.
Prints what guessing reaches: the most frequent label of each word, and whether all words of the
second text are in the first.
"""

import argparse
import random
import re
from collections import Counter, defaultdict
from pathlib import Path

from embedded_corpus.frames import choose_fillers, content_of, finish_sentence, read_frames
from embedded_corpus.german import German
from embedded_corpus.pairs import unit_hash
from embedded_corpus.renderings import Renderings

from transformer.evaluation.classification import score_labels

ENTITIES = {
    "PERSON": ("person", "other"),
    "PLACE": ("country", "land", "city", "town"),
    "LANGUAGE": ("language", "tongue", "original", "version", "languages"),
    "DATE": ("weekday", "ago", "past", "future", "month", "past_date", "coming_date"),
    "TIME": ("clock", "hour"),
    "AMOUNT": ("price", "sum", "distance", "weight", "spoons", "hours"),
}
TYPE_OF = {slot: kind for kind, slots in ENTITIES.items() for slot in slots}
FORMS = ("in", "to", "from")  # of a country: "in Peru", whose first word is no part of the name
BETWEEN = (",", "and", "or")  # names of one slot
WORD = re.compile(r"[.,?!]+(?=\s|$)|\S+?(?=[.,?!]*(?:\s|$))")
STATEMENTS = """
{person} {do.past} {ago}.|{ago}, {person} {do.past}.
{person} {do.past} {past}, but {other} wants to {also.base} {future}.|{other} wants to {also.base} {future}.
{person} {do.past} {past}, but {other} wants to {also.base} {future}.|{past}, {person} {do.past}.
{person} comes {country.from} and speaks {language} and {tongue}.|{person} speaks {tongue} and {language}.
{person} arrived in {city} at {clock} and in {town} at {hour}.|{person} was in {town} at {hour}.
{person} arrived in {city} at {clock} and in {town} at {hour}.|At {clock}, {person} arrived in {city}.
The flight {country.from} {land.to} takes {hours}.|It takes {hours} to fly {country.from} {land.to}.
The train to {city} leaves at {clock} and arrives at {hour}.|The train to {city} arrives at {hour}.
The train to {city} leaves at {clock} and arrives at {hour}.|At {clock}, the train to {city} leaves.
The book was translated from {original} into {version} {ago}.|The book can be read in {version}.
{person} would like to learn {language} before {person.pronoun} travels {country.to}.|{person} wants to travel {country.to}.
{person} was born {country.in} on {past_date}.|On {past_date}, {person} was born {country.in}.
Because they only speak {language}, they moved {country.to} {ago}.|They speak {language}.
Although {person} had to {do.base} on {weekday}, {person.pronoun} {also.past} before {clock}.|On {weekday}, {person} {also.past}.
{person} told us that {other} {do.past} {past} and is now traveling {country.to}.|{other} is traveling {country.to}.
{person} told us that {other} {do.past} {past} and is now traveling {country.to}.|{past}, {other} {do.past}.
"""  # noqa: E501
ALIKE = (("person", "other"), ("do", "also"), ("clock", "hour"), ("city", "town"))
ALIKE += (("original", "version"), ("country", "land"))
SPLITS = {"validation": 0.05, "test": 0.15, "train": 1.0}  # shares of the hashes, summed up


class Marked:
    """A filler whose text is written between marks that say which slot it is."""

    def __init__(self, slot, forms):
        self.slot, self.forms = slot, forms

    def __getattr__(self, name):
        text = self.forms[name]
        return f"\x01{self.slot}\x02{text}\x03" if name in FORMS else text

    def __format__(self, spec):
        return f"\x01{self.slot}\x02{self.forms}\x03"


def label_words(text):
    """Returns the (word, label) pairs of a sentence with marks."""
    rows = []
    for number, part in enumerate(re.split("[\x01\x03]", text)):
        slot, _, text = part.rpartition("\x02") if number % 2 else ("", "", part)
        kind, is_open = TYPE_OF.get(slot), False
        for word in WORD.findall(text):
            outside = kind is None or (word in BETWEEN and slot == "languages")
            outside = outside or (word in FORMS and not is_open)
            rows.append((word, "O" if outside else f"{'I' if is_open else 'B'}-{kind}"))
            is_open = not outside
    first, label = rows[0]
    return [(first[0].upper() + first[1:], label), *rows[1:]]


def fill(template, fillers):
    """Returns the sentence of a template."""
    return finish_sentence(template.format(**{slot: f.source for slot, f in fillers.items()}))


def split_of(fillers):
    """Returns the split of a sentence."""
    share = max(unit_hash(f"labelled/{key}") for key in content_of(fillers.values()))
    return next(split for split, end in SPLITS.items() if share < end)


def make_entities(table, count):
    """Yields (split, [(word, label), …])."""
    rng, frames = random.Random(1), read_frames(table.frames)
    for index in range(count):
        source, _, slots = frames[index % len(frames)]
        fillers = choose_fillers(slots, table, rng)
        marked = {slot: Marked(slot, filler.source) for slot, filler in fillers.items()}
        yield split_of(fillers), label_words(source.format(**marked))


def make_entailment(table, count):
    """Yields (split, label, first sentence, second sentence)."""
    rng, frames = random.Random(2), [row.split("|") for row in STATEMENTS.strip().split("\n")]
    for index in range(count):
        sentence, statement = frames[index // 2 % len(frames)]
        slots = {name.split(".")[0] for name in re.findall(r"{(.*?)}", sentence)}
        stated = {name.split(".")[0] for name in re.findall(r"{(.*?)}", statement)}
        fillers = choose_fillers(sorted(slots), table, rng)
        others = dict(fillers)
        if index % 2:
            pairs = [pair for pair in ALIKE if slots >= {*pair} and stated & {*pair}]
            if pairs and rng.random() < 0.7:
                a, b = rng.choice(pairs)
                others[a], others[b] = fillers[b], fillers[a]
            else:
                slot = rng.choice(sorted(stated))
                while others[slot].key == fillers[slot].key:
                    others[slot] = table.slots[slot](rng)
        texts = fill(sentence, fillers), fill(statement, others)
        yield split_of(fillers), ("no" if index % 2 else "yes"), *texts


def write(folder, ending, rows):
    """Writes {split: texts of the examples}; returns nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, texts in rows.items():
        (folder / f"{split}.{ending}").write_text("".join(texts), encoding="utf-8")
        print(f"{folder}/{split}.{ending}: {len(texts):,}")


def main():
    """Writes both corpora and prints the baselines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=8000, help="of each corpus")
    arguments = parser.parse_args()
    table = German(Renderings("de", German.polish))
    entities, entailment = defaultdict(list), defaultdict(list)
    seen, overlap = defaultdict(Counter), Counter()
    sentences = list(make_entities(table, arguments.examples))
    for split, rows in sentences:
        entities[split].append("".join(f"{word}\t{label}\n" for word, label in rows) + "\n")
        for word, label in rows if split == "train" else ():
            seen[word][label] += 1
    tested = [rows for split, rows in sentences if split == "test"]
    labels = [[label for _, label in rows] for rows in tested]
    guesses = [
        [max(seen[word], key=seen[word].get, default="O") for word, _ in rows] for rows in tested
    ]
    for split, label, first, second in make_entailment(table, arguments.examples):
        entailment[split].append(f"{label}\t{first}\t{second}\n")
        if split == "test":
            words = [{*WORD.findall(text.lower())} for text in (first, second)]
            overlap[(words[1] <= words[0]) == (label == "yes")] += 1
    write(arguments.output / "entities", "conll", entities)
    write(arguments.output / "entailment", "tsv", entailment)
    for score in score_labels(labels, guesses, "the most frequent label of each word").values():
        print(score)
    print(f"words in common: accuracy {100 * overlap[True] / overlap.total():.2f}")


if __name__ == "__main__":
    main()
