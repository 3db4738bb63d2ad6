"""The corpora that a run names: their weights and their tags."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from transformer.config import DataConfig

if TYPE_CHECKING:  # eval.py knows tags before it imports NumPy
    from transformer.data.tokenizers.sentencepiece import Tokenizer

CORPUS = re.compile(r"([^@#][^#]*?)(?:@([^@#]+))?(?:#([^\s,@#/▁]+))?(?<!@)")


class Corpus(NamedTuple):
    """A corpus of a run. tag: the piece that each source begins with, or "" for none."""

    name: str
    weight: float = 1.0  # how often an epoch shows each pair
    tag: str = ""

    def put_tag_on(self, source: str) -> str:
        """Returns a source of this corpus as the model sees it: "<2fr> A man." with tag <2fr>."""
        return f"{self.tag} {source}" if self.tag else source


def parse_corpora(text: str) -> list[Corpus]:
    """Parses the corpora of `data.corpus`, each NAME, NAME@WEIGHT, NAME#TAG or NAME@WEIGHT#TAG.

    Raises ValueError if there is none, a weight is not a finite number above 0, or a tag is no
    single piece of text.

    >>> parse_corpora("a@2,b#<bt>")
    [Corpus(name='a', weight=2.0, tag=''), Corpus(name='b', weight=1.0, tag='<bt>')]
    """
    corpora = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = CORPUS.fullmatch(part)
        name, weight, tag = match.groups() if match else ("", "0", "")
        try:
            corpora.append(Corpus(name, float(weight or "1"), tag or ""))
        except ValueError:
            corpora.append(Corpus(name, 0.0))
        if not 0 < corpora[-1].weight < math.inf:
            raise ValueError(
                f"A corpus is NAME or NAME@WEIGHT, a finite weight above 0, and perhaps #TAG at "
                f"the end, a word without @ # / ▁, not '{part}'."
            )
    if not corpora:
        raise ValueError("data.corpus is empty; name a corpus, for example 'embedded'.")
    return corpora


class Tags:
    """The tags of the corpora of a run: the piece that each source of a corpus begins with.

    A tag says, for example, into which language to translate (Johnson et al., 2017, "Google's
    Multilingual Neural Machine Translation System"), or that a source was translated back (Caswell
    et al., 2019, "Tagged Back-Translation").

    all: each once, in the order of the corpora. default: that of the first corpus, perhaps "".
    """

    def __init__(self, config: DataConfig) -> None:
        tags = [corpus.tag for corpus in parse_corpora(config.corpus)]
        self.all, self.default = list(dict.fromkeys(filter(None, tags))), tags[0]
        longest_first = sorted(self.all, key=len, reverse=True)
        tag = "|".join(re.escape(tag) + r"(?!\w)" * tag[-1].isalnum() for tag in longest_first)
        self._tag_and_rest = re.compile(rf"\s*({tag})\s*(.*)", re.DOTALL)

    def put_on(self, source: str) -> str:
        """Returns a source as the model knows it: with its own tag, or else with the default.

        An empty source stays empty. With the tags <2fr>, the default, and <2en>:

            "A man."           "<2fr> A man."
            "<2en>Un homme."   "<2en> Un homme."
            "<2en>"            ""
        """
        if not self.all:
            return source
        found = self._tag_and_rest.fullmatch(source)
        tag, text = found.groups() if found else (self.default, source)
        return f"{tag} {text}".removeprefix(" ") if text.strip() else ""

    def check_known(self, corpus: str) -> None:
        """Raises ValueError if a corpus that is to be scored has a tag that the run has not."""
        for tag in Tags(DataConfig(corpus=corpus)).all:
            if tag not in self.all:
                known = f"the tags {', '.join(self.all)}" if self.all else "no tag"
                raise ValueError(f"The corpora of the run have {known}, not the tag '{tag}'.")

    def check(self, tokenizer: Tokenizer) -> None:
        """Raises ValueError if a tag is not one piece of the vocabulary of the sources."""
        for tag in self.all:
            ids = tokenizer.without_control(tokenizer.encode([tag])[0])
            pieces = [piece for piece in tokenizer.pieces(ids) if piece != "▁"]
            if len(pieces) != 1 or tokenizer.special.unk in ids:
                raise ValueError(
                    f"The tag '{tag}' of data.corpus must be one piece of the vocabulary, which "
                    f"has {' '.join(pieces) or 'nothing'} for it: choose another one, or learn a "
                    f"vocabulary with tokenizer.kind=sentencepiece."
                )
