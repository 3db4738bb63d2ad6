"""pair_files.py: the same pairs in whatever files."""

import gzip
import json
import lzma
import random
from itertools import pairwise

import pyarrow
import pytest
from pyarrow import parquet

from transformer.config import DataConfig
from transformer.data.corpora import pair_files, training_text
from transformer.data.corpora.corpus_facts import missing_splits
from transformer.data.corpora.training_text import TrainingText
from transformer.data.files.text import LINE_BREAK, LONGEST_LINE, NOT_UTF8

PAIRS = [(f"a {n} ä", f"b {n}\u2028") for n in range(40)]


def write_sides(stem, pairs, packed=""):
    for side, language in enumerate(("en", "de")):
        write_text(f"{stem}.{language}{packed}", [pair[side] for pair in pairs])


def write_tsv(stem, pairs, packed=""):
    write_text(f"{stem}.tsv{packed}", ["\t".join(pair) for pair in pairs])


def write_jsonl(stem, pairs, packed=""):
    rows = [{"de": target, "id": 1, "en": source} for source, target in pairs]
    rows = [{"translation": row} if n % 2 else row for n, row in enumerate(rows)]
    write_text(f"{stem}.jsonl{packed}", [json.dumps(row) for row in rows])


def write_text(name, lines):
    pack = {"gz": gzip.compress, "xz": lzma.compress}.get(name.rpartition(".")[2], bytes)
    with open(name, "wb") as file:
        file.write(pack("".join(f"{line}\n" for line in lines).encode()))


def write_parquet(stem, pairs, nested=False):
    rows = [dict(zip(("en", "de"), pair, strict=True)) for pair in pairs]
    if nested:
        rows = [{"id": n, "translation": row} for n, row in enumerate(rows)]
    size = 3 if nested else None
    parquet.write_table(pyarrow.Table.from_pylist(rows), f"{stem}.parquet", row_group_size=size)


WRITERS = {
    "sides": write_sides,
    "tsv": write_tsv,
    "jsonl": write_jsonl,
    "gz": lambda *args: write_sides(*args, ".gz"),
    "jsonl.xz": lambda *args: write_jsonl(*args, ".xz"),
    "parquet": write_parquet,
    "nested": lambda *args: write_parquet(*args, nested=True),
}


def read_blocks(corpus, split="train", **settings):
    return list(training_text.read_blocks(str(corpus), split, DataConfig(**settings)))


def read(*args, **settings):
    """The pairs of a split, as every reader of blocks gets them."""
    return [pair for block in read_blocks(*args, **settings) for pair in block.decode()[0]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(pair_files, "PAIRS_OF_BLOCK", 7)


@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_pairs_whatever_the_format(kind, tmp_path):
    """Catches a format that loses, repeats or swaps pairs, and a part that is another one."""
    WRITERS[kind](tmp_path / "train", PAIRS)
    assert read(tmp_path) == PAIRS
    for start, stop in ((0, 10), (10, 85), (85, 100)):
        part = PAIRS[start * 40 // 100 : stop * 40 // 100]
        assert read(tmp_path, f"train[{start}%:{stop}%]") == part


def test_parquet_is_not_read_to_count_its_rows(tmp_path, monkeypatch):
    """Catches hours of reading for train[99%:] of a file whose metadata have the number."""
    write_parquet(tmp_path / "train", PAIRS)
    passes, blocks = [], pair_files._parquet_blocks
    monkeypatch.setattr(pair_files, "_parquet_blocks", lambda *a: passes.append(a) or blocks(*a))
    assert read(tmp_path, "train[90%:]") == PAIRS[36:] and len(passes) == 1


def write_shards(folder, seed, stem):
    """Writes PAIRS as files of several lengths and formats, some of them empty."""
    rng = random.Random(seed)
    bounds = [0, *sorted(rng.choices(range(41), k=11)), 40]
    for number, (start, stop) in enumerate(pairwise(bounds)):
        kind = rng.choice([*WRITERS]) if stop > start else "sides"
        WRITERS[kind](folder / stem.format(number), PAIRS[start:stop])


@pytest.mark.parametrize(("seed", "stem"), [(0, "val.{}"), (1, "val-{:05}-of-00012")])
def test_several_files_are_read_in_the_order_of_their_numbers(seed, stem, tmp_path):
    """Catches val.10 before val.2, a file left out, and a part counted in each file alone."""
    write_shards(tmp_path, seed, stem)
    assert read(tmp_path, "validation") == PAIRS
    parts = [read(tmp_path, f"validation[{part}]") for part in (":37%", "37%:41%", "41%:")]
    assert [pair for part in parts for pair in part] == PAIRS
    assert len(parts[0]) == 37 * 40 // 100 and min(map(len, parts)) > 0
    blocks = read_blocks(tmp_path, "validation")
    shares = [block.share_read for block in blocks]
    assert shares == sorted(shares) and shares[-1] == 1 and max(b.num_pairs for b in blocks) == 7


def test_a_corpus_may_be_named_by_its_files(tmp_path):
    """Catches a pattern that takes in a neighbour, and one whose splits are not held out."""
    write_shards(tmp_path, 0, "crawl-{}")
    write_tsv(tmp_path / "other", [("x", "y")])
    (tmp_path / "crawl-readme.txt").write_text("about")
    assert read(tmp_path / "crawl-*") == PAIRS
    assert read(tmp_path / "other.tsv") == [("x", "y")]
    config = DataConfig(corpus=f"{tmp_path}/other.tsv,{tmp_path}/crawl-*", drop_identical=False)
    assert list(TrainingText(config).pairs()) == [("x", "y"), *PAIRS]
    assert missing_splits(config) == ["validation", "test"]
    with pytest.raises(ValueError, match=r"are the split 'train', not 'test': hold 'test' out"):
        read(tmp_path / "crawl-*", "test")
    with pytest.raises(ValueError, match=r"must be NAME\.en and NAME\.de .*it holds crawl-"):
        read(tmp_path / "none-*")
    (tmp_path / "part_0-of-2.tsv").touch()
    with pytest.raises(ValueError, match="of these there are 1"):
        read(tmp_path / "part_*")


MISSING = {  # files: the end of the sentence
    ("train.00.en", "train.00.de", "train.01.en"): r"hold train\.01\.en and train\.01\.de .*there "
    r"is only train\.01\.en; it holds train\.00\.de, ",
    ("train-0-of-2.tsv",): r"hold train-…-of-2\.en .*of these there are 1",
    ("train.en", "train.de", "train.00.tsv"): r"Of train\.en and train\.00\.tsv in \S* only one",
    ("train.en", "train.de", "train.tsv"): r"Of train\.tsv and train\.en and train\.de in",
    ("train.tsv", "train.jsonl.gz"): r"Of train\.tsv and train\.jsonl\.gz in",
}


@pytest.mark.parametrize(("names", "said"), MISSING.items())
def test_files_that_are_missing_or_there_twice_are_named(names, said, tmp_path):
    """Catches a file without its partner that is skipped, and pairs that are trained on twice."""
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"^[^\n]*{said}[^\n]*\.$"):
        read(tmp_path)


WRONG = [
    "{",
    '["a", "b"]',
    '{"en": "a", "de": null}',
    '{"en": "a", "translation": {"de": "b"}}',
    json.dumps({"en": "x" * LONGEST_LINE, "de": "y"}),
]


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:40])
def test_a_wrong_line_of_jsonl_is_named(line, tmp_path):
    """Catches a traceback, a line that is skipped, and one too long for the memory."""
    write_text(f"{tmp_path}/train.jsonl", ['{"en": "a", "de": "b"}', line])
    with pytest.raises(ValueError, match=r"train\.jsonl line 2 must be a JSON object [^\n]*\.$"):
        read(tmp_path)


def test_a_wrong_file_of_parquet_is_named(tmp_path):
    """Catches a traceback of the library, and an empty cell that becomes the text None."""
    write_parquet(tmp_path / "train", [("a", "b"), ("c", None)])
    with pytest.raises(ValueError, match=r"train\.parquet row 2 must hold texts, not None\.$"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"must have columns en and fr.* it has en, de\.$"):
        read(tmp_path, target_language="fr")
    whole = (tmp_path / "train.parquet").read_bytes()
    for content in (b"", whole[:-20], whole[:20] + bytes(20) + whole[40:]):
        (tmp_path / "train.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"train\.parquet cannot be read: [^\n]*\.$"):
            read(tmp_path)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_a_line_cannot_hold_is_repaired_and_counted(kind, tmp_path):
    """Catches a translation of two lines, and what JSON may hold and UTF-8 cannot."""
    WRITERS[kind](tmp_path / "train", [("a", "b"), ("c\r\nd", "e\n")])
    expected, faults = [("a", "b"), ("c d", "e ")], {LINE_BREAK: [1, 2]}
    if kind == "jsonl":
        with open(tmp_path / "train.jsonl", "a") as file:
            file.write('{"en": "a\\ud83d", "de": "b"}\n')
        expected, faults = [*expected, ("a\ufffd", "b")], {**faults, NOT_UTF8: [1, 3]}
    (block,) = read_blocks(tmp_path)
    found = {f"{fault} ({tmp_path}/train.{kind}": where for fault, where in faults.items()}
    assert block.decode() == (expected, found)


def test_a_broken_link_is_named(tmp_path):
    """Catches a traceback."""
    write_sides(tmp_path / "train", PAIRS)
    (tmp_path / "train.de").rename(tmp_path / "moved")
    (tmp_path / "train.de").symlink_to("gone")
    for open_text in (read, lambda corpus: TrainingText(DataConfig(corpus=str(corpus)))):
        with pytest.raises(ValueError, match=r"train\.de cannot be read: No such file[^\n]*\.$"):
            open_text(tmp_path)


def test_a_block_of_long_lines_holds_fewer(tmp_path, monkeypatch):
    """Catches 50,000 lines of a megabyte each that are held at once, and pairs lost between."""
    monkeypatch.setattr(pair_files, "BYTES_OF_BLOCK", 1)
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 2)
    write_sides(tmp_path / "train", PAIRS)
    assert read(tmp_path) == PAIRS
    assert max(block.num_pairs for block in read_blocks(tmp_path)) == 2
