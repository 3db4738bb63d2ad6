"""What is left out of a training text, why, and what is said of it."""

import random
import sys

import pytest

from transformer.config import Config
from transformer.data.corpora import blocks as pair_blocks
from transformer.data.corpora import cleaning, held_out
from transformer.data.corpora.cleaning import make_is_wrong
from transformer.data.corpora.held_out import position
from transformer.data.corpora.training_text import TrainingText
from transformer.data.prepared.cache import cache_folder
from transformer.data.prepared.prepare import Share, training_corpus


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Several parts for texts of this size."""
    monkeypatch.setattr(pair_blocks, "PAIRS_OF_BLOCK", 20)


def write_pairs(folder, **splits):
    folder.mkdir(exist_ok=True)
    for split, pairs in splits.items():
        for side, name in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{name}").write_text(text, encoding="utf-8")
    return str(folder)


def make_config(corpus, **settings):
    config = Config()
    config.data.corpus, config.tokenizer.kind = corpus, "pieces"
    for name, value in {"row_length": 16, "max_length_ratio": 0.0, **settings}.items():
        setattr(config.data, name, value)
    return config.validate()


def prepare(config, workdir, share=None):
    """(the text, its prepared corpus, the pairs of that as text)."""
    text = TrainingText(config.data)
    share = share or Share(waits=False)
    cache = cache_folder(config.data, workdir / "run")
    tokenizers, corpus = training_corpus(config, text, cache, None, share)
    if corpus is None:
        return text, None, []
    sides = zip(tokenizers, (corpus.source, corpus.target), strict=True)
    sentences = [[tokenizer.decode(side[i]) for i in range(len(side))] for tokenizer, side in sides]
    return text, corpus, list(zip(*sentences, strict=True))


EVALUATION = {"validation": [("an evaluation", "eine Prüfung")], "test": [("a test", "ein Test")]}
SIDES = {"pair": lambda pair: pair, "source": lambda pair: pair[0], "target": lambda pair: pair[1]}
DISTINCT = {**{name: [name] for name in SIDES}, "either": ["source", "target"]}


@pytest.fixture
def repetitive(tmp_path):
    """Two corpora of 200 pairs of few sentences, and (corpora, pairs without equal sides)."""
    rng = random.Random(0)
    pairs = [(f"word {rng.randrange(150)}", f"Wort {rng.randrange(150)}") for _ in range(160)]
    pairs += rng.choices(pairs, k=40)
    rng.shuffle(pairs)
    pairs[7] = ("same", "same")
    folders = [
        write_pairs(tmp_path / name, train=part, **EVALUATION)
        for name, part in (("a", pairs[:110]), ("b", pairs[110:]))
    ]
    return ",".join(folders), pairs[:7] + pairs[8:]


@pytest.mark.parametrize("which", DISTINCT)
def test_the_first_occurrence_stays(repetitive, which, tmp_path):
    """Catches a pair that is lost with its copies, a copy in another part or corpus that stays, and
    ids, numbers of pairs or counts that do not fit each other."""
    corpora, expected = repetitive
    counts = {"equal sides": 1}
    for name in DISTINCT[which]:
        first = {}
        for pair in expected:
            first.setdefault(SIDES[name](pair), pair)
        counts[f"a repeated {name}"] = len(expected) - len(first)
        expected = list(first.values())
    _, corpus, pairs = prepare(make_config(corpora, drop_duplicates=which), tmp_path)
    assert pairs == expected
    header = corpus.header
    assert corpus.left_out == counts
    assert corpus.left_out.total() == 200 - len(pairs) == 200 - header["pairs"]
    assert sum(header["pairs_of_corpora"]) == len(pairs) > header["pairs_of_corpora"][0]


LETTERLESS = ["5", "12:30 – 14", "…", "100 %", "😀", "١٢"]


def test_pairs_without_letters(tmp_path):
    """Catches a number that is taken for a sentence, and a sentence taken for a number."""
    lettered = ["5 km", "é", "是", "ば"]
    pairs = [(side, "Wort") for side in LETTERLESS + lettered]
    pairs += [("word", side) for side in LETTERLESS + lettered]
    corpus = write_pairs(tmp_path / "a", train=pairs, **EVALUATION)
    _, found, kept = prepare(make_config(corpus, drop_without_letters=True), tmp_path)
    assert len(kept) == 2 * len(lettered)
    assert found.left_out == {"a side without letters": 2 * len(LETTERLESS)}
    _, found, kept = prepare(make_config(corpus), tmp_path)
    assert len(kept) == len(pairs) and not found.left_out


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("en", "Hello, naïve Привет", "Привет hi"),
        ("de", "Grüße aus Köln – 1 µm", "你好"),
        ("ru", "Привет, iPhone", "Privet, мир"),
        ("uk", "Їжак", "Yizhak"),
        ("sr", "Здраво Zdravo", "こんにちは"),
        ("el", "Καλημέρα", "Kalimera"),
        ("ja", "NHKのニュースです", "Tokyo です"),
        ("ja", "ﾊﾝｶｸ ー 漢字", "안녕하세요"),
        ("zh", "我也用 NHK", "ひらがな"),
        ("ko", "안녕 漢字", "ひらがな"),
        ("ar", "مرحبا بالعالم", "Marhaba"),
        ("he", "שלום", "سلام"),
        ("hi", "नमस्ते दुनिया", "Namaste"),
        ("th", "สวัสดี", "Sawasdee"),
        ("ka", "გამარჯობა", "Привет"),
        ("uz_Cyrl", "салом", "salom"),
        ("pt-BR", "olá", "привет"),
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
    corpus = write_pairs(tmp_path / "a", train=[("a", "b")])
    config = make_config(corpus, drop_wrong_script=True)
    with pytest.raises(ValueError, match=r"^data\.drop_wrong_script .* 'xx' .* xx_Latn\.$"):
        config.data.source_language = "xx"
        (tmp_path / "a" / "train.xx").write_text("a\n")
        TrainingText(config.data)


def test_sentences_with_one_key_have_one_outline():
    """Catches an overlap that is missed, as a letter is written by another character."""
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    folded = [c.casefold() if c.isalnum() else "" for c in characters]
    assert held_out._outlines(characters) == [
        outline if character.isalnum() else b""
        for character, outline in zip(characters, held_out._outlines(folded), strict=True)
    ]


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
    """Catches scores of sentences that were trained on, a count that is too high, and a restart
    that reads the text for it or says nothing."""
    corpus = write_pairs(tmp_path / "a", **OVERLAPPING)
    config = make_config(corpus)
    text, found, _ = prepare(config, tmp_path)
    said = found.overlap_with(text.evaluation)
    assert said.startswith("2 of 4 pairs of validation and 1 of 2 pairs of test have the source or")
    monkeypatch.setattr(TrainingText, "_blocks", lambda *_: pytest.fail("the text is read"))
    text, found, _ = prepare(config, tmp_path)
    assert found.overlap_with(text.evaluation) == said
    config.data.test_split = "validation"
    text, found, _ = prepare(config, tmp_path)
    assert "was not counted for these sets" in found.overlap_with(text.evaluation)


def test_pairs_that_are_not_trained_on_are_no_overlap(tmp_path):
    """Catches "95 of 100 pairs of train are in the training text", of which 5 had equal sides."""
    corpus = write_pairs(tmp_path / "a", train=[("April 1954", "April 1954"), ("word", "Wort")])
    config = make_config(corpus, validation_split="train", test_split="train")
    text, found, _ = prepare(config, tmp_path)
    said = "1 of 2 pairs of train have the source or the target of a pair that is trained on; "
    assert found.overlap_with(text.evaluation).startswith(said)


def test_parts_that_were_written_for_other_sets_are_not_counted(tmp_path):
    """Catches a count of half the text, where a preparation goes on with another test set."""
    corpus = write_pairs(tmp_path / "a", **{**OVERLAPPING, "train": OVERLAPPING["train"] * 9})
    config = make_config(corpus)
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
    """Catches a sentence that is not found behind a tag or in the other direction, and a source
    that is lost as it is to be translated into two languages."""
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


def test_no_overlap_is_no_warning(tmp_path):
    """Catches a warning that users learn to ignore; held-out pairs never are in the text."""
    pairs = [(f"one {n % 90} more", f"noch {n % 80} mehr") for n in range(300)]
    corpus = write_pairs(tmp_path / "a", train=pairs)
    config = make_config(corpus, held_out="validation@10%,test@10%")
    text, found, _ = prepare(config, tmp_path)
    assert text.evaluation_pairs == {} and found.overlap_with(text.evaluation) == ""


def test_machines_that_share_the_work_find_the_same(repetitive, tmp_path):
    """Catches what depends on the part's writer, and text that only one of them has seen."""
    corpora, _ = repetitive
    config = make_config(corpora, drop_duplicates="either", drop_overlap=True)
    alone = prepare(config, tmp_path / "alone")[1]
    shares = [prepare(config, tmp_path / "shared", Share(i, 2, waits=False))[1] for i in (1, 0)]
    assert shares[0] is None and shares[1].header == alone.header
    assert shares[1].sample == alone.sample


def test_a_sample_of_each_reason_says_where_it_was(tmp_path):
    """Catches a sample of the first lines alone, a wrong line, and a tab that shifts columns."""
    held_out = next(f"out {n}" for n in range(10**6) if position(f"out{n}") < 0.002)
    reasons = {
        "an empty side": lambda n: (f"word {n}", " "),
        "equal sides": lambda n: (f"a\tb\\ {n}", f"a\tb\\ {n}"),
        "more than 16 pieces": lambda n: (f"a{n} " * 300, "Wort"),
        "a side without letters": lambda n: (f"{n}", f"{n}!"),
        "a side in a script of another language": lambda n: ("слово", f"Wort {n}"),
        "a repeated source": lambda n: ("word 0", f"Wort {n} a"),
        "a repeated target": lambda n: (f"word {n} a", "Wort 0"),
        "a held-out source": lambda n: (held_out, f"Wort {n} b"),
        "": lambda n: (f"word {n}", f"Wort {n}"),
    }
    pairs = [reason(n) for n in range(60) for reason in reversed(reasons.values())]
    corpus = write_pairs(tmp_path / "folder", train=pairs)
    config = make_config(
        corpus,
        held_out="validation@0.1%,test@0.1%",
        drop_duplicates="either",
        drop_without_letters=True,
        drop_wrong_script=True,
    )
    _, found, _ = prepare(config, tmp_path)
    header, *rows = [row.split("\t") for row in found.sample.removesuffix("\n").split("\n")]
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
