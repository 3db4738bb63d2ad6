"""A folder of CTranslate2 translates as the run that it was made of."""

import json
import pathlib

import numpy as np
import pytest

from tests.helpers.imported import as_run, run_readme
from tests.helpers.random_translators import (
    WORDS,
    as_written,
    random_sentences,
    random_translator,
)
from tests.helpers.rings import others_long
from tools.golden_translation import LANGUAGES, SENTENCES
from transformer.data.tokenizers.lists import CharacterTokenizer, PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference.translator import Translator
from transformer.interop.ctranslate2 import save_ctranslate2
from transformer.interop.huggingface.seq2seq import read_seq2seq
from transformer.interop.marian import read_marian
from transformer.interop.writing import first_pieces

ctranslate2 = pytest.importorskip("ctranslate2")

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
BEAM = 4
SEPARATE = PiecesTokenizer(WORDS, "@@"), PiecesTokenizer([f"t{i}" for i in range(25)], "@@")
MODELS = {
    "the paper's": (None, {}),
    "every option": (
        SEPARATE,
        dict(
            norm="pre", embedding_sharing="target", positions="learned", activation="swish",
            projection_bias=True, output_bias=True, embedding_norm=True, scale_embedding=False,
            num_decoder_layers=1, norm_epsilon=1e-3, max_positions=64,
        ),
    ),
    "three tables": (
        SEPARATE,
        dict(
            embedding_sharing="none", positions="sinusoidal_tensor2tensor", activation="gelu",
            output_bias=True, num_decoder_layers=3,
        ),
    ),
    "approximate gelu": (None, dict(positions="sinusoidal_fairseq", activation="gelu_tanh")),
}  # fmt: skip


LISTS = dict(beam_size=BEAM, num_hypotheses=BEAM, min_decoding_length=0)
LISTS |= dict(return_scores=True, return_end_token=True)


def load(folder):
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


@pytest.mark.parametrize("name", others_long(MODELS, "every option"))
def test_lists_are_equal(tmp_path, name):
    """Catches a part that is left out, in another order, transposed, or of the other stack."""
    tokenizers, changes = MODELS[name]
    ours, sentences = random_translator(4.5, tokenizers, **changes), random_sentences()
    save_ctranslate2(as_written(ours), tmp_path / "model")
    options = LISTS | dict(max_decoding_length=60, length_penalty=1.0)
    theirs = load(tmp_path / "model").translate_batch([s.split() for s in sentences], **options)
    options = dict(beam_size=BEAM, nbest=BEAM, alpha=1.0, length_penalty="power")
    options |= dict(early_stopping=True, max_extra_length=60)
    num_compared = 0
    for best, others in zip(ours.translate(sentences, **options), theirs, strict=True):
        if all(len(words) < 60 for words in others.hypotheses):  # else they are cut off
            num_compared += 1
            assert [ours.tokenizer.pieces(t.ids) for t in best] == others.hypotheses
            np.testing.assert_allclose([t.score for t in best], others.scores, atol=1e-5)
    assert num_compared > 5


def test_quantisation_leaves_our_parameters_alone(tmp_path):
    """Catches arrays that CTranslate2 scales in place, and a format that it cannot load."""
    model = as_written(random_translator())
    before = {name: array.copy() for name, array in model.params.items()}
    sizes = {}
    for quantization in ("", "int8", "float16"):
        folder = tmp_path / f"model_{quantization}"
        said = save_ctranslate2(model, folder, quantization)
        assert (quantization or "float32") in said
        assert load(folder).translate_batch([["w1", "w2"]])[0].hypotheses[0]
        sizes[quantization] = (folder / "model.bin").stat().st_size
    assert max(sizes["int8"], sizes["float16"]) < sizes[""]
    assert all((model.params[name] == before[name]).all() for name in before)


TEXT = ["eine kleine Katze", "ein großer Hund", "die Katze und der Hund", "zwei Hunde, 3 Katzen"]


@pytest.mark.parametrize(
    "kind, penalty",
    others_long(
        [
            ("sentencepiece", "power"),
            ("characters", "power"),
            ("pieces", "power"),
            ("pieces", "gnmt"),
        ],
        ("pieces", "gnmt"),
    ),
)
def test_the_readme_translates(tmp_path, monkeypatch, kind, penalty):
    """Catches instructions that do not run, that split or join text otherwise than we do, or that
    choose by another length penalty.
    """
    texts = ["One sentence.", "Another one."]
    tokenizer = {
        "sentencepiece": lambda: SentencePieceTokenizer.train(TEXT, 300),
        "characters": lambda: CharacterTokenizer.train(texts),
        "pieces": lambda: PiecesTokenizer(["One", "senten@@", "ce.", "Another", "one."], "@@"),
    }[kind]()
    ours = random_translator(2.0, (tokenizer, tokenizer))
    ours.config.decoding.length_penalty, ours.config.decoding.max_extra_length = penalty, 60
    ours.config.decoding.alpha = 2.0  # so that the penalties choose otherwise
    save_ctranslate2(as_written(ours), tmp_path / "model")
    printed = run_readme(tmp_path / "model", monkeypatch)
    expected = ours.translate(texts, early_stopping=True)
    assert any(map(str, expected))
    assert " ".join(printed).split() == " ".join(map(str, expected)).split()


@pytest.mark.parametrize(
    "changes, problem",
    [
        (dict(head_dim=4, attention="dot_product"), "model.attention=dot_product, heads of"),
        (dict(positions="rotary"), "model.positions=rotary"),
        (dict(value_dim=4), r"heads of \(8, 4\)"),
        (dict(feed_forward="gated", norm_type="rms_norm"), "model.feed_forward=gated, model.norm_"),
    ],
)
def test_what_cannot_be_held_is_refused(tmp_path, changes, problem):
    """Catches a model that is written although CTranslate2 computes something else."""
    with pytest.raises(ValueError, match=f"CTranslate2 cannot hold {problem}"):
        save_ctranslate2(as_written(random_translator(**changes)), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_two_ids_of_one_name_and_wrong_formats_are_refused(tmp_path):
    """Catches two ids that become one."""
    model = as_written(random_translator())
    with pytest.raises(ValueError, match="int4 is not a valid quantization type"):
        save_ctranslate2(model, tmp_path / "model", "int4")
    model.tokenizers = (PiecesTokenizer(["<unk>", *WORDS[1:]], "@@"),) * 2
    with pytest.raises(ValueError, match="'<unk>' as a control token and as a piece"):
        save_ctranslate2(model, tmp_path / "model")


@pytest.mark.parametrize("name", ["marian_joint", "marian_pre_norm", "marian_separate"])
def test_an_imported_model_scores_words_as_marian_does(tmp_path, name):
    """Catches what reading and writing both do wrong: Marian itself gave these scores."""
    pairs = json.loads((GOLDEN / name / "expected.json").read_text())["pairs"]
    save_ctranslate2(read_marian(GOLDEN / name), tmp_path / "model")
    sides = (
        [pair[side].split(" ") for pair in pairs] for side in ("source_pieces", "target_pieces")
    )
    for scored, pair in zip(load(tmp_path / "model").score_batch(*sides), pairs, strict=True):
        theirs = np.array(pair["log_probs"].split(), float)
        np.testing.assert_allclose(scored.log_probs, theirs, atol=5e-5)


@pytest.mark.parametrize("name", others_long(LANGUAGES, "nllb"))
def test_models_of_many_languages_give_equal_lists(tmp_path, name):
    """Catches a refusal because `<s>` is a token like others there, and a score in which the
    language counts: it favours longer translations.
    """
    model = read_seq2seq(GOLDEN / name, *LANGUAGES[name])
    if name != "nllb":  # so that these random models end
        model.params["shared_embedding/bias"][model.tokenizers[1].special.eos] += 1
    save_ctranslate2(model, tmp_path / "model")
    source, target = model.tokenizers
    ours = Translator(as_run(model))
    options = dict(beam_size=BEAM, nbest=BEAM, early_stopping=True, alpha=1.0)
    found = ours.translate(SENTENCES, **options)
    theirs = load(tmp_path / "model").translate_batch(
        [source.pieces(ids[:-1]) for ids in source.encode(SENTENCES)],
        target_prefix=[first_pieces(target)] * len(SENTENCES),
        **LISTS,
    )
    for best, others in zip(found, theirs, strict=True):
        assert [target.pieces(t.ids) for t in best] == others.hypotheses
        np.testing.assert_allclose([t.score for t in best], others.scores, atol=1e-5)


@pytest.mark.long
def test_the_readme_of_an_imported_model(tmp_path, monkeypatch):
    """Catches a SentencePiece model whose pieces are not those of the vocabulary."""
    model = read_marian(GOLDEN / "marian_pieces")
    save_ctranslate2(model, tmp_path / "model")
    texts = ["One sentence.", "Another one."]
    found = Translator(as_run(model)).translate(texts, early_stopping=True, max_extra_length=200)
    assert run_readme(tmp_path / "model", monkeypatch) == [t.text for t in found]
