"""A translator, its test set, and the checkpoints of a run in turn."""

import random
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import sacrebleu

from tests.helpers.random_runs import WORDS, make_config, write_run
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.evaluation.evaluate import each_checkpoint
from transformer.evaluation.scores import checkpoint_table
from transformer.evaluation.translation import evaluate_translator
from transformer.inference.scoring import AttentionWeights
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator

TOKENIZER = PiecesTokenizer([*WORDS, "sp@@", "lit"], "@@")


def pairs(count, longest=14):
    """Random sentences beside themselves in reverse."""
    rng = random.Random(0)
    rows = [rng.choices(WORDS, k=rng.randint(1, longest)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


class ReversingTranslator:
    """Says the words in reverse, but for the last; every number tells its sentence apart."""

    run = SimpleNamespace(checkpoint="last (20)", step=20, num_averaged=1)
    source_tokenizer = tokenizer = TOKENIZER

    def __init__(self):
        self.config, self.options = make_config(), []
        self.config.data.bleu_tokenize = "none"
        self.num_fitting = 256  # source tokens

    def largest_bucket(self):
        return 256

    def translate(self, sentences, **options):
        self.options.append(options)
        found = []
        for sentence in sentences:
            words = sentence.split()[:0:-1]
            ids = TOKENIZER.encode([" ".join(words)])[0] if words else []
            text = TOKENIZER.join_pieces(" ".join(words))
            found.append(Translation(text, -len(sentence) / 7, -len(sentence) / 3, list(ids)))
            found[-1].is_cut = len(sentence.split()) + 1 > self.num_fitting
        return found

    def score(self, sources, targets):
        return [
            Translation(t, 0.0, -float(len(s) + 2 * len(t)), [5] * (len(t.split()) + 1))
            for s, t in zip(sources, targets, strict=True)
        ]

    def attention(self, source, translation):
        sides = [*source.split(), "</s>"], [*translation.text.split(), "</s>"]
        weights = np.random.default_rng(0).random((2, 3, len(sides[1]), len(sides[0])))
        return AttentionWeights(*sides, weights, weights, weights)


def evaluate(translator, test_set, **options):
    return evaluate_translator(translator, *zip(*test_set, strict=True), "own", **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), steps=(10, 20, 30))


def test_an_evaluation_is_of_what_the_translator_says():
    """Catches references, log-probabilities and translations that slip against each other."""
    test_set = [*pairs(48), ("sp@@ lit w1", "w2 sp@@ lit"), ("", "w3")]
    translator = ReversingTranslator()
    translator.config.data.selection_metric = "line_error_rate"
    result = evaluate(translator, test_set, beam_size=3)
    sources, targets = map(list, zip(*test_set, strict=True))
    found, scored = translator.translate(sources), translator.score(sources, targets)
    references = [*targets[:48], "w2 split", "w3"]
    assert [s.translation for s in result.segments] == [t.text for t in found]
    assert [s.reference for s in result.segments] == references
    assert result.segments[48].source == "split w1"
    for segment, ours, theirs in zip(result.segments, found, scored, strict=True):
        assert (segment.log_prob, segment.score) == (ours.log_prob, ours.score)
        assert segment.reference_log_prob == theirs.log_prob
    texts = [t.text for t in found], [references]
    bleu = sacrebleu.corpus_bleu(*texts, tokenize="none", force=True)
    assert result.scores["bleu"].value == pytest.approx(bleu.score)
    assert "bs:1000" in result.scores["bleu"].signature and result.scores["bleu"].interval > 0
    assert result.primary.name == "WER (whole words)"
    nll, count = sum(s.log_prob for s in scored), sum(len(s.ids) for s in scored)
    assert result.scores["perplexity"].value == pytest.approx(np.exp(-nll / count))
    assert result.outputs["translations"]["empty"] == sum(not t.text for t in found) - 1
    assert sum(score.num_sentences for score in result.by_length.values()) == 49
    assert (result.checkpoint, result.corpus) == ("last (20)", "own")
    assert result.vocab_size == TOKENIZER.vocab_size


def test_maps_are_of_short_sentences_and_of_their_tokens():
    """Catches a map of one sentence under the title of another, and weights per head."""
    translator, test_set = ReversingTranslator(), [("w1", "w1"), *pairs(6)]
    first, second = evaluate(translator, test_set, num_maps=2).maps
    for seen in (first, second):
        (translation,) = translator.translate([seen.source])
        assert seen.translation == translation.text != ""
        assert seen.source_pieces == [*seen.source.split(), "</s>"]
        weights = translator.attention(seen.source, translation).encoder_decoder
        np.testing.assert_allclose(seen.weights, weights.mean(axis=1, keepdims=True))
    lengths = [abs(len(seen.source.split()) - 8) for seen in (first, second)]
    assert lengths == sorted(abs(len(s.split()) - 8) for s, _ in test_set[1:])[:2]


def test_cut_sources_and_search_options_are_kept():
    """Catches a test set whose longest sentences are cut without a word, an option lost, attention
    of a cut sentence, which has no picture, and a count that forgets the tag of the source."""
    translator = ReversingTranslator()
    test_set = [("w1 " * 255, "w1"), ("w1 " * 256, "w1")]
    result = evaluate(translator, test_set, num_maps=2, beam_size=1)
    assert result.longest_source == 256 and result.outputs["cut_sources"] == 1
    assert result.search["beam_size"] == 1 and translator.options == [{"beam_size": 1}]
    assert result.search["max_extra_length"] == 4
    assert [len(shown.source_pieces) for shown in result.maps] == [256]
    translator.num_fitting = 255  # as one is the tag's
    assert evaluate(translator, test_set).outputs["cut_sources"] == 2


@pytest.mark.long
def test_another_checkpoint_needs_no_compile(run):
    """Catches a search that is compiled for every checkpoint, a minute each for a large model."""
    test_set, found, compiles = pairs(3, longest=4), [], []

    def listen(name, seconds, **_):
        compiles.extend([name] * ("backend_compile" in name))

    jax.monitoring.register_event_duration_secs_listener(listen)
    for translator in each_checkpoint(run, "10,20,average:2"):
        before = len(compiles)
        found.append(evaluate(translator, test_set, num_maps=0))
        assert (len(compiles) > before) == (len(found) == 1)
    jax.monitoring.unregister_event_duration_listener(listen)
    alone = Translator.from_checkpoint(run, "20").score(*map(list, zip(*test_set, strict=True)))
    assert [s.reference_log_prob for s in found[1].segments] == [t.log_prob for t in alone]
    assert [(row.step, row.num_averaged) for row in found] == [(10, 1), (20, 1), (30, 2)]
    assert len({row.scores["perplexity"].value for row in found}) == 3
    lines = checkpoint_table(found)
    assert len(lines) == 4 and lines[3].startswith("mean of 2 (20 to 30)")


@pytest.mark.filterwarnings("ignore:Checkpoint 20 cannot be used")
def test_names_of_checkpoints(run, tmp_path):
    """Catches "all" that forgets one, a step twice, a typo that is reported after an hour, and a
    curve of fifty checkpoints that is lost to one damaged file."""
    names = [found.run.checkpoint for found in each_checkpoint(run, "20, all,average:2,20")]
    assert names == ["20", "10", "30", "mean of 2 (20 to 30)"]
    with pytest.raises(ValueError, match="not 'newest'"):
        next(each_checkpoint(run, "last,newest"))
    with pytest.raises(ValueError, match=r"holds the steps \[10, 20, 30\], not 15"):
        next(each_checkpoint(run, "10,15"))
    damaged = tmp_path / "run"
    shutil.copytree(run, damaged)
    for file in (damaged / "checkpoints" / "20").rglob("d/*"):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="checkpoint 20 is left out"):
        found = [t.run.checkpoint for t in each_checkpoint(damaged, "10,20,30")]
    assert found == ["10", "30"]
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="No checkpoint of"):
        list(each_checkpoint(damaged, "20"))
