"""A model, its test set, and its checkpoints in turn."""

import json
import random
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sacrebleu

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.train_state import TrainState
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.data.tokenizer_files import save_tokenizers
from transformer.evaluate import translation
from transformer.evaluate.checkpoint_series import (
    checkpoint_row,
    choose_checkpoints,
    each_checkpoint,
    table_lines,
)
from transformer.evaluate.translation import evaluate_translator
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir

WORDS = [f"w{i}" for i in range(20)]
STEPS = (10, 20, 30)


def pairs(count, seed=0):
    rng = random.Random(seed)
    rows = [rng.choices(WORDS, k=rng.randint(1, 14)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A work directory with three checkpoints of random weights."""
    config = Config()
    config.model = tiny_config()
    config.tokenizer.kind, config.tokenizer.joiner = "pieces", "@@"
    config.data.row_length, config.data.bleu_tokenize = 64, "none"
    config.decoding.batch_size, config.decoding.max_extra_length = 4, 4
    config.decoding.beam_size, config.training.keep_checkpoints = 2, 3
    tokenizer = PiecesTokenizer([*WORDS, "sp@@", "lit"], "@@")
    model = Translator(config, None, (tokenizer, tokenizer)).model
    ids = np.ones((1, 4), np.int32)
    params = random_params(model.init, Batch(*[ids] * 7), deterministic=True)
    workdir = WorkDir(tmp_path_factory.mktemp("run"))
    save_tokenizers(workdir.path, tokenizer, tokenizer)
    workdir.save_config(config)
    checkpoints = Checkpoints(workdir.checkpoints, keep=3)
    for step in STEPS:
        noise = jax.tree.map(lambda x, step=step: x * (1 + step / 100), params)
        checkpoints.save(TrainState(jnp.array(step), noise, opt_state=()), score=float(-step))
    checkpoints.close()
    return workdir.path


@pytest.fixture(scope="module")
def translator(run):
    return Translator.from_checkpoint(run, "last")


@pytest.fixture
def compiles():
    """The programs that XLA compiles from now on, one entry each."""
    names = []

    def listen(name, seconds, **_):
        names.extend([name] * ("backend_compile" in name))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def test_an_evaluation_is_of_what_the_translator_says(translator):
    """Catches references, log-probabilities and translations that slip against each other."""
    test_set = [*pairs(9), ("sp@@ lit w1", "w2 sp@@ lit"), ("", "w3")]
    result = evaluate_translator(translator, test_set, "own", num_maps=2)
    sources, targets = (list(side) for side in zip(*test_set, strict=True))
    found, scored = translator.translate(sources), translator.score(sources, targets)
    references = [*targets[:9], "w2 split", "w3"]
    assert [s.translation for s in result.segments] == [t.text for t in found]
    assert [s.reference for s in result.segments] == references
    assert result.segments[9].source == "split w1"
    for segment, ours, theirs in zip(result.segments, found, scored, strict=True):
        assert segment.log_prob == pytest.approx(ours.log_prob, abs=1e-4)
        assert segment.score == pytest.approx(ours.score, abs=1e-4)
        assert segment.reference_log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
    texts = [t.text for t in found], [references]
    bleu = sacrebleu.corpus_bleu(*texts, tokenize="none", force=True)
    assert result.bleu.value == pytest.approx(bleu.score)
    nll, count = (sum(getattr(s, n) for s in scored) for n in ("log_prob", "num_pieces"))
    assert result.perplexity.value == pytest.approx(np.exp(-nll / count), rel=1e-4)
    assert result.outputs["translations"]["empty"] == 0
    assert sum(row["score"].num_sentences for row in result.by_length) == 10


def test_the_configuration_says_which_score_comes_first(translator, monkeypatch):
    """Catches a selection_metric that is lost between the configuration and the scores."""
    monkeypatch.setattr(translator.config.data, "selection_metric", "line_error_rate")
    test_set = [*pairs(9), ("", "")]
    result = evaluate_translator(translator, test_set, "own", num_maps=0)
    num_wrong = sum(s.translation != s.reference for s in result.segments)
    assert num_wrong < len(test_set) and result.primary.name == "WER (whole words)"
    assert result.primary.value == pytest.approx(100 * num_wrong / len(test_set))


def test_hosts_can_tell_each_other_what_they_found(translator, monkeypatch):
    """Catches an array or a `Translation` among what goes to the other hosts as JSON."""
    whole = evaluate_translator(translator, pairs(5), "own")
    sent = lambda work, items: json.loads(json.dumps(work(items)))  # noqa: E731
    monkeypatch.setattr(translation, "split_over_hosts", sent)
    assert evaluate_translator(translator, pairs(5), "own") == whole


def test_maps_are_of_short_sentences_and_of_their_pieces(translator):
    """Catches a map of one sentence under the title of another, and weights per head."""
    result = evaluate_translator(translator, pairs(12), "own", num_maps=2)
    assert len(result.maps) == 2
    for seen in result.maps:
        segment = next(s for s in result.segments if s.source == seen["source"])
        assert segment.translation == seen["translation"]
        assert seen["pieces"][0] == [*seen["source"].split(), "</s>"]
        assert np.shape(seen["weights"]) == (2, len(seen["pieces"][1]), len(seen["pieces"][0]))
    assert evaluate_translator(translator, pairs(3), "own", num_maps=0).maps == []


def test_cut_sources_are_counted(translator):
    """Catches a test set whose longest sentences are cut without a word."""
    result = evaluate_translator(
        translator, [("w1 " * 255, "w1"), ("w1 " * 256, "w1")], "own", beam_size=1
    )
    assert result.settings.longest_source == 256
    assert result.outputs["cut_sources"] == 1
    assert result.settings.search["beam_size"] == 1


def test_another_checkpoint_needs_no_compile(run, compiles):
    """Catches a search that is compiled for every checkpoint, a minute each for a large model."""
    test_set, found = pairs(6), []
    for translator in each_checkpoint(run, ["10", "20", "average:2"]):
        before = len(compiles)
        found.append(evaluate_translator(translator, test_set, "own", num_maps=0))
        assert (len(compiles) > before) == (len(found) == 1)
    alone = evaluate_translator(Translator.from_checkpoint(run, "20"), test_set, "own", num_maps=0)
    assert found[1].segments == alone.segments
    rows = [checkpoint_row(result) for result in found]
    assert [row["step"] for row in rows] == [10, 20, 30]
    assert len({row["perplexity"].value for row in rows}) == 3
    lines = table_lines(rows)
    assert len(lines) == 4 and lines[3].startswith("mean of 2 (20 to 30)")
    assert len({len(line) for line in lines}) == 1


def test_names_of_checkpoints(run):
    """Catches all that forgets one, a step twice, and a typo that is told after an hour."""
    assert choose_checkpoints(run, "best") == ["best"]
    assert choose_checkpoints(run, "all") == ["10", "20", "30"]
    assert choose_checkpoints(run, "20, all,average:2,20") == ["20", "10", "30", "average:2"]
    with pytest.raises(ValueError, match="not 'newest'"):
        choose_checkpoints(run, "last,newest")
    with pytest.raises(ValueError, match="holds the steps 10, 20, 30, not 15"):
        choose_checkpoints(run, "10,15")


@pytest.mark.filterwarnings("ignore:Checkpoint 20 cannot be used")
def test_a_checkpoint_that_cannot_be_read_is_left_out_of_several(run, tmp_path):
    """Catches a curve of fifty checkpoints that is lost to one damaged file."""
    damaged = tmp_path / "run"
    shutil.copytree(run, damaged)
    for file in (damaged / "checkpoints" / "20").rglob("d/*"):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="checkpoint 20 is left out"):
        found = [t.checkpoint for t in each_checkpoint(damaged, ["10", "20", "30"])]
    assert found == ["10", "30"]
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="No checkpoint of"):
        list(each_checkpoint(damaged, ["20"]))
