"""The committed corpus is what its README says; regenerating it gives the same bytes."""

import collections
import hashlib
import importlib.metadata
import lzma
import re
import subprocess
import sys
import unicodedata

import pytest

from tests.helpers.scripts import ROOT

FOLDER = ROOT / "transformer" / "embedded"
README = (FOLDER / "README.md").read_text(encoding="utf-8")


DATA = lzma.decompress((FOLDER / "en-de.tsv.xz").read_bytes())


@pytest.fixture(scope="module")
def splits():
    pairs = collections.defaultdict(list)
    for line in DATA.decode("utf-8").split("\n")[:-1]:
        split, *pair = line.split("\t")
        pairs[split].append(tuple(pair))
    return pairs


def test_digest_and_counts_are_those_of_the_readme(splits):
    """Catches a corpus without its README, or the reverse, and a filter that eats a split."""
    assert re.search(r"`([0-9a-f]{64})`", README).group(1) == hashlib.sha256(DATA).hexdigest()
    counts = {name: len(pairs) for name, pairs in splits.items()}
    assert counts == {"train": 40_000, "validation": 500, "test": 1_000, "challenge": 500}
    assert "| all | " + " | ".join(str(n) for n in counts.values()) + " |" in README


def test_nothing_of_the_other_splits_is_in_train(splits):
    """Catches contents that render alike on either side, and dates in another format."""
    for split in ("validation", "test", "challenge"):
        for side in (0, 1):
            assert not {p[side] for p in splits["train"]} & {p[side] for p in splits[split]}, split
    months = {"Januar": 1, "März": 3, "Mai": 5, "Juli": 7, "Oktober": 10}
    # Only targets that are a date and no more: an interval is held out if one of its ends is.
    date = rf"(\d+)\. ({'|'.join(months)}) (\d{{4}})"
    dates = [match.groups() for _, t in splits["test"] if (match := re.fullmatch(date, t))]
    train = "\n".join(target for _, target in splits["train"])
    assert dates
    for day, month, year in dates:
        numeric = rf"{int(day):02d}\.{months[month]:02d}\.{year}"
        assert not re.search(rf"\b{day}\. {month} {year}|{numeric}", train)


def test_every_pair_is_plain_text_that_makes_sense(splits):
    """Catches ambiguous sources and repeats, odd spaces and direction marks, unfilled slots,
    "3,406 of the 2,546 participants", and a corpus on which copying the source scores well."""
    sources = [source for pairs in splits.values() for source, _ in pairs]
    assert len(sources) == len(set(sources))
    odd_kinds = {"Zs", "Zl", "Zp", "Cc", "Cf"}
    for name, pairs in splits.items():
        assert sum(source == target for source, target in pairs) <= 0.03 * len(pairs), name
        for source, target in pairs:
            for text in (source, target):
                odd = {c for c in text if unicodedata.category(c) in odd_kinds} - {" "}
                assert text and not odd and text == " ".join(text.split()), repr(text)
            placeholder = r"pseudo|unknown|[{}]|\bNone\b"
            assert not re.search(placeholder, source + target, re.IGNORECASE), source
            part = re.match(r"(\d+) of the (\d+) ", source)
            assert not part or int(part.group(1)) < int(part.group(2)), source


def test_regenerating_gives_the_same_bytes(tmp_path):
    """Catches randomness from hashing, locale or time, and generator code that was edited since."""
    for package, version in re.findall(r"(Babel|num2words) ([\d.]+\d)", README):
        pytest.importorskip(package.lower())
        if importlib.metadata.version(package) != version:
            pytest.skip(f"the corpus was made with {package} {version}")
    tool = ROOT / "tools/make_embedded_corpus.py"
    words = [sys.executable, tool, "--target_language=de", f"--output={tmp_path}"]
    subprocess.run(words, check=True, capture_output=True)
    assert lzma.decompress((tmp_path / "en-de.tsv.xz").read_bytes()) == DATA
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == README
