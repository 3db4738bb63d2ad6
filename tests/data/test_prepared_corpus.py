"""prepared/: the same pairs from files as from text, whatever happens while they are prepared."""

import errno
import os
import random
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from tests.helpers.scripts import HANGS
from transformer import optional_libraries
from transformer.config import Config
from transformer.data.corpora import pair_files, training_text
from transformer.data.corpora.cleaning import filter_by_length
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared import corpus as corpus_module
from transformer.data.prepared import prepare as prepare_module
from transformer.data.prepared.corpus import ArrowFile, SentencesOfParts, arrow_bytes, arrow_lists
from transformer.data.prepared.prepare import Share, cache_folder, open_corpus, training_corpus
from transformer.data.rows.epoch_plan import CorpusPart
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers import files as tokenizer_files
from transformer.data.tokenizers.files import train_tokenizers
from transformer.files import parts as files_parts
from transformer.files import storage
from transformer.files.parts import Parts
from transformer.files.reading import TransientError
from transformer.files.storage import absolute

NUM_PAIRS = 230
CLEAN = {"data.drop_duplicates": "source", "data.drop_without_letters": True}
ALL = Share()


@pytest.fixture(autouse=True)
def many_small_parts(monkeypatch):
    """Six parts, in this process unless a test asks for others."""
    monkeypatch.setattr(pair_files, "PAIRS_OF_BLOCK", 40)
    monkeypatch.setattr(files_parts, "LOOK_EVERY", 0.01)


@pytest.fixture
def said(monkeypatch):
    """What was said."""
    lines = []
    monkeypatch.setattr(prepare_module, "say", lines.append)
    return lines


@pytest.fixture
def config(tmp_path):
    """The configuration of two corpora with the same pairs, some left out for every reason."""
    rng, config, text = random.Random(0), Config(), tmp_path / "text"
    sides = [
        [" ".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(NUM_PAIRS)]
        for _ in range(2)
    ]
    sides[0][3], sides[1][50], sides[1][60], sides[0][199] = "", " ", sides[0][60], "a " * 99
    text.mkdir()
    for name, side in zip(("en", "de"), sides, strict=True):
        (text / f"train.{name}").write_bytes("\n".join(side).replace("h a", "\xff", 3).encode())
        for split in ("validation", "test"):
            (text / f"{split}.{name}").write_text("\n".join(side[70:80]) + "\n")
    shutil.copytree(text, tmp_path / "more")
    config.data.corpus = f"{text}@1.5,{tmp_path / 'more'}"
    config.data.cache = str(tmp_path / "cache")
    config.data.row_length, config.data.max_length_ratio = 16, 4.0
    config.tokenizer.kind = "pieces"
    return config


def prepare(config, tokenizers=None, share=ALL):
    return training_corpus(config, TrainingText(config.data), "runs/x", tokenizers, share)


def contents(config):
    """{name: bytes} of what every preparation has to write alike."""
    (folder,) = absolute(config.data.cache).glob("corpus-*")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def all_batches(source, target, corpora):
    packed = PackedBatches(source, target, row_length=16, rows_per_batch=8, seed=3, parts=corpora)
    return [packed[step] for step in range(2 * packed.batches_per_epoch)]


@pytest.fixture
def prepared(config, tmp_path):
    """(a configuration with an empty cache, its tokenizers, the files that it has to prepare)."""
    config = config.with_values(CLEAN)
    tokenizers, _ = prepare(config)
    whole = contents(config)
    config.data.cache = str(tmp_path / "other")
    return config, tokenizers, whole


@pytest.mark.parametrize("held_out", ["", "validation@10%,test@10%"])
def test_batches_are_those_of_the_text(config, held_out, monkeypatch):
    """Catches a pair, a weight or a held-out sentence that is another, and a text read in vain."""
    config.data.held_out = held_out
    text = TrainingText(config.data)
    per_block = [len(kept.pairs) for kept in text.kept()]
    pairs = list(text.pairs())
    tokenizers = train_tokenizers(config.tokenizer, pairs)
    sides = [
        Ragged.encode(tokenizer, [pair[side] for pair in pairs])
        for side, tokenizer in enumerate(tokenizers)
    ]
    kept = filter_by_length(*sides, 16, 4.0)[0]
    assert 0 < len(kept) < len(pairs)
    first = int((kept < sum(per_block[: len(per_block) // 2])).sum())
    corpora = [(first, 1.5), (len(kept) - first, 1.0)]
    expected = all_batches(*(side.take(kept) for side in sides), [CorpusPart(*c) for c in corpora])
    splits = ["validation", "test"] if held_out else []
    evaluated = [load_evaluation_pairs(config.data, split) for split in splits]

    prepare(config)
    monkeypatch.setattr(TrainingText, "blocks", failing(AssertionError("the text is read")))
    (source, _), found = prepare(config)
    assert source.to_bytes() == tokenizers[0].to_bytes()
    assert found.source.lengths.dtype == found.source[0].dtype == np.uint16
    assert found.parts([1.5, 1.0]) == corpora
    batches = all_batches(found.source, found.target, found.parts([1.5, 1.0]))
    for arrays in zip(batches, expected, strict=True):
        for array, other in zip(*arrays, strict=True):
            assert np.array_equal(array, other) and array.dtype == other.dtype
    assert evaluated == [load_evaluation_pairs(config.data, s, found.held_out) for s in splits]
    reasons = " ".join(found.left_out)
    for reason in ("an empty side", "equal sides", "more than 16 pieces", "a length ratio"):
        assert reason in reasons
    assert sum(found.left_out.values()) + len(found.source) == 2 * NUM_PAIRS


def test_worker_processes_write_the_same(config, monkeypatch, tmp_path):
    """Catches parts that depend on who wrote them, and settings that workers do not know."""
    config = config.with_values(CLEAN | {"data.drop_wrong_script": True})
    prepare(config)
    alone = contents(config)
    monkeypatch.setattr(training_text, "SMALL_TEXT", 0)
    config.data.prepare_workers, config.data.cache = 2, str(tmp_path / "other")
    prepare(config)
    assert contents(config) == alone


def failing(error):
    """A function that raises it."""

    def fail(*_, **__):
        raise error

    return fail


class Killed(BaseException):
    """Ends a preparation as a signal does."""


def stop_at(monkeypatch, number, error):
    """Has the part of this number raise `error`; returns the numbers of the others."""
    written, write = [], corpus_module.write_part

    def written_or_stopped(*arguments):
        if arguments[-1].number == number:
            raise error
        written.append(arguments[-1].number)
        write(*arguments)

    monkeypatch.setattr(prepare_module, "write_part", written_or_stopped)
    return written


@pytest.mark.parametrize("when", ["a part", "a damaged part", "all together"])
def test_a_killed_preparation_goes_on_where_it_stopped(prepared, when, said, monkeypatch):
    """Catches a half that is taken for the whole, work done twice, and files that differ."""
    config, tokenizers, whole = prepared
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if when == "all together":
            patch.setattr(corpus_module, "find_repeated", failing(Killed))
        else:
            stop_at(patch, 4, Killed)
        prepare(config, tokenizers)
    (folder,) = absolute(config.data.cache).glob("corpus-*")
    assert open_corpus(folder) is None
    before = len(Parts(folder).finished())
    if when == "a damaged part":
        damage(folder / "000002.arrow", "cut short")
    written = stop_at(monkeypatch, None, None)
    prepare(config, tokenizers)
    assert contents(config) == whole
    if when == "a damaged part":
        assert len(said) == 1 and "000002.arrow is missing or damaged" in said[0]
    else:
        assert not said  # nothing has changed
        assert (before, len(written)) == ((4, 8) if when == "a part" else (12, 0))


def damage(path, how):
    data = path.read_bytes()
    path.unlink()
    if how != "lost":
        path.write_bytes(data[: len(data) * 2 // 3] if how == "cut short" else b"")


@pytest.mark.parametrize("how", ["cut short", "empty", "lost"])
@pytest.mark.parametrize(
    ("name", "redone"),
    [("000003.arrow", [3]), ("kept.arrow", []), ("header.json", [])],
)
def test_damage_is_noticed_and_mended(prepared, name, redone, how, said, monkeypatch, tmp_path):
    """Catches a cache that has to be deleted, and the work of all parts for one of them."""
    config, tokenizers, whole = prepared
    config.data.cache = str(tmp_path / "cache")
    (folder,) = (tmp_path / "cache").glob("corpus-*")
    damage(folder / name, how)
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("a file of the user's")
    written = stop_at(monkeypatch, None, None)
    prepare(config, tokenizers)
    assert contents(config) == whole and written == redone
    if (name, how) != ("header.json", "lost"):
        assert all(name in sentence and "prepared anew" in sentence for sentence in said)
    assert prepare(config)[1] is not None and len(said) < 2
    assert Path(name).exists()


@pytest.mark.parametrize("shares", [[ALL, ALL], [Share(0, 2), Share(1, 2)]], ids=["runs", "hosts"])
def test_two_at_once_do_not_harm_each_other(prepared, shares, monkeypatch):
    """Catches files of which each wrote a part, a wait for ever, and what a writer leaves."""
    config, tokenizers, whole = prepared
    start, write_parts = threading.Barrier(2), prepare_module._write_parts

    def start_together(*arguments):
        start.wait(HANGS)
        return write_parts(*arguments)

    written = stop_at(monkeypatch, None, None)
    monkeypatch.setattr(prepare_module, "_write_parts", start_together)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda share: prepare(config, tokenizers, share)[1], shares))
    assert contents(config) == whole
    assert len(written) == 12 if shares[1] != ALL else {*written} == {*range(12)}
    assert [len(f.source) for f in found] == [len(found[0].source)] * 2


def test_parts_of_a_host_that_ends_are_done_by_another(prepared, monkeypatch):
    """Catches a wait for ever for the parts of a host that was lost."""
    monkeypatch.setattr(prepare_module, "PATIENCE", 0.1)
    config, tokenizers, whole = prepared
    assert len(prepare(config, tokenizers, Share(1, 3))[1].source)
    assert contents(config) == whole


@pytest.mark.parametrize("when", ["a part", "all together", "vocabulary"])
def test_a_full_disk_leaves_a_sentence_and_nothing_else(config, when, monkeypatch, tmp_path):
    """Catches a stack trace, and a half cache that keeps the disk full."""
    full = OSError(errno.ENOSPC, "No space left on device")
    config = config.with_values(CLEAN)
    if when == "a part":
        stop_at(monkeypatch, 4, full)
    else:
        name = "corpus.find_repeated" if when == "all together" else "prepare.save_tokenizers"
        monkeypatch.setattr(f"transformer.data.prepared.{name}", failing(full))
    with pytest.raises(ValueError, match=r"^[^\n]*No space left on device[^\n]*data\.cache\.$"):
        prepare(config)
    kept = [path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()]
    assert kept == ([] if when == "vocabulary" else ["vocabulary"])


def test_a_text_of_which_no_pair_fits_says_what_to_raise(config):
    """Catches a run over nothing, a limit that nobody can find, and parts that fill the disk."""
    config.data.max_length_ratio = 1e-6
    said = r"no pair to train on .*an empty side.*equal sides.*raise data\.max_length_ratio"
    with pytest.raises(ValueError, match=said):
        prepare(config)
    assert not [*absolute(config.data.cache).glob("corpus-*")]


def test_a_text_without_a_line_is_refused_though_its_vocabulary_is_known(config, tmp_path):
    """Catches a corpus of no parts that is taken for one of which others have parts to prepare."""
    tokenizers, _ = prepare(config)
    for name in ("en", "de"):
        (tmp_path / "text" / f"train.{name}").write_text("")
    config.data.corpus = str(tmp_path / "text")
    for share in (ALL, Share(waits=False)):
        with pytest.raises(ValueError, match="no pair to train on"):
            training_corpus(config, TrainingText(config.data), tmp_path / "run", tokenizers, share)


BROKEN = {  # (owner and name of what fails for a moment, the error, the sentence)
    "text": (None, "", TransientError("text cannot be read: x."), "text"),
    "parts": (pyarrow, "memory_map", OSError(errno.EIO, "x"), r"000000.arrow cannot .*: x"),
    "corpus": (prepare_module, "local_files", OSError(errno.ENODEV, "x"), r"be opened \(x\): try"),
    "vocabulary": (tokenizer_files, "read_file", TransientError("v cannot be read"), "cannot be"),
    "library": (
        optional_libraries,
        "import_module",
        ImportError,
        r"^This needs tokenizers: pip install",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_now_costs_no_work(name, config, monkeypatch):
    """Catches hours of work that are removed for a disk that fails for a moment, and a vocabulary
    that is learnt again as a library is not installed."""
    owner, function, error, said = BROKEN[name]
    if name == "library":
        pytest.importorskip("tokenizers")
        config.tokenizer.kind, config.tokenizer.vocab_size = "byte_level", 300
    if name not in ("text", "parts"):  # all was prepared before
        prepare(config)
        monkeypatch.setattr(prepare_module, "sample_evenly", failing(AssertionError("read")))
    with monkeypatch.context() as patch:
        if name == "text":
            stop_at(patch, 4, error)
        else:
            patch.setattr(owner, function, failing(error))
        with pytest.raises(TransientError, match=said):
            prepare(config)
    (folder,) = absolute(config.data.cache).glob("corpus-*")
    assert len(Parts(folder).finished()) == (4 if "text" in name else 12)
    monkeypatch.setattr(prepare_module, "sample_evenly", failing(AssertionError("read")))
    assert prepare(config)[1].folder == Path(folder)


def test_another_text_vocabulary_or_filter_has_another_key(config, said, tmp_path):
    """Catches a run on the ids of another one, and a changed text that nobody notices."""
    tokenizers, first = prepare(config)
    folders = {first.folder}
    for name, value in {"row_length": 15, "max_length_ratio": 3.0, "drop_identical": False}.items():
        changed = config.with_values({f"data.{name}": value})
        folders.add(prepare(changed, tokenizers)[1].folder)
    others = train_tokenizers(config.tokenizer, [("a z", "b y"), ("c d e f g h", "a")])
    folders.add(prepare(config, others)[1].folder)
    assert len(folders) == 5 and not said
    again = config.with_values({"data.corpus": config.data.corpus.replace("@1.5", "@3")})
    assert prepare(again, tokenizers)[1].folder in folders  # weights change no id
    for name, line in (("train.en", "\na b"), ("train.de", "\nc d")):
        with open(tmp_path / "text" / name, "a") as side:
            side.write(line)
    assert len(prepare(config, tokenizers)[1].source) == len(first.source) + 1
    assert len(said) == 1 and "the text has changed" in said[0]


@pytest.mark.parametrize("key", ["time", "hash"])
def test_a_hash_knows_a_copy(config, key, monkeypatch, tmp_path):
    """Catches an hour of preparation because a corpus was copied to another disk."""
    config.data.cache_key = key
    tokenizers, _ = prepare(config)
    (tmp_path / "disk").mkdir()
    moved = (tmp_path / "text").rename(tmp_path / "disk" / "text")
    os.utime(moved / "train.en", (1, 1))
    config.data.corpus = f"{moved}@1.5,{tmp_path / 'more'}"
    written = stop_at(monkeypatch, None, None)
    prepare(config, tokenizers)
    assert bool(written) == (key == "time")


def test_a_folder_that_cannot_be_written(config, said, monkeypatch, tmp_path):
    """Catches a run that cannot start beside a folder of somebody else's."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match=r"Nothing can be written to .*data\.cache\."):
        prepare(config)
    config.data.cache = ""
    (tmp_path / "runs").mkdir()
    cache = cache_folder(config.data, tmp_path / "runs" / "mine")
    assert not cache.is_relative_to(tmp_path) and "--config.data.cache" in said[0]


def test_an_object_store(prepared, monkeypatch):
    """Catches files that are mapped where nothing can be mapped, and parts that are left there."""
    config, tokenizers, whole = prepared
    bucket = config.data.cache
    monkeypatch.setattr(storage, "is_remote", lambda path: str(path).startswith(bucket))
    monkeypatch.setattr(  # a local path has to be made
        prepare_module, "_make_folder", lambda path: path.mkdir(parents=True, exist_ok=True)
    )
    _, found = prepare(config, tokenizers)
    assert contents(config) == whole
    assert not found.folder.is_relative_to(bucket)
    assert prepare(config, tokenizers)[1].source[3].tolist() == found.source[3].tolist()


def test_memory_stays_flat(tmp_path):
    """Catches a process that grows to the size of the corpus as it reads here and there."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("resident memory of files is read from /proc")
    rng, sentences = np.random.default_rng(0), 2**17
    lists = arrow_lists(np.zeros(2**25, np.uint16), np.full(sentences, 2**8))  # 64 MiB
    (tmp_path / "part.arrow").write_bytes(arrow_bytes({"source": lists}))

    def mebibytes():
        return int(re.search(r"RssFile:\s*(\d+)", status.read_text())[1]) / 1024

    before = mebibytes()
    mapped = SentencesOfParts([ArrowFile(tmp_path / "part.arrow")], "source", None)
    for _ in range(2000):
        mapped.gather(rng.integers(0, sentences, 20))
    assert mebibytes() - before < 48  # of a page or more around each of some 32 sentences


def test_sentences_of_parts_are_those_of_one_array(tmp_path):
    """Catches a sentence of the wrong part where parts are empty, and lengths that overflow."""
    sentences, files = [[[5] * 150, [65_535], [6, 7]], [], [[8] * 70_000, [9]], []], []
    for number, part in enumerate(map(Ragged.from_lists, sentences)):
        column = arrow_lists(part.flat.astype(np.uint16), part.lengths)
        (tmp_path / str(number)).write_bytes(arrow_bytes({"source": column}))
        files.append(ArrowFile(tmp_path / str(number)))
    flat, indices = [*chain(*sentences)], [[0, 2], [], [0, 1], []]
    for kept, expected in ((None, flat), (indices, [flat[i] for i in (0, 2, 3, 4)])):
        mapped = SentencesOfParts(files, "source", kept and [np.array(i, int) for i in kept])
        assert [mapped[i].tolist() for i in range(len(mapped))] == expected
        assert mapped.take(np.array([3, 1]))[1].tolist() == expected[1]
        assert len(mapped.gather(np.array([], int))[0]) == 0
