"""tags.py: a piece before each source of a corpus, in training, evaluation and translation."""

import random

import pytest
import sentencepiece

from tests.data.corpus_files import write
from transformer.config import Config, DataConfig, TokenizerConfig
from transformer.data.corpora.corpora import Tags
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared.prepare import corpus_recipe, vocabulary_recipe
from transformer.data.tokenizers.files import train_tokenizers
from transformer.data.tokenizers.lists import CharacterTokenizer, PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.special_tokens import NUM_SPECIAL

TEXT = [f"the cat no. {i} sat on the mat, über {i * 7 % 101} Mäuse" for i in range(300)]
TAGS = ["<2fr>", "<bt>"]


@pytest.fixture(scope="module")
def tokenizer():
    texts = [f"{TAGS[i % 2]} {text}" for i, text in enumerate(TEXT)]
    return SentencePieceTokenizer.train(texts, 400, TAGS)


def test_sources_get_their_corpus_tag_behind_every_filter(tmp_path):
    """Catches a tag that hides an empty side, one of another corpus, and the second's test set."""
    a = write(tmp_path / "a", train__tsv="1\teins\n\tzwei\nsame\tsame\n", val__tsv="x\ty\n")
    b = write(tmp_path / "b", train__tsv="2\tzwei\n", val__tsv="4\tvier\n\tx\n")
    config = DataConfig(corpus=f"{b}#<2fr>,{a}@2#<bt>,{b}")
    pairs = [("<2fr> 2", "zwei"), ("<bt> 1", "eins"), ("2", "zwei")]
    assert list(TrainingText(config).pairs()) == pairs
    assert load_evaluation_pairs(config, "val") == [("<2fr> 4", "vier"), ("<2fr> ", "x")]


def test_a_tag_changes_nothing_of_what_is_held_out(tmp_path):
    """Catches a hash of tag and source: another tag would move sentences into the training text."""
    folder = write(tmp_path / "a", train__tsv="".join(f"{n}\t{n} x\n" for n in range(100)))
    plain, tagged = (
        DataConfig(corpus=f"{folder}{tag}", held_out="test@20%") for tag in ("", "#<bt>")
    )
    held_out = load_evaluation_pairs(plain, "test")
    assert load_evaluation_pairs(tagged, "test") == [(f"<bt> {a}", b) for a, b in held_out]
    text = TrainingText(tagged)
    assert load_evaluation_pairs(tagged, "test", text.held_out)[0][0].startswith("<bt> ")
    assert list(text.pairs()) == [(f"<bt> {a}", b) for a, b in TrainingText(plain).pairs()]


def test_what_is_held_out_is_not_trained_on_in_the_other_direction(tmp_path):
    """Catches a test sentence that the model has seen as a target, and its translation."""
    a = write(tmp_path / "a", train__tsv="".join(f"{n}\tx{n}\n" for n in range(100)))
    b = write(tmp_path / "b", train__tsv="".join(f"x{n}\t{n}\n" for n in range(100)))
    config = DataConfig(corpus=f"{a}#<2de>,{b}#<2en>", held_out="test@20%")
    tested = {pair[1] for pair in load_evaluation_pairs(config, "test")}
    trained = [pair[0].split()[1] for pair in TrainingText(config).pairs()]
    assert 10 < len(tested) < 30 and len(trained) > 120
    assert not tested.intersection(trained) and not {t[1:] for t in tested}.intersection(trained)


def test_a_learnt_tag_is_one_piece_and_the_sentence_behind_it_stays(tokenizer):
    """Catches a tag split into letters, one more piece for its space, and slow tokenising."""
    assert tokenizer.words is not None  # that each word is split once
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choices([*TAGS, " ", " ", "\u3000", "\t", "cä", "the", "<"], k=9))
        plain, tagged = tokenizer.encode([text, f"<2fr> {text}"])
        assert tagged[1:] == plain and tokenizer.pieces(tagged[:1]) == ["▁<2fr>"], repr(text)
        assert plain[:-1] == tokenizer._processor.encode(text), repr(text)


def test_the_rest_of_the_vocabulary_is_learnt_as_without_tags(tokenizer):
    """Catches pieces that are spent on the letters of a tag."""
    plain = SentencePieceTokenizer.train(TEXT, 400 - len(TAGS))
    assert tokenizer.pieces(range(NUM_SPECIAL + 2, 400)) == plain.pieces(range(NUM_SPECIAL, 398))


def test_a_tag_that_is_not_one_piece_is_refused(tokenizer, tmp_path):
    """Catches a tag that a ready-made vocabulary spells, or does not know."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=str(tmp_path / "my"), vocab_size=60,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, user_defined_symbols=["<2fr>"], minloglevel=2,
    )  # fmt: skip
    users, _ = train_tokenizers(TokenizerConfig(model=str(tmp_path / "my.model")), [])
    fine, other = Tags(DataConfig(corpus="a#<2fr>")), Tags(DataConfig(corpus="a,b#<2es>"))
    for known in (tokenizer, PiecesTokenizer(["<2fr>", "a"], "@@"), users):
        fine.check(known)
        with pytest.raises(ValueError, match=r"^The tag '<2es>' of data\.corpus must be one piece"):
            other.check(known)
    Tags(DataConfig(corpus="a")).check(CharacterTokenizer("a"))
    with pytest.raises(ValueError, match="has < 2 e s > for it"):
        other.check(CharacterTokenizer("<2es>"))


def test_a_source_keeps_its_tag_or_gets_the_first_one():
    """Catches an untagged source, one with two tags, and words whose beginning is a tag."""
    expected = {"  <bt>a": "<bt> a", "de a": "de a", "den a": "<2fr> den a", "": "", " <bt> ": ""}
    expected |= {"<bt> <2fr> a": "<bt> <2fr> a", "a <bt>": "<2fr> a <bt>", "<b>a": "<2fr> <b>a"}
    tags, none = (Tags(DataConfig(corpus=corpus)) for corpus in ("a#<2fr>,b#<bt>,c,d#de", "a,b"))
    assert {source: tags.put_on(source) for source in expected} == expected
    assert {none.put_on(source) for source in expected} == expected.keys()


def test_a_corpus_with_a_foreign_tag_is_not_scored():
    """Catches a test set whose sources get a second tag, and a score for nothing."""
    tags = Tags(DataConfig(corpus="a#<2fr>,b#<bt>"))
    tags.check_known("moved@2#<bt>,moved")
    with pytest.raises(ValueError, match=r"the tags <2fr>, <bt>, not the tag '<2es>'"):
        tags.check_known("moved#<2es>")


def test_another_tag_is_another_prepared_corpus_and_another_vocabulary(tokenizer):
    """Catches ids with the old tag, which are taken from the cache."""
    names = ["a", "a#<bt>", "a#<2fr>", "a@2#<2fr>"]
    configs = [Config().with_values({"data.corpus": name}) for name in names]
    for recipe in (vocabulary_recipe, lambda c: corpus_recipe(c.data, [tokenizer])):
        recipes = [str(recipe(config)) for config in configs]
        assert len(set(recipes)) == 3 and recipes[2] == recipes[3]
