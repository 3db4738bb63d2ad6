"""Translation models of several sizes beside transformers itself, where that is installed."""

import gzip

import numpy as np
import pytest

from tests.helpers.imported import as_run
from tests.helpers.scripts import ROOT
from tools import golden_translation as translation
from tools.golden_translation import LANGUAGES, decode, make_fairseq, make_marian, tokenize
from transformer.inference.translator import Translator
from transformer.interop.huggingface.seq2seq import read_seq2seq, read_seq2seq_settings
from transformer.interop.huggingface.seq2seq_vocabulary import read_vocabulary

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
torch.set_num_threads(1)

MULTI30K = ROOT.parent / "shared" / "data" / "multi30k"
EXTRA = 8
SMALL = dict(d_model=32, num_layers=2, num_decoder_layers=2, num_heads=4, d_ff=48)
WIDE = dict(d_model=48, num_layers=3, num_decoder_layers=1, num_heads=3, d_ff=96)
NORMALISED = {"normalization_rule_name": "nmt_nfkc"}
MODELS = {  # (kind, sentences, other settings)
    "marianmt_shared": ("marianmt_shared", 500, SMALL),
    "marianmt_separate": ("marianmt_separate", 500, WIDE | {"activation_function": "relu"}),
    "unscaled": ("marianmt_shared", 50, WIDE | {"scale_embedding": False}),
    "m2m100": ("m2m100", 100, SMALL | {"activation_function": "relu"}),
    "nllb": ("nllb", 50, WIDE),
    "mbart": ("mbart", 100, WIDE | {"activation_function": "gelu"}),
}


def read_lines(name):
    with gzip.open(MULTI30K / name, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


@pytest.fixture(scope="module", params=MODELS)
def both(request, tmp_path_factory):
    """(their model, their tokenizer, ours, for each id of ours theirs, sentences, language)."""
    if not MULTI30K.is_dir():
        pytest.skip(f"there is no {MULTI30K}")
    folder = tmp_path_factory.mktemp(request.param)
    kind, number, settings = MODELS[request.param]
    options = {
        "texts": (read_lines("train.en.gz")[:2000], read_lines("train.de.gz")[:2000]),
        "vocab_size": 300, "sentencepiece": NORMALISED, "max_position_embeddings": 256, **settings,
    }  # fmt: skip
    if kind in LANGUAGES:
        languages = LANGUAGES[kind]
        model, tokenizer = make_fairseq(folder, kind, **options)
    else:
        languages = ("", "")
        model, tokenizer = make_marian(folder, is_shared=kind == "marianmt_shared", **options)
    imported = read_seq2seq(folder, *languages)
    imported.config.decoding.batch_size = 32
    ours = Translator(as_run(imported))
    order = read_vocabulary(folder, read_seq2seq_settings(folder), *languages).orders[1]
    first = order[ours.tokenizer.encode([""])[0][0]] if kind in LANGUAGES else None
    return model, tokenizer, ours, order, read_lines("test.en.gz")[:number], first


def test_logits_of_real_text(both):
    """Catches whatever differs by more than rounding."""
    model, tokenizer, ours, order, sources, _ = both
    sources, targets = sources[:20], read_lines("test.de.gz")[:20]
    inputs, mask = tokenize(tokenizer, sources)
    labels = tokenizer(text_target=targets, return_tensors="pt", padding=True).input_ids
    theirs = translation.compute_logits(model, inputs, mask, labels)[:, :, order]
    found = ours.logits(sources, targets)
    seen = found.values[0, 0] > -1e3
    difference = np.abs(found.values - theirs)[found.mask][:, seen].max()
    print(f"logits: std {theirs.std():.2f}, largest difference {difference:.1e}")
    assert difference < 1e-4


@pytest.mark.parametrize("width", [1, 4, 6])
def test_translations_of_real_text(both, width):
    """Catches a search, a tokenizer or a score that is not theirs."""
    model, tokenizer, ours, order, sources, first = both
    found = ours.translate(sources, beam_size=width, max_extra_length=EXTRA)
    ids, texts, scores = [], [], []
    end = model.config.eos_token_id
    for begin in range(0, len(sources), 50):
        inputs, mask = tokenize(tokenizer, sources[begin : begin + 50])
        rows, log_probs = translation.search(model, inputs, mask, width, extra=EXTRA, first=first)
        ids += [row[: row.index(end) + 1] for row in rows[:, 0, 1:].tolist()]
        texts += decode(tokenizer, rows[:, 0])
        scores += [] if log_probs is None else log_probs[:, 0].tolist()
    equal = [[order[i] for i in one.ids] == row for one, row in zip(found, ids, strict=True)]
    same_text = sum(one.text == text for one, text in zip(found, texts, strict=True))
    lengths = [len(row) for row in ids]
    limits = [len(i) + EXTRA for i in ours.source_tokenizer.encode(sources)]
    early = sum(n < limit for n, limit in zip(lengths, limits, strict=True))
    print(f"beam {width}: {sum(equal)} of {len(ids)} equal, {same_text} texts, {early} end early")
    if scores:
        difference = max(abs(one.score - s) for one, s in zip(found, scores, strict=True))
        print(f"largest difference of scores {difference:.1e}")
        assert difference < 1e-4
    # Two translations that rounding cannot tell apart may be found in either order.
    assert len(ids) - sum(equal) <= (len(ids) // 250 if scores else 0)
    assert same_text >= sum(equal)
