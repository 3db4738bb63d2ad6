"""GPT-2's folders in and out, held against what transformers computed of them."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.helpers.imported import (
    GOLDEN,
    as_run,
    assert_equal,
    changed_folder,
    compute,
    random_model,
)
from tests.helpers.tiny_models import tiny_config
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.inference.language_model import LanguageModel
from transformer.interop.huggingface import gpt2

FOLDER = GOLDEN / "gpt2"
PROMPTS = ["the cat", "on the mat\n\nthe", "a", "Über 日本"]


@pytest.fixture(scope="module")
def imported():
    return gpt2.read(FOLDER)


def test_logits_are_those_of_transformers(imported):
    """Catches queries taken for keys, a transpose, a missing last norm, and rows that speak up."""
    expected = np.load(FOLDER / "expected.npz")
    eos = imported.tokenizers[0].special.eos
    encoded = imported.tokenizers[0].encode(PROMPTS)
    for theirs, logits, ids in zip(expected["ids"], expected["logits"], encoded, strict=True):
        assert ids == [*(i for i in theirs if i >= 0), eos]
        found = compute(imported, np.array([ids[:-1]]))[0]
        np.testing.assert_allclose(found, logits[: len(ids) - 1], atol=1e-5)


@pytest.mark.long
def test_greedy_continuations_are_those_of_transformers(imported):
    """Catches a prompt that gets an <|endoftext|> before it, and an end that is not seen."""
    model = LanguageModel(as_run(imported))
    expected = json.loads((FOLDER / "continuations.json").read_text())
    assert model.generate(PROMPTS, num_pieces=10, temperature=0) == expected
    assert model.generate(PROMPTS[:1], num_pieces=10, seed=1, top_k=5)[0]


def test_files_of_other_ages_hold_the_same(imported, tmp_path):
    """Catches names of one version of transformers alone, and masks taken for weights."""
    table = load_file(FOLDER / "model.safetensors")["transformer.wte.weight"]
    masks = {"h.1.attn.bias": np.ones((1, 1, 24, 24), np.uint8), "h.0.attn.masked_bias": np.ones(1)}
    folder = changed_folder(
        FOLDER,
        tmp_path / "old",
        rename=lambda name: name.removeprefix("transformer."),
        add=masks | {"lm_head.weight": table},
        drop=("activation_function", "scale_attn_weights", "layer_norm_epsilon"),
    )
    assert_equal(gpt2.read(folder), imported)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
            r"scale_attn_weights=False \(possible: True\); scale_attn_by_inverse_layer_idx=True",
        ),
        ({"model_type": "gpt_neo"}, "model_type='gpt_neo'"),
        ({"n_layer": 1}, "are unknown"),
    ],
)
def test_what_we_have_not_is_refused_in_one_sentence(settings, message, tmp_path):
    """Catches a model that is taken for another."""
    with pytest.raises(ValueError, match=rf"^[^\n]*{message}[^\n]*\.$"):
        gpt2.read(changed_folder(FOLDER, tmp_path / "folder", **settings))


def test_rows_and_tokens_that_do_not_fit(imported, tmp_path):
    """Catches a row that stands for nothing and stays, and a token without a row."""
    table = load_file(FOLDER / "model.safetensors")[gpt2.WORDS]
    rows = {gpt2.WORDS: np.pad(table, [(0, 4), (0, 0)])}
    found = gpt2.read(changed_folder(FOLDER, tmp_path / "longer", add=rows))
    assert_equal(found, imported)
    assert "4 rows of the embedding stand for no token: left out." in found.notes
    shorter = changed_folder(FOLDER, tmp_path / "shorter", add={gpt2.WORDS: table[:-3]})
    with pytest.raises(ValueError, match="tokenizer has 268 tokens, the model rows for 265"):
        gpt2.read(shorter)


def test_an_imported_model_is_written_as_it_was(imported, tmp_path):
    """Catches an array, an id or a token that is not given back."""
    gpt2.write(imported, tmp_path)
    read = gpt2.read(tmp_path)
    assert_equal(read, imported)
    assert read.tokenizers[0].to_bytes() == imported.tokenizers[0].to_bytes()
    theirs, again = (load_file(folder / "model.safetensors") for folder in (FOLDER, tmp_path))
    assert theirs.keys() == again.keys()
    before, after = (json.loads((f / "config.json").read_text()) for f in (FOLDER, tmp_path))
    assert before | after == before | {"n_inner": 32}


def own_run(imported, **changes):
    """A run with settings that GPT-2 has not: scaled embeddings, sinusoids, no biases."""
    config = Config(task="language_model", model=tiny_config(**dict(norm="pre") | changes))
    config.tokenizer.kind, config.data.row_length = "imported", 16
    return random_model(config, imported.tokenizers, Labels([]))


def test_a_run_of_our_own_becomes_a_gpt2(imported, tmp_path):
    """Catches a scale, positions or biases that the other side would lack."""
    ours = own_run(imported)
    gpt2.write(ours, tmp_path)
    again = gpt2.read(tmp_path)
    assert again.config.model.scale_embedding
    ids = np.array([imported.tokenizers[0].encode(PROMPTS)[0]])
    found, expected = (compute(model, ids) for model in (again, ours))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_runs_that_gpt2_cannot_hold_are_refused(imported, tmp_path):
    """Catches a folder that computes something else than the run."""
    wrong = dict(norm="post", embedding_norm=True, attention="local", norm_type="rms_norm")
    run = own_run(imported, **wrong, output_bias=True)
    with pytest.raises(ValueError, match=r"norm_type=rms_norm, .*, model.output_bias=True; use"):
        gpt2.write(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
