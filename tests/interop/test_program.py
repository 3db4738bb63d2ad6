"""A search as a program, and named parameters: used in a process that has neither us nor Flax."""

import copy
import json
import re
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from tests.helpers.random_runs import write_run
from tests.helpers.rings import others_long
from transformer.checkpoint.restore import abstract_params, restore, smallest_batch
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference.translator import Translator
from transformer.interop.jax_program import export_program, export_search
from transformer.interop.weights.named_arrays import export_parameters
from transformer.search.options import SearchOptions
from transformer.special_tokens import SPECIAL_NAMES
from transformer.workdir import WorkDir

pytest.importorskip("safetensors")
pytest.importorskip("flatbuffers")

SENTENCES = ["ab ba", "a", "b b b a abba ab a a b", "abba b", "b"]
BATCHES = [[2], [0, 1, 3, 4]]  # indices of sentences; the second batch is shorter and wider
# Runs each README's lines as they are, then `translate` with each of the batches of ids.
USER = """
import json, os, re, sys
sys.modules |= dict.fromkeys(["transformer", "flax"])  # neither can be imported
for folder in sys.argv[2:]:
    os.chdir(folder)
    exec(re.search("```python\\n(.*?)```", open("README.md").read(), re.S)[1])
    found = []
    for rows in json.loads(sys.argv[1]):
        lengths = np.array([len(row) for row in rows] + [0], np.int32)  # the last row is empty
        inputs = np.stack([np.pad(row, (0, max(lengths) - len(row))) for row in [*rows, []]])
        ids, scores = translate(params, inputs.astype(np.int32), lengths)
        found += zip(np.asarray(ids).tolist()[:-1], np.asarray(scores).tolist()[:-1])
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a tiny model with random weights and a SentencePiece vocabulary."""
    tokenizer = SentencePieceTokenizer.train(SENTENCES, 268)
    return restore(write_run(tmp_path_factory.mktemp("run"), tokenizer=tokenizer))


@pytest.mark.long
def test_a_program_finds_what_the_translator_finds(run, tmp_path):
    """Catches a README that does not run, a language that is lost, and padding that is translated.

    The second run has an imported tokenizer, whose translations begin with a language.
    """
    source = run.tokenizers[0]
    pieces = [*SPECIAL_NAMES, *source.pieces(range(4, source.vocab_size - 1)), "__de__"]
    target = PieceListTokenizer(source.to_bytes(), pieces, ["__de__"])
    other = WorkDir(tmp_path)
    save_tokenizers(other.path, source, target)
    greedy = copy.deepcopy(run.config)
    greedy.decoding.beam_size = 1
    runs = {
        1: replace(run, config=greedy),
        2: replace(run, tokenizers=(source, target), workdir=other),
    }
    folders = [tmp_path / f"beam {beam_size}" for beam_size in runs]
    for restored, folder in zip(runs.values(), folders, strict=True):
        assert "cpu, tpu, cuda" in export_program(restored, folder)
    ids = source.encode(SENTENCES)
    batches = json.dumps([[ids[i] for i in batch] for batch in BATCHES])
    process = subprocess.run(
        [sys.executable, "-c", USER, batches, *folders], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    shown = [float(score) for score in re.findall(r"^(-\d+\.\d{3}) ", process.stdout, re.M)]
    results = [json.loads(line) for line in re.findall(r"^\[\[\[.*", process.stdout, re.M)]
    for (beam_size, restored), found in zip(runs.items(), results, strict=True):
        translator = Translator(replace(run, tokenizers=restored.tokenizers), jax.devices()[:1])
        sentences = [*SENTENCES, "One sentence.", "Another, longer sentence."]
        expected = translator.translate(sentences, beam_size=beam_size)
        order = [index for batch in BATCHES for index in batch]
        for index, (ids, score) in zip(order, found, strict=True):
            end = len(expected[index].ids)
            assert (ids[:end], any(ids[end:])) == (expected[index].ids, False)
            assert score == pytest.approx(expected[index].score, abs=1e-4)
        assert shown[:2] == pytest.approx([t.score for t in expected[-2:]], abs=2e-3)
        shown = shown[2:]


PUBLISHED = dict(  # what models of others have besides
    norm="pre", positions="learned", embedding_sharing="none", projection_bias=True,
    output_bias=True, embedding_norm=True, dtype="bfloat16",
)  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    others_long(
        [{}, PUBLISHED | {"attention": "fused"}, {"attention": "local", "attention_block": 2}], {}
    ),
)
def test_a_program_has_the_products_of_every_platform(run, settings):
    """Catches attention chosen by the devices, or the lengths, of the process that exports."""
    search = SearchOptions.from_config(run.config.decoding)
    model = run.model.clone(config=replace(run.config.model, **settings))
    params = abstract_params(model, smallest_batch(run.config, run.labels))
    program = export_search(model, search, flatten_dict(params, sep="/"), start=[])
    assert program.platforms == ("cpu", "tpu", "cuda")
    # The product of queries and cached keys, which a program for a CPU alone does without.
    assert "BWNH,BNHS->BNWS/dot_general" in program.mlir_module()
    lengths = {str(aval.shape) for aval in program.in_avals[-2:]}
    assert lengths == {"(b, s)", "(b,)"}


def test_named_parameters_are_those_of_the_run(run, tmp_path, monkeypatch):
    """Catches a README whose lines do not run or that lacks an array, and a lost vocabulary."""
    export_parameters(run, tmp_path / "weights")
    monkeypatch.chdir(tmp_path / "weights")
    readme = (tmp_path / "weights" / "README.md").read_text()
    names = {}
    for lines in re.findall("```python\n(.*?)```", readme, re.S):
        exec(lines, names)
    jax.tree.map(np.testing.assert_array_equal, names["params"], flatten_dict(run.params, sep="/"))
    jax.tree.map(np.testing.assert_array_equal, names["variables"], {"params": run.params})
    assert names["model"] == run.model
    described = dict(re.findall(r"^\| (\S+) \| (\[.*?\]) \|", readme, re.M))
    assert described == {name: str([*array.shape]) for name, array in names["params"].items()}


def test_what_cannot_be_a_program_is_refused(run, tmp_path, monkeypatch):
    """Catches an export that fails late."""
    classifier = restore(write_run(tmp_path / "classifier", "classification"))
    with pytest.raises(ValueError, match="holds a run of classification: export its parameters"):
        export_program(classifier, tmp_path / "a")
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ValueError, match=r"needs flatbuffers: pip install -e '\.\[interop\]'"):
        export_program(run, tmp_path / "a")
    assert not (tmp_path / "a").exists()
