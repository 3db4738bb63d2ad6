"""Generates the embedded corpus: python tools/make_embedded_corpus.py --target_language=de"""

import argparse
import collections
import hashlib
import importlib.metadata
import lzma
import pathlib

from babel import Locale
from embedded_corpus.compositions import (
    challenge_kinds,
    composition_kinds,
    make_compositions,
    make_small_numbers,
)
from embedded_corpus.frames import make_sentences
from embedded_corpus.german import German
from embedded_corpus.lexicon import make_lexicon
from embedded_corpus.readme import readme_text
from embedded_corpus.renderings import Renderings
from embedded_corpus.split import split_pairs

# One table per language that has sentence frames; others get the parts that CLDR renders.
TABLES = {"de": German}
SEED = 2017
NUM_SENTENCES, NUM_COMPOSITIONS, NUM_CHALLENGE = 29_500, 18_500, 300


def make_pairs(language, dropped):
    """Returns all pairs before filtering, in a fixed order."""
    table_class = TABLES.get(language)
    render = Renderings(language, table_class.polish if table_class else lambda text: text)
    pairs = make_lexicon(language, table_class, dropped)
    pairs += make_small_numbers(render, dropped)
    num_compositions = NUM_COMPOSITIONS
    if table_class:
        pairs += make_sentences(table_class(render), NUM_SENTENCES, SEED)
    else:
        num_compositions += NUM_SENTENCES
    pairs += make_compositions(composition_kinds(render), num_compositions, SEED, dropped)
    pairs += make_compositions(challenge_kinds(render), NUM_CHALLENGE, SEED, dropped)
    return pairs


def tsv_bytes(splits):
    """Returns the uncompressed corpus: one line `split<TAB>source<TAB>target` per pair."""
    lines = (
        f"{name}\t{pair.source}\t{pair.target}\n"
        for name, pairs in splits.items()
        for pair in pairs
    )
    return "".join(lines).encode("utf-8")


def write_corpus(language, output):
    """Writes the compressed corpus and its README to the folder `output`."""
    dropped = collections.Counter()
    splits = split_pairs(make_pairs(language, dropped), dropped)
    data = tsv_bytes(splits)
    packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    output.mkdir(parents=True, exist_ok=True)
    (output / f"en-{language}.tsv.xz").write_bytes(packed)
    versions = {name: importlib.metadata.version(name) for name in ("babel", "num2words")}
    name = Locale("en").languages[language]
    readme = readme_text(
        language,
        name,
        language in TABLES,
        splits,
        dropped,
        hashlib.sha256(data).hexdigest(),
        versions,
    )
    (output / "README.md").write_text(readme, encoding="utf-8")
    for reason, count in sorted(dropped.items()):
        print(f"dropped {count:6d}  {reason}")
    print({split: len(pairs) for split, pairs in splits.items()})
    print(f"{len(data)} bytes, {len(packed)} compressed")


def main():
    """Reads the flags and generates the corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target_language", default="de")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("transformer/embedded"))
    arguments = parser.parse_args()
    write_corpus(arguments.target_language, arguments.output)


if __name__ == "__main__":
    main()
