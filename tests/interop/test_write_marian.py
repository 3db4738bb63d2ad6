"""A MarianMT folder of Hugging Face computes and translates as the run that it was made of."""

import json
import pathlib
import re

import numpy as np
import pytest

from tests.helpers.control_ids import EOS
from tests.helpers.imported import as_run, run_readme
from tests.helpers.random_translators import as_written, random_translator
from tests.helpers.rings import others_long
from transformer.config import DataConfig
from transformer.data.corpora.training_text import load_evaluation_pairs
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference.translator import Translator
from transformer.interop.check import check_transformers
from transformer.interop.huggingface.seq2seq import read_seq2seq
from transformer.interop.huggingface.write_marian import save_marian
from transformer.interop.marian import read_marian
from transformer.interop.weights.folds import has_token_rows, position_table
from transformer.special_tokens import OWN_IDS

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PAIRS = load_evaluation_pairs(DataConfig(), "validation")[:300]
HARD = [
    "A man", "x", "ab  cd\tef", " leading", "née Übergrößenträger 12,5 %", "emoji 🙂 and 漢字",
    "…", "O'Neil said: \"no\" (twice)", "a\u00a0b \u200b c",
]  # fmt: skip
MODELS = {  # (whether there are two vocabularies, settings)
    "the paper's": (False, {}),
    "swish": (False, dict(activation="swish", projection_bias=True)),
    "learned": (False, dict(positions="learned", max_positions=300, output_bias=True)),
    "two vocabularies": (
        True,
        dict(
            embedding_sharing="target", positions="sinusoidal_tensor2tensor", activation="gelu",
            num_decoder_layers=1, scale_embedding=False,
        ),
    ),
    "three tables": (True, dict(embedding_sharing="none", activation="gelu_tanh")),
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizers():
    """(one for both languages, one for the source, one for the target)"""
    sources, targets = ([pair[side] for pair in PAIRS] for side in (0, 1))
    train = SentencePieceTokenizer.train
    return train(sources + targets, 400), train(sources, 350), train(targets, 370)


def make(tokenizers, name, **changes):
    has_two, settings = MODELS[name]
    pair = tokenizers[1:] if has_two else tokenizers[:1] * 2
    return random_translator(4.0, tuple(pair), **(settings | changes))


@pytest.fixture(scope="module", params=MODELS)
def both(request, tokenizers, tmp_path_factory):
    """(our Translator, the folder, their tokenizer, their model)."""
    pytest.importorskip("torch").set_num_threads(1)
    transformers = pytest.importorskip("transformers")
    ours = make(tokenizers, request.param)
    folder = tmp_path_factory.mktemp("marian") / "model"
    save_marian(as_written(ours), folder)
    model = transformers.MarianMTModel.from_pretrained(folder)
    return ours, folder, transformers.MarianTokenizer.from_pretrained(folder), model.eval()


def test_log_probabilities_are_equal(both):
    """Catches a tensor in the wrong place, rows or columns in another order, a lost start."""
    ours, folder, _, _ = both
    said = check_transformers(as_run(as_written(ours)), folder)
    assert re.search(r"of tokens within \de-0[5-9]$", said)


def test_text_becomes_the_same_text(both):
    """Catches another start, other forbidden ids, and a tokenizer that splits otherwise."""
    ours, _, tokenizer, model = both
    texts = [pair[0] for pair in PAIRS[:12]] + HARD
    found = ours.translate(texts, beam_size=1, max_extra_length=40)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    lengths = batch["attention_mask"].sum(1).tolist()
    assert lengths == [len(ids) for ids in ours.source_tokenizer.encode(texts)]
    rows = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=160)
    theirs = tokenizer.batch_decode(rows, skip_special_tokens=True)
    num_ended = 0
    for translation, row, text, length in zip(found, rows, theirs, lengths, strict=True):
        ended = len(translation.ids) < length + 40  # else ours had to end there
        pieces = ours.tokenizer.pieces(translation.ids[: None if ended else -1])
        assert pieces == tokenizer.convert_ids_to_tokens(row[1:])[: len(pieces)]
        assert not ended or " ".join(translation.text.split()) == " ".join(text.split())
        num_ended += ended
    assert num_ended


def test_the_readme_chooses_by_the_penalty_of_the_run(tmp_path, monkeypatch):
    """Catches instructions that do not run, or that divide by n^α where the run has gnmt."""
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    model = read_seq2seq(GOLDEN / "marianmt_shared")
    eos = model.tokenizers[1].special.eos
    model.params["shared_embedding/bias"][eos] += 1  # so that this random model ends
    model.config.decoding.length_penalty, model.config.decoding.alpha = "gnmt", 1.2
    save_marian(model, tmp_path / "model")
    ours = Translator(as_run(model))
    found, others = (
        ours.translate(["One sentence.", "Another one."], early_stopping=True, length_penalty=kind)
        for kind in ("gnmt", "power")
    )
    texts = [translation.text for translation in found]
    assert run_readme(tmp_path / "model", monkeypatch) == texts
    assert texts != [translation.text for translation in others]


@pytest.mark.parametrize("name", MODELS)
def test_reading_a_folder_gives_the_run_again(tokenizers, tmp_path, name):
    """Catches a fold that reading does not undo, and a token that gets another id."""
    ours = make(tokenizers, name, norm_epsilon=1e-5)
    written = as_written(ours)
    save_marian(written, tmp_path / "model")
    read = read_seq2seq(tmp_path / "model")
    assert read.tokenizers[1].special == OWN_IDS
    assert read.tokenizers[0].encode(HARD) == ours.source_tokenizer.encode(HARD)
    for parameter, array in written.params.items():
        if "_positions" not in parameter:
            is_bias = parameter.endswith("/bias") and has_token_rows(parameter)
            rows = slice(EOS if is_bias else 0, None)  # PAD and BOS are silenced
            found = read.params[parameter][rows]
            np.testing.assert_allclose(found, array[rows], atol=1e-6, err_msg=parameter)
    tables = [
        position_table(m.config.model, m.params, "target_positions/table", 40)
        for m in (read, written)
    ]
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)
    # What was imported comes back as it was.
    save_marian(read, tmp_path / "again")
    third = read_seq2seq(tmp_path / "again")
    assert third.params.keys() == read.params.keys()
    for parameter, array in read.params.items():
        np.testing.assert_allclose(third.params[parameter], array, atol=1e-6, err_msg=parameter)
    for file in ("config.json", "vocab.json", "generation_config.json"):
        assert (tmp_path / "again" / file).read_text() == (tmp_path / "model" / file).read_text()


@pytest.mark.parametrize("name", others_long(["marian_joint", "marian_separate"], "marian_joint"))
def test_a_model_of_marian_keeps_its_scores(tmp_path, name):
    """Catches positions that are replaced by the sinusoids that MarianMT would compute."""
    pairs = json.loads((GOLDEN / name / "expected.json").read_text())["pairs"]
    save_marian(read_marian(GOLDEN / name), tmp_path / "model")
    read = read_seq2seq(tmp_path / "model")
    found = Translator(as_run(read)).log_probs(
        *([pair[side] for pair in pairs] for side in ("source", "target"))
    )
    for values, mask, pair in zip(found.values, found.mask, pairs, strict=True):
        theirs = np.array(pair["log_probs"].split(), float)
        np.testing.assert_allclose(values[mask], theirs, atol=1e-4)


@pytest.mark.parametrize(
    "changes, problem",
    [
        (dict(norm="pre", embedding_norm=True), "norm=pre, model.embedding_norm=True; use another"),
        (dict(norm_epsilon=1e-3), r"model.norm_epsilon=0.001 \(it has 1e-05\)"),
        (dict(attention="dot_product", head_dim=4), "model.attention=dot_product, heads of"),
    ],
)
def test_what_cannot_be_held_is_refused(tokenizers, tmp_path, changes, problem):
    """Catches a folder whose model computes something else, and reasons that come one by one."""
    ours = make(tokenizers, "the paper's", **changes)
    with pytest.raises(ValueError, match=problem):
        save_marian(as_written(ours), tmp_path / "model")
    with pytest.raises(ValueError, match="a tokenizer that is not SentencePiece"):
        save_marian(as_written(random_translator()), tmp_path / "model")
    assert not (tmp_path / "model").exists()
