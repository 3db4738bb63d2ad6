"""Makes one lower-cased, tokenised text of several files, for masked language models.

    python tools/make_pretraining_text.py --output=data/text data/tatoeba_ende/train.en.gz \\
        data/multi30k/train.en.gz data/sst2/train.tsv.gz data/trec/train.tsv.gz
    python tools/make_pretraining_text.py --output=data/lower_trec/train.tsv data/trec/train.tsv.gz

A sentence per line, tokenised roughly as SST-2 and TREC are (the Penn Treebank's way: "does n't",
"it 's"), so that their words are those of the other files. From a .tsv (LABEL<tab>TEXT) the label
goes; the last tenth of files named trec is left out, as configs/trec.py scores it. With a folder as
--output every 200th sentence goes to val.txt and the rest to train.txt, both shuffled; with a .tsv
the labels stay and every line.
"""

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

from transformer.data.files.text import read_text

PUNCTUATION = re.compile(r"([,;:!?()\"“”]|\.(?=\s|$)|\.\.\.)")
CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m))\b")


def tokenise(text: str) -> str:
    """Returns a sentence in lower case with spaces around punctuation and before clitics."""
    text = text.lower().replace("’", "'").replace("&apos;", "'").replace(" 't", "'t")
    return " ".join(CLITIC.sub(r" \1", PUNCTUATION.sub(r" \1 ", text)).split())


def sentences_of(path: Path) -> Iterator[str]:
    """Yields the texts of a file, without the part of TREC that is scored."""
    lines = read_text(path).lines
    if path.parent.name == "trec":
        lines = lines[: round(0.9 * len(lines))]
    for line in lines:
        yield line.partition("\t")[2] if ".tsv" in path.name else line


def main() -> None:
    """Writes the text; prints how many sentences it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", required=True, type=Path, help="a folder, or a .tsv")
    arguments = parser.parse_args()
    if arguments.output.suffix == ".tsv":
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        rows = (line.partition("\t") for path in arguments.files for line in read_text(path).lines)
        arguments.output.write_text(
            "".join(f"{label}\t{tokenise(text)}\n" for label, _, text in rows), encoding="utf-8"
        )
        return
    texts = (tokenise(text) for path in arguments.files for text in sentences_of(path))
    sentences = sorted({text for text in texts if text})
    random.Random(0).shuffle(sentences)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for split, part in (("val", sentences[::200]), ("train", sentences)):
        kept = part if split == "val" else [s for i, s in enumerate(part) if i % 200]
        text = "".join(f"{sentence}\n" for sentence in kept)
        (arguments.output / f"{split}.txt").write_text(text, encoding="utf-8")
        print(f"{split}: {len(kept):,} sentences")


if __name__ == "__main__":
    main()
