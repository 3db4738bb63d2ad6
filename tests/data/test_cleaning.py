"""What is left out of a training text, why, and what is said of it."""

import random
import shutil
import sys

import pytest
from etils import epath

from tests.data.corpus_files import write
from transformer.config import Config, DataConfig, TokenizerConfig
from transformer.data.corpora import cleaning, pair_files
from transformer.data.corpora.cleaning import (
    held_out_intervals,
    position,
    read_held_out,
    sentence_key,
)
from transformer.data.corpora.languages import make_is_wrong
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared.prepare import Share, training_corpus

ALONE = Share(waits=False)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Several parts for texts of this size."""
    monkeypatch.setattr(pair_files, "PAIRS_OF_BLOCK", 20)


def write_pairs(folder, **splits):
    folder.mkdir(exist_ok=True)
    for split, pairs in splits.items():
        for side, name in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{name}").write_text(text, encoding="utf-8")
    return str(folder)


def make_config(corpus, **settings):
    data = DataConfig(**{"corpus": corpus, "row_length": 16, "max_length_ratio": 0.0} | settings)
    return Config(data=data, tokenizer=TokenizerConfig(kind="pieces")).validate()


def prepare(config, workdir, share=ALONE):
    """(the text, its prepared corpus, the pairs of that as text)."""
    text = TrainingText(config.data)
    tokenizers, corpus = training_corpus(config, text, workdir / "run", None, share)
    if corpus is None:
        return text, None, []
    sides = zip(tokenizers, (corpus.source, corpus.target), strict=True)
    sentences = [[tokenizer.decode(side[i]) for i in range(len(side))] for tokenizer, side in sides]
    return text, corpus, list(zip(*sentences, strict=True))


EVALUATION = {"validation": [("an evaluation", "eine Prüfung")], "test": [("a test", "ein Test")]}
SIDES = {"pair": lambda pair: pair, "source": lambda pair: pair[0], "target": lambda pair: pair[1]}
DISTINCT = {**{name: [name] for name in SIDES}, "either": ["source", "target"]}


@pytest.mark.parametrize("which", DISTINCT)
def test_the_first_occurrence_stays(which, tmp_path):
    """Catches a pair that is lost with its copies, a copy that stays, and counts that differ."""
    rng = random.Random(0)
    pairs = [(f"word {rng.randrange(150)}", f"Wort {rng.randrange(150)}") for _ in range(160)]
    pairs += rng.choices(pairs, k=40)
    rng.shuffle(pairs)
    pairs[7] = ("same", "same")
    folders = [
        write_pairs(tmp_path / name, train=part, **EVALUATION)
        for name, part in (("a", pairs[:110]), ("b", pairs[110:]))
    ]
    expected, counts = pairs[:7] + pairs[8:], {"equal sides": 1}
    for name in DISTINCT[which]:
        first = {}
        for pair in expected:
            first.setdefault(SIDES[name](pair), pair)
        counts[f"a repeated {name}"] = len(expected) - len(first)
        expected = list(first.values())
    _, corpus, pairs = prepare(make_config(",".join(folders), drop_duplicates=which), tmp_path)
    assert pairs == expected
    assert corpus.left_out == counts
    pairs_of_corpora = corpus.header["pairs_of_corpora"]
    assert sum(pairs_of_corpora) == corpus.header["pairs"] == len(pairs) > pairs_of_corpora[0]


def test_pairs_without_letters(tmp_path):
    """Catches a number that is taken for a sentence, and a sentence taken for a number."""
    sides = ["5", "12:30 – 14", "…", "100 %", "😀", "١٢", "5 km", "é", "是", "ば"]
    pairs = [(side, "Wort") for side in sides] + [("word", side) for side in sides]
    corpus = write_pairs(tmp_path / "a", train=pairs)
    for drop in (True, False):
        config = make_config(corpus, drop_without_letters=drop).data
        kept = [pair for pair in pairs if not drop or {*pair} & {*sides[6:]}]
        assert list(TrainingText(config).pairs()) == kept


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("en", "Hello, naïve Привет", "Привет hi"),
        ("ru", "Привет, iPhone", "Privet, мир"),
        ("sr", "Здраво Zdravo", "こんにちは"),
        ("ja", "NHKのニュースです", "Tokyo です"),
        ("ja", "ﾊﾝｶｸ ー 漢字", "안녕하세요"),
        ("ko", "안녕 漢字", "ひらがな"),
        ("uz_Cyrl", "салом", "salom"),
        ("zh-Hant", "漢字", "kanji"),
    ],
)
def test_scripts_of_languages(language, right, wrong):
    """Catches a language that loses its own text, and another alphabet that stays."""
    is_wrong = make_is_wrong(language)
    assert not is_wrong(right) and is_wrong(wrong)
    assert not is_wrong("") and not is_wrong("12 – ー µ")  # letters of no script


def test_a_language_of_unknown_script_is_refused_before_anything_is_read(tmp_path):
    """Catches a filter that does nothing, and an error after hours of preparation."""
    write(tmp_path, train__tsv="a\n")  # which cannot be read
    config = DataConfig(corpus=str(tmp_path), source_language="xx", drop_wrong_script=True)
    with pytest.raises(ValueError, match=r"^data\.drop_wrong_script .* 'xx' .* xx_Latn\.$"):
        TrainingText(config)


def test_sentences_with_one_key_have_one_outline():
    """Catches an overlap that is missed, as a letter is written by another character."""
    for character in map(chr, range(sys.maxunicode + 1)):
        folded = character.casefold() if character.isalnum() else ""
        assert cleaning._outline(character) == cleaning._outline(folded)


OVERLAPPING = {
    "train": [
        ("It is late.", "Es ist spät."),
        ("IT IS LATE", "Nun ist es spät."),
        ("another one", "Noch EINE Maße!"),
        ("5 %", "fünf Prozent"),
        ("nothing of it", "nichts davon"),
    ],
    "validation": [
        ("It is late", "Wie spät es ist"),  # its source is in the text
        ("one more", "noch eine masse"),  # its target
        ("5", "5"),  # has no letter
        ("not there", "nicht da"),
    ],
    "test": [("It is: late!", "Noch eine Maße"), ("x", "y")],  # both
}


def test_overlap_is_counted_and_said_again_without_reading(tmp_path, monkeypatch):
    """Catches a count that is too high, and a restart that reads the text or says nothing."""
    corpus = write_pairs(tmp_path / "a", **OVERLAPPING)
    config = make_config(corpus)
    text, found, _ = prepare(config, tmp_path)
    said = found.overlap_with(text.evaluation)
    assert said.startswith("2 of 4 pairs of validation and 1 of 2 pairs of test have the source or")
    monkeypatch.setattr(TrainingText, "blocks", lambda *_: pytest.fail("the text is read"))
    text, found, _ = prepare(config, tmp_path)
    assert found.overlap_with(text.evaluation) == said
    config.data.test_split = "validation"
    text, found, _ = prepare(config, tmp_path)
    assert "was not counted for these sets" in found.overlap_with(text.evaluation)


def test_what_is_no_overlap(tmp_path):
    """Catches a pair with equal sides that counts, a warning of held-out pairs, and a count of half
    the text, where a preparation goes on with other sets."""
    train = [("April 1954", "April 1954"), ("word", "Wort")]
    config = make_config(write_pairs(tmp_path / "a", train=train))
    config.data.validation_split = config.data.test_split = "train"
    text, found, _ = prepare(config, tmp_path)
    assert found.overlap_with(text.evaluation).startswith("1 of 2 pairs of train have the source ")
    pairs = [(f"one {n % 90} more", f"noch {n % 80} mehr") for n in range(300)]
    corpus = write_pairs(tmp_path / "b", train=pairs)
    text, found, _ = prepare(make_config(corpus, held_out="validation@10%,test@10%"), tmp_path)
    assert text.evaluation_pairs == {} and found.overlap_with(text.evaluation) == ""
    parts = {**OVERLAPPING, "train": OVERLAPPING["train"] * 9}
    config = make_config(write_pairs(tmp_path / "c", **parts))
    prepare(config, tmp_path, Share(0, 2, waits=False))
    config.data.test_split = "validation"
    text, found, _ = prepare(config, tmp_path)
    assert "was not counted for these sets" in found.overlap_with(text.evaluation)


def test_overlapping_pairs_are_left_out(tmp_path):
    """Catches a pair that stays, one that goes without need, and the corpus of other test sets."""
    corpus = write_pairs(tmp_path / "a", **OVERLAPPING)
    config = make_config(corpus, drop_overlap=True)
    text, found, pairs = prepare(config, tmp_path)
    assert pairs == OVERLAPPING["train"][3:]
    assert found.left_out == {"a sentence of the validation or test set": 3}
    assert found.overlap_with(text.evaluation) == ""
    write_pairs(tmp_path / "a", validation=[("x", "y")], test=[("fünf", "fünf Prozent")])
    assert len(prepare(config, tmp_path)[2]) == 4


def test_tags_hide_no_overlap_and_tell_pairs_apart(tmp_path):
    """Catches a sentence that a tag or the other direction hides, and a source that is lost as it
    is to be translated into two languages."""
    pairs = [("It is late.", "Es ist spät"), ("word", "Wort")]
    forward = write_pairs(
        tmp_path / "a", train=pairs, validation=[("it is late", "x")], test=[("z", "wort")]
    )
    back = write_pairs(tmp_path / "b", train=[("Wort", "word"), ("word", "word's")])
    for corpora, counts in ((f"{forward}#<2de>,{back}#<2en>", 1), (f"{back}#<2en>", 0)):
        config = make_config(corpora, drop_duplicates="source")
        if not counts:
            write_pairs(tmp_path / "b", validation=[("es", "WORT!")], test=[("x", "y")])
        text, found, kept = prepare(config, tmp_path)
        said = found.overlap_with(text.evaluation)
        assert ("1 of 1 pairs of validation" in said) and ("1 of 1 pairs of test" in said) == counts
        assert len(kept) == (4 if counts else 2)


def test_a_sample_of_each_reason_says_where_it_was(tmp_path):
    """Catches a sample of the first lines alone, a wrong line, and a tab that shifts columns."""
    held_out = next(f"out {n}" for n in range(10**6) if position(f"out{n}") < 0.002)
    reasons = {
        "an empty side": lambda n: (f"word {n}", " "),
        "equal sides": lambda n: (f"a\tb\\ {n}", f"a\tb\\ {n}"),
        "more than 16 pieces": lambda n: (f"a{n} " * 300, "Wort"),
        "a side without letters": lambda n: (f"{n}", f"{n}!"),
        "a side in a script of another language": lambda n: ("слово", f"Wort {n}"),
        "a held-out source": lambda n: (held_out, f"Wort {n} b"),
        "": lambda n: (f"word {n}", f"Wort {n}"),
    }
    pairs = [reason(n) for n in range(60) for reason in reversed(reasons.values())]
    config = make_config(
        write_pairs(tmp_path / "folder", train=pairs),
        held_out="validation@0.1%,test@0.1%",
        drop_without_letters=True,
        drop_wrong_script=True,
    )
    _, found, _ = prepare(config, tmp_path)
    lines = (found.folder / cleaning.LEFT_OUT).read_text(encoding="utf-8").split("\n")[:-1]
    header, *rows = [line.split("\t") for line in lines]
    assert tuple(header) == cleaning.COLUMNS
    assert {len(row) for row in rows} == {5} and {row[1] for row in rows} == {"folder/train.en"}
    for reason in filter(None, reasons):
        lines = [int(row[2]) for row in rows if row[0] == reason]
        assert len(lines) == cleaning.SAMPLE_SIZE and lines == sorted(lines), reason
        assert min(lines) < len(pairs) / 4 and max(lines) > len(pairs) * 3 / 4
    for _, _, line, *sides in rows:
        for side, sentence in zip(sides, pairs[int(line) - 1], strict=True):
            side = side.replace("\\t", "\t").replace("\\\\", "\\")
            assert side == sentence or side[:-1] == sentence[: cleaning.SHOWN_CHARACTERS]


# ---- splits that are taken out of the training text

SHARING = [(f"source {n}", f"Ziel {n}") for n in range(600)]  # with others, a side of nearly a key
SHARING += [(f"Source {n}!", f"anderes Ziel {n}") for n in range(0, 600, 3)]
SHARING += [(f"other source {n}", f"ziel, {n}") for n in range(0, 600, 3)]
random.Random(0).shuffle(SHARING)


def held_out_config(folder, pairs):
    """A configuration of a corpus folder with nothing but training text."""
    return make_config(write_pairs(folder, train=pairs), held_out="validation@10%,test@20%").data


def load_splits(config, held_out=None):
    return {
        split: load_evaluation_pairs(config, split, held_out) for split in ("validation", "test")
    }


def test_no_held_out_sentence_is_trained_on(tmp_path):
    """Catches a sentence on both sides: a paraphrase's source, or the same target again."""
    config = held_out_config(tmp_path / "a", SHARING)
    training, splits = list(TrainingText(config).pairs()), load_splits(config)
    sides = [{sentence_key(pair[side]) for pair in training} for side in (0, 1)]
    for pairs in splits.values():
        keys = [[sentence_key(pair[side]) for pair in pairs] for side in (0, 1)]
        assert not sides[0] & set(keys[0]) and not sides[1] & set(keys[1])
        assert len(keys[0]) == len(set(keys[0]))  # one reference for each source
    assert not {s for s, _ in splits["validation"]} & {s for s, _ in splits["test"]}
    assert 50 < len(splits["validation"]) < 110 < len(splits["test"]) < 210
    assert len(training) > 500


def test_order_and_additions_move_no_sentence(tmp_path):
    """Catches a hold-out by line number, and a hash that another process computes otherwise."""
    more = [(f"new {n}", f"neu {n}") for n in range(200)]
    before = load_splits(held_out_config(tmp_path / "a", SHARING))
    after = load_splits(held_out_config(tmp_path / "b", [*more, *reversed(SHARING)]))
    for split in before:
        old, new = ({sentence_key(pair[0]) for pair in text[split]} for text in (before, after))
        assert old <= new and all(key.startswith("new") for key in new - old)
    assert position("a") == pytest.approx(0.2537936)  # a run's config.json relies on it


@pytest.mark.parametrize(
    "text", ["test", "test@", "test@0%", "test@5", "a@30%,b@30%", "a@1%,a@1%", "@3%", "a@-1%"]
)
def test_shares_are_checked(text):
    """Catches a share that holds out nothing or most of the text, and a split named twice."""
    with pytest.raises(ValueError, match=r"^data\.held_out must be splits .* not '.*'\.$"):
        held_out_intervals(DataConfig(held_out=text))


def test_a_run_keeps_what_it_held_out(tmp_path):
    """Catches another test set, and scores beside those of the first, once text was added."""
    config, folder = held_out_config(tmp_path / "a", SHARING), epath.Path(tmp_path)
    before = load_splits(config)
    _, prepared, _ = prepare(make_config(**vars(config)), tmp_path)
    prepared.save_notes(folder)
    shutil.rmtree(tmp_path / "a")
    assert load_splits(config, read_held_out(folder)) == before
    assert read_held_out(folder / "a") is None
    (tmp_path / "held_out.json").write_text("[[1")
    with pytest.raises(ValueError, match=r"held_out\.json is damaged: restore it, or remove it"):
        read_held_out(folder)
