"""language_model.py: continuations where line breaks are text, as the texts of GPT-2 have them."""

import json
from collections import defaultdict

import jax
import numpy as np
import pytest

from tests.helpers.random_runs import make_config
from tests.helpers.tiny_models import random_params
from transformer.checkpoint.restore import Run
from transformer.data.rows.lm_batches import WindowBatch, encode_text
from transformer.inference import language_model
from transformer.inference.language_model import LanguageModel
from transformer.interop.huggingface.tokens import END, gpt2_json, with_control_tokens
from transformer.model.single_stack import CausalLM

WINDOW = 16


@pytest.fixture(scope="module")
def tokenizer():
    """Byte-level BPE whose vocabulary has few letters, and runs of line breaks."""
    tokens = [*"abcĠĊ", "ĊĊ", "ĊĊĊ", "Ġa", "<|endoftext|>"]
    vocabulary = json.dumps({token: i for i, token in enumerate(tokens)})
    return with_control_tokens(gpt2_json(vocabulary, "Ċ Ċ\nĊĊ Ċ\nĠ a"), [END] * 5)


def make_model(tokenizer, **model):
    config = make_config("language_model", **model)
    config.data.row_length = WINDOW
    made = LanguageModel(Run.in_memory(config, (tokenizer,)))
    made.params = random_params(made.model.init, WindowBatch.zeros(1, 1), deterministic=True)
    return made


@pytest.fixture(scope="module")
def model(tokenizer):
    return make_model(tokenizer)


def greedy(model, ids, num_pieces):
    """The most probable continuation, each token from one pass over all before it."""
    network = CausalLM(model.config.model, model.tokenizer.vocab_size)
    apply = jax.jit(lambda ids: network.apply({"params": model.params}, ids, deterministic=True))
    eos = model.tokenizer.special.eos
    found = list(ids) or [eos]
    length = len(found) + num_pieces
    while len(found) < length:
        padded = np.array([found + [0] * (length - len(found))], np.int32)
        logits = np.array(apply(padded)[0, len(found) - 1])
        found.append(int(logits.argmax()))
        if found[-1] == eos:
            break
    return found[max(len(ids), 1) :]


@pytest.mark.parametrize("prompts", [["a"], ["ab c", "", "c\n\na b", "ba"]])
def test_a_prompt_is_given_as_it_is(model, prompts):
    """Catches EOS before a prompt, which such a model takes for the end of another text."""
    with pytest.raises(ValueError, match="no option width: temperature, top_k, top_p"):
        model.generate(prompts, width=3)
    found = model.generate(prompts, num_pieces=8, temperature=0)
    for prompt, text in zip(prompts, found, strict=True):
        ids = greedy(model, model.encode(prompt)[:-1].tolist(), 8)
        assert text == model.tokenizer.decode(ids)
        assert "".join(model.stream(prompt, num_pieces=8, temperature=0)) == text


def test_one_line_ends_at_the_first_line_break(model):
    """Catches a line break inside a token of several, and an answer of two lines to one. Also
    tokens lost or doubled where the window is moved."""
    prompts = ["a", "b", "c", "ab", "ba", "ca"]
    whole = model.generate(prompts, num_pieces=30, seed=1)
    assert sum("\n" in text for text in whole) > 2
    lines = model.generate(prompts, num_pieces=30, seed=1, one_line=True)
    assert lines == [text.split("\n")[0] for text in whole]
    for prompt, text in zip(prompts[:3], whole, strict=False):
        assert "".join(model.stream(prompt, num_pieces=30, seed=1)) == text
    assert WINDOW < max(len(model.encode(text)) for text in whole[:3]) <= 31


def test_a_text_is_one_however_it_is_divided_and_ends_once(model, tokenizer):
    """Catches EOS at every line break, a text that goes on behind its end, and other tokens where a
    long text is divided to be tokenised."""
    ids, eos = model.encode("a\nb\n\n\nc"), tokenizer.special.eos
    assert (ids == eos).sum() == 1 and ids[-1] == eos and ids.dtype == np.int32
    assert model.decode(ids) == "a\nb\n\n\nc" == model.decode([*ids, *ids])
    rng = np.random.default_rng(0)
    for text in ["", *("".join(rng.choice(list("ab c's\n\n\n  "), size=30)) for _ in range(200))]:
        assert model.encode(text).tolist() == tokenizer.encode([text])[0]
    assert encode_text(tokenizer, []).tolist() == [eos]


def test_a_model_with_a_memory_has_no_end_of_its_window(tokenizer):
    """Catches a window that starts again, and cached states unlike those of one long pass."""
    memory = dict(block="transformer_xl", segment_length=4, memory_length=6)
    made = make_model(tokenizer, positions="rotary", **memory)
    expected = greedy(made, tokenizer.encode(["ab c"])[0][:-1], 2 * WINDOW)
    assert len(expected) > WINDOW
    found = made.generate(["ab c"], num_pieces=2 * WINDOW, temperature=0.0)
    assert found == [tokenizer.decode(np.array(expected, np.int32))]


@pytest.mark.parametrize("options", [{"seed": 3}, {"temperature": 0.0}])
def test_prompts_may_be_divided_anyhow(model, options, monkeypatch):
    """Catches a draw that changes with its neighbours: their number, their length, one alone. Where
    programs of other shapes compute a text, it changes where two tokens are nearly as good."""
    shapes = defaultdict(set)

    def note_shape(seed, ids, make_rngs=language_model.make_rngs):
        for row in ids:
            shapes[tuple(row[row > 0])].add(ids.shape)
        return make_rngs(seed, ids)

    monkeypatch.setattr(language_model, "make_rngs", note_shape)
    monkeypatch.setattr(language_model, "SHORTEST_CACHE", 4)
    rng = np.random.default_rng(0)
    prompts = ["".join(rng.choice(list("abc "), size=rng.integers(2, 24))) for _ in range(41)]
    options = options | {"num_pieces": 5, "one_line": True, "full_batches": True}
    whole = model.generate(prompts, **options)
    assert len(set(whole)) > 5
    for size in (1, 7, 40):
        starts = range(0, len(prompts), size)
        parts = [model.generate(prompts[start : start + size], **options) for start in starts]
        assert [text for part in parts for text in part] == whole
    del shapes[()]  # rows without a prompt
    assert len(shapes) > 20 and {len(found) for found in shapes.values()} == {1}
    assert len(set.union(*shapes.values())) == 2


def test_prompts_that_are_cut_are_counted(model):
    """Catches the beginning of a prompt that is not read, and not said."""
    before = model.num_truncated
    model.generate(["a" * (WINDOW - 4), "a" * WINDOW], num_pieces=4)
    assert model.num_truncated - before == 1
