"""A translator and its test set: what is printed and kept of it can be compared and read again."""

import json
import math
import random
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import sacrebleu

from tests.helpers.random_runs import WORDS, make_config, write_run
from tests.helpers.scored import CORPUS, evaluation
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.evaluation.evaluate import each_checkpoint
from transformer.evaluation.metrics import score_by
from transformer.evaluation.scores import checkpoint_table
from transformer.evaluation.translation import (
    Segment,
    evaluate_translator,
    find_faults,
    text_sides,
)
from transformer.inference.scoring import AttentionWeights
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir

TOKENIZER = PiecesTokenizer([*WORDS, "sp@@", "lit"], "@@")


def pairs(count, longest=14):
    """Random sentences beside themselves in reverse."""
    rng = random.Random(0)
    rows = [rng.choices(WORDS, k=rng.randint(1, longest)) for _ in range(count)]
    return [(" ".join(row), " ".join(row[::-1])) for row in rows]


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
            text = TOKENIZER.join_pieces(" ".join(sentence.split()[:0:-1]))
            found.append(Translation(text, -len(sentence) / 7, -len(sentence) / 3))
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
    assert result.segments[48].source == "split w1"
    for segment, reference, ours, theirs in zip(
        result.segments, references, found, scored, strict=True
    ):
        assert (segment.translation, segment.reference) == (ours.text, reference)
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
    maps = evaluate(translator, test_set, num_maps=2).maps
    for seen in maps:
        (translation,) = translator.translate([seen.source])
        assert seen.translation == translation.text != ""
        assert seen.source_pieces == [*seen.source.split(), "</s>"]
        weights = translator.attention(seen.source, translation).encoder_decoder
        np.testing.assert_allclose(seen.weights, weights.mean(axis=1, keepdims=True))
    lengths = [abs(len(seen.source.split()) - 8) for seen in maps]
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


def strict(text):
    """JSON as other programs read it: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_everything_is_kept_with_its_signature(tmp_path):
    """Catches a score that is printed but not kept, a file that lacks a segment, Infinity in
    report.json, which most programs refuse to read, and a second score that could be taken for the
    first."""
    result = evaluation(CORPUS * 9)
    path = result.save(WorkDir(tmp_path), "test[:5%]")
    assert path == tmp_path / "results" / "test_0_5_" / "report.json"
    record = strict(path.read_text())
    scores = [record["bleu"], record["chrf"], record["perplexity"], *record["second"]]
    assert all(score["signature"] and score["interval"] is not None for score in scores)
    assert {score["num_sentences"] for score in scores} == {54}
    assert record["search"] == {"beam_size": 4} and record["checkpoint"] == "last (20)"
    assert record["outputs"]["translations"] == {"empty": 0, "copied": 0, "repeating": 0}
    assert record["worst"][0]["translation"] == "er liest viel"
    segments = [strict(line) for line in (path.parent / "segments.jsonl").read_text().splitlines()]
    texts = (path.parent / "translations.txt").read_text().splitlines()
    assert [s["translation"] for s in segments] == texts == [row[2] for row in CORPUS] * 9
    lines = result.lines() + result.details
    scores = [line for line in lines if "bs:20|" in line]
    assert len({line.split(" ± ")[0].rstrip("0123456789. ") for line in scores}) == len(scores) == 7
    assert any(line.split()[:3] == ["11–20", "9", "sentences"] for line in lines)
    assert any("0 empty (0), 0 copied (0), 0 repeating" in line for line in lines)
    result.scores["perplexity"].value = math.inf
    assert strict(result.save(WorkDir(tmp_path), "x").read_text())["perplexity"]["value"] is None


def test_the_same_texts_give_the_same_files(tmp_path):
    """Catches a date, a random number without a seed, sets in an order, a second host writing."""
    evaluation().save(WorkDir(tmp_path / "run", writes=False), "test")
    assert list(tmp_path.iterdir()) == []
    folders = [evaluation().save(WorkDir(tmp_path), name).parent for name in ("a", "b")]
    for name in ("report.json", "report.html", "segments.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_all_references_reach_the_scores_and_the_files(tmp_path):
    """Catches a report that has read one reference, and a file of segments that lost the other."""
    rows = [(source, (f"{reference} .", reference), ours) for source, reference, ours in CORPUS]
    several, one = evaluation(rows, further_metrics=["ter"]), evaluation()
    texts = text_sides(several.segments)
    assert several.primary == score_by("bleu", *texts, "en-de", num_bootstrap=20)
    assert several.scores["ter"].name == "TER" and "ter" not in one.scores
    folder = several.save(WorkDir(tmp_path), "x").parent
    rows = (folder / "segments.jsonl").read_text().splitlines()
    assert text_sides([Segment(**json.loads(row)) for row in rows]) == texts
    assert "other_references" not in one.segments[0].to_json()
    assert json.loads((folder / "report.json").read_text())["ter"]["value"] > 0


def test_faults_of_references_stand_beside_those_of_translations():
    """Catches copies that are right, as of names, held against a run, and lengths of characters."""
    rows = [("Berlin", "Berlin", "Berlin"), ("a dog", "ein Hund", "a, dog"), ("hi", "hallo", "")]
    outputs = evaluation(rows).outputs
    assert outputs["translations"] == {"empty": 1, "copied": 1, "repeating": 0}
    assert outputs["references"] == {"empty": 0, "copied": 1, "repeating": 0}
    assert outputs["num_tokens"] == {"translations": 4, "references": 4}
    outputs = evaluation(rows, tokenize="none").outputs
    assert outputs["num_tokens"]["translations"] == 3 and outputs["length_ratio"] == 0.75


def test_the_selection_metric_comes_first_wherever_scores_are_shown(tmp_path):
    """Catches a report of pronunciations headed by their BLEU, and lengths in words of one word."""
    rows = [("a" * n, "x y", "x y" if n % 4 else "x") for n in range(1, 21)] * 3
    result = evaluation(rows, selection_metric="line_error_rate")
    assert list(result.scores) == ["line_error_rate", "bleu", "chrf", "perplexity"]
    assert result.lines()[0].startswith("WER (whole words) 25.00 ± ")
    by_length = {name: score.value for name, score in result.by_length.items()}
    assert by_length == {"1–10": 20, "11–20": 30}
    assert "WER (whole words) by characters of the source:" in result.details
    path = result.save(WorkDir(tmp_path), "x", checkpoints=[result] * 2)
    record, page = strict(path.read_text()), (path.parent / "report.html").read_text()
    assert record["line_error_rate"]["value"] == 25
    assert record["selection_metric"] == "line_error_rate"
    assert record["checkpoints"][0]["line_error_rate"] == record["line_error_rate"]
    assert page.index("WER (whole words)</") < page.index("BLEU</") and "test WER" in page
    heads, row, _ = checkpoint_table([result] * 2)
    assert " ".join(heads.split()) == "checkpoint WER (whole words) BLEU chrF2 perplexity"
    assert len(heads) == len(row)


def test_bleu_of_a_length_is_that_of_those_sentences_alone():
    """Catches a mean of sentence scores, and a sentence at the border that counts twice."""
    lengths = (1, 10, 11, 20, 61, 0)
    rows = [(" ".join(["w"] * n), *row[1:]) for n, row in zip(lengths, CORPUS, strict=True)]
    parts = {"1–10": rows[:2], "11–20": rows[2:4], "61 and more": rows[4:5]}
    alone = {name: evaluation(inside).scores["bleu"] for name, inside in parts.items()}
    assert evaluation(rows).by_length == alone


def test_the_worst_and_the_best_are_ordered_and_apart():
    """Catches an order upside down, and a short test set of which each half shows all."""
    sides = evaluation().worst_and_best(2)
    assert [[segment.number for segment in side] for side in sides] == [[4, 2], [6, 1]]
    assert [len(side) for side in evaluation().worst_and_best()] == [5, 1]
    assert [len(side) for side in evaluation(CORPUS[:1]).worst_and_best()] == [1, 0]


def test_faults_by_hand():
    """Catches a loop that ends one word early, an empty source blamed on the translation, and
    Chinese counted as one word per sentence, in which no loop could ever be seen."""
    for source, translation, faults in (
        ("a dog", "ein Hund", []),
        ("a dog", " ", ["empty"]),
        ("  ", "", []),
        ("A  dog ", "a  DOG", ["copied"]),
        ("a dog", "a dog .", []),
        ("it is so", "es ist so so so so", ["repeating"]),
        ("it is so", "es ist so so so", []),
        ("so so so so", "so so so so", ["copied"]),
        ("x", "A b a B a b A b", ["repeating"]),
        ("x", "a b a b a b a", []),
        ("x", "a b c d e a b c d f a b c d", ["repeating"]),
        ("x", "a b c d e a b c d f a b c", []),
        ("no no no no", "nein nein nein nein", []),
        ("well", "好好好好", []),
    ):
        assert find_faults(source, translation, ("eng_Latn", "de")) == faults
    for code in ("ja", "jpn", "ja_XX", "jpn_Jpan", "zho_Hans", "zh-TW", "tha"):
        assert find_faults("well", "好好 好好", ("eng_Latn", code)) == ["repeating"]
