"""tokenizer_files.py: the tokenizers of a run, found again as they were."""

import pytest

from tests.helpers.control_ids import UNK
from transformer.config import TokenizerConfig
from transformer.data.tokenizers.files import load_tokenizers, save_tokenizers, train_tokenizers
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer

PAIRS = [(f"the cat number {i} sat", f"die Katze Nummer {i} saß") for i in range(200)]
SENTENCES = ["the cat", "die Katze", "new ☃"]
KINDS = {
    "shared": TokenizerConfig(vocab_size=330),
    "separate": TokenizerConfig(vocab_size=300, shared=False),
    "separate pieces": TokenizerConfig(kind="pieces", shared=False),
    "characters": TokenizerConfig(kind="characters"),
    "spelling and phones": TokenizerConfig(
        kind="characters", target_kind="pieces", joiner="", shared=False
    ),
}


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_saved_and_loaded_they_are_the_same(config, tmp_path):
    """Catches source and target swapped, and two loaded where one is shared."""
    trained = train_tokenizers(config, PAIRS)
    save_tokenizers(tmp_path, *trained)
    loaded = load_tokenizers(tmp_path)
    assert (loaded[0] is loaded[1]) == (trained[0] is trained[1]) == config.shared
    for before, after in zip(trained, loaded, strict=True):
        assert after.encode(SENTENCES) == before.encode(SENTENCES)
        assert after.to_bytes() == before.to_bytes()
    assert len(list(tmp_path.iterdir())) == 2 - config.shared
    if not config.shared:  # each is learnt from its own side
        source, target = (tokenizer.encode(["number"])[0] for tokenizer in loaded)
        assert len(source) < len(target) or UNK in target


def test_each_side_may_have_its_own_kind():
    """Catches the source's kind on both sides, and phones that are joined to one word."""
    pairs = [("hat  ", "h a t͡s"), ("x", "ŋ")]
    source, target = train_tokenizers(KINDS["spelling and phones"], pairs)
    assert len(source.encode(["hat "])[0]) == 5
    ids = target.encode(["t͡s a ŋ"])[0]
    assert len(ids) == 4 and target.decode(ids) == target.join_pieces("t͡s a ŋ") == "t͡s a ŋ"


def test_saving_again_leaves_no_old_file(tmp_path):
    """Catches the tokenizer of a run that never began, which would be loaded first."""
    save_tokenizers(tmp_path, *train_tokenizers(KINDS["shared"], PAIRS))
    separate = train_tokenizers(KINDS["separate pieces"], PAIRS)
    save_tokenizers(tmp_path, *separate)
    assert load_tokenizers(tmp_path)[0].to_bytes() == separate[0].to_bytes()


def test_a_given_model_is_used_or_refused_by_name(tmp_path):
    """Catches a new vocabulary instead of the one that was named or imported, and a stack trace."""
    given = SentencePieceTokenizer.train(["a b c"] * 5, 265)
    config, file = TokenizerConfig(model=str(tmp_path / "my.model")), tmp_path / "my.model"
    file.write_bytes(given.to_bytes())
    source, target = train_tokenizers(config, PAIRS)
    assert source is target and source.to_bytes() == given.to_bytes()
    for content in (b"", b"text\n", None):
        file.write_bytes(content) if content is not None else file.unlink()
        with pytest.raises(ValueError, match=r"my\.model.*\.$"):
            train_tokenizers(config, PAIRS)
    with pytest.raises(ValueError, match=r"training\.init_from[^\n]*\.$"):
        train_tokenizers(TokenizerConfig(kind="imported"), PAIRS)


def test_missing_half_and_damaged_files_are_refused_by_name(tmp_path):
    """Catches one of two tokenizers that serves for both."""
    with pytest.raises(ValueError, match="holds no tokenizer"):
        load_tokenizers(tmp_path)
    save_tokenizers(tmp_path, *train_tokenizers(KINDS["separate"], PAIRS))
    file = tmp_path / "target_tokenizer.model"
    data = file.read_bytes()
    file.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"target_tokenizer\.model holds no [^\n]*\.$"):
        load_tokenizers(tmp_path)
    file.unlink()
    (tmp_path / "target_tokenizer.model.tmp").write_bytes(data)  # a crash while it was written
    with pytest.raises(ValueError, match="holds no tokenizer"):
        load_tokenizers(tmp_path)
