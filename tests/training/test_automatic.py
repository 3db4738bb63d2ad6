"""Settings that are chosen when a run starts: by the text, the machine and the minutes."""

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

import transformer
from tests.helpers.random_runs import write_run
from tests.helpers.scripts import write_corpus
from transformer.config import Config
from transformer.data.corpora import training_text
from transformer.data.corpora.corpus_facts import Lengths, TextFacts
from transformer.data.corpora.training_text import TrainingText
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.parallel.mapping import make_parallel
from transformer.tasks.translation import TranslationTask
from transformer.training import automatic, automatic_rules, startup_summary
from transformer.training.automatic import choose_settings, time_step
from transformer.training.automatic_rules import (
    Choices,
    Facts,
    Machine,
    choose_model,
    choose_rows,
)
from transformer.workdir import WorkDir

CPU = Machine(num_devices=1, is_cpu=True, flops=1e11, has_bfloat16=False)
SLICE = Machine(num_devices=8, is_cpu=False, flops=5e14, has_bfloat16=True)


def all_automatic():
    """A configuration that leaves everything to be chosen, as configs/own_text.py does."""
    config = Config()
    settings = [known for known in config.settings() if known.automatic is not None]
    return config.with_values({known.name: known.automatic for known in settings})


def facts(num_pairs=160_000, minutes=10, machine=CPU, length=12):
    lengths = np.full(100, length)
    text = TextFacts(num_pairs, 70 * num_pairs, 120, num_pairs // 4)
    return Facts(text, Lengths(lengths, lengths), machine, 40.0 * minutes)


def choose(facts, **given):
    """The settings that the rules choose, beside those that are given."""
    config = all_automatic().with_values({k.replace("__", "."): v for k, v in given.items()})
    choices = Choices(config)
    automatic_rules.choose_vocabulary(choices, facts.text)
    choose_rows(choices, facts)
    choose_model(choices, facts)
    automatic_rules.choose_schedule(choices, config.training.num_train_steps or 1234, "")
    return choices.config


def test_models_grow_with_text_time_and_machine():
    """Catches a rule that ignores one of them: 10 minutes of a laptop are no slice's 10 hours."""
    large = {"minutes": 600, "machine": SLICE, "num_pairs": 5_000_000, "length": 30}
    cases = {}, {"minutes": 600}, {"minutes": 600, "machine": SLICE}, large
    widths = [choose(facts(**case)).model.d_model for case in cases]
    assert widths == sorted(widths) and widths[0] < widths[1] < widths[3] and widths[2] < 1024
    small, large = (choose(facts(num_pairs=n)).tokenizer.vocab_size for n in (5000, 5_000_000))
    assert small < 3000 and large >= 16_000
    often = choose(facts(num_pairs=5000, minutes=60)).model.dropout_rate
    assert often > choose(facts()).model.dropout_rate


@pytest.mark.parametrize("machine", [CPU, SLICE])
@pytest.mark.parametrize("num_pairs", [10, 500, 5_000_000])
@pytest.mark.parametrize("length", [2, 12, 2000])
def test_what_is_chosen_is_valid(machine, num_pairs, length):
    """Catches a batch without a row, heads that do not divide the width, a mean of too many."""
    config = choose(facts(num_pairs=num_pairs, machine=machine, length=length))
    assert config.training.batch_tokens >= 8 * config.data.row_length
    others = {"data.bleu_tokenize": "13a", "data.held_out": "", "model.dtype": "float32"}
    others |= {"data.source_language": "en", "data.target_language": "de", "training.minutes": 0.0}
    assert config.with_values(others).validate().automatic_settings() == []


def test_what_is_set_by_hand_stays_and_the_rest_fits_it():
    """Catches a choice that overrules its user, or does not go with what is set."""
    config = choose(facts(), model__d_model=90, data__row_length=48, training__num_train_steps=70)
    assert (config.model.d_model, config.model.d_ff) == (90, 360)
    assert config.model.d_model % config.model.num_heads == 0
    assert config.data.row_length == 48 and config.training.batch_tokens % 48 == 0
    assert config.training.num_train_steps == config.optimizer.decay_steps == 70
    assert choose(facts(), training__keep_checkpoints=2).decoding.average_checkpoints == 2


@pytest.mark.parametrize(("seconds", "num_steps"), [(0.25, 24), (10.0, 7)])
def test_steps_are_timed_without_compiling(seconds, num_steps):
    """Catches the first step's compiling in the time of a step, and a timing that takes minutes."""
    now = [0.0]

    def train_step(state, batch):
        now[0] += seconds if now[0] else 60.0 + seconds  # the first one compiles
        return state, {}

    trainer = MagicMock(train_step=MagicMock(side_effect=train_step))
    trainer.train_step.init_state.return_value = 0
    assert time_step(trainer, lambda: now[0]) == seconds
    assert now[0] == 60.0 + num_steps * seconds


@pytest.fixture
def own_text(tmp_path):
    """A configuration that chooses all but a tiny model, for a folder of training text alone."""
    corpus = write_corpus(tmp_path / "corpus", num_train=400)
    for split in ("val", "test"):
        for file in corpus.glob(f"{split}.*"):
            file.unlink()
    values = {"data.corpus": str(corpus), "model.d_model": 8, "model.num_layers": 1}
    values |= {"decoding.beam_size": 1, "decoding.max_extra_length": 0}
    return all_automatic().with_values(values)


@pytest.mark.long
def test_minutes_become_steps_and_a_second_start_goes_on(own_text, tmp_path, monkeypatch, capfd):
    """Catches a missed budget, choices made anew, a split lost, a dry run without choices."""
    monkeypatch.setattr(automatic, "time_step", lambda trainer: 80.0)
    monkeypatch.setattr(automatic_rules, "NUM_CHECKPOINTS", 5)
    monkeypatch.setattr(automatic_rules, "TRANSLATION_COST", 1e-9)
    own_text.training.minutes, run, configs = 20.0, tmp_path / "run", []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):  # all that matters has happened by then
            transformer.train(own_text, run, on_report=lambda step, metrics: 1 // 0)
        configs.append(WorkDir(run).load_config())
        monkeypatch.setattr(automatic, "time_step", None)  # a run that exists is not timed again
    said, config = capfd.readouterr().err, configs[0]
    assert "chosen" in said and "20 minutes at 80 s a step" in said
    assert configs[1] == config and config.automatic_settings() == []
    # 1,200 s less 30 s and the start: 14 steps, as five equal periods
    assert config.training.num_train_steps == config.optimizer.decay_steps == 10
    assert config.data.held_out == "validation@10%,test@10%"
    for name in ("keep_compiled_programs", "describe_compiled"):
        monkeypatch.setattr(startup_summary, name, MagicMock())
    startup_summary.describe_run(own_text, str(run), "")
    assert "steps       10\n" in f"{capfd.readouterr().err}\n"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokenizer.shared": False}, "embedding_sharing=all needs one vocabulary"),
        ({"model.attention": "additive", "model.positions": "rotary"}, "positions=rotary acts on"),
        ({"model.num_heads": 3}, r"d_model \(8\) must be a multiple of model.num_heads \(3\)"),
        (
            {"training.minutes": 5.0, "training.num_train_steps": 9},
            r"num_train_steps \(9\), .*minutes \(5\): set one",
        ),
        ({"training.minutes": 0.0}, r"num_train_steps \(0\), .*minutes \(0\): set one"),
        ({"task": "images", "training.minutes": 5.0}, "Only task=translation .* set model.d_ff"),
    ],
)
def test_rules_between_settings_that_are_given_hold_before_the_text_is_read(
    own_text, monkeypatch, settings, said, tmp_path
):
    """Catches a run that trains for its minutes, and whose config.json is then refused; and minutes
    beside a number of steps, which would be ignored without a word."""
    monkeypatch.setattr(automatic.corpus_facts, "find_languages", None)
    with pytest.raises(ValueError, match=said):
        transformer.train(own_text.with_values(settings), tmp_path / "run", verbose=False)


def test_rules_between_settings_that_are_chosen_hold_before_the_text_is_prepared(
    own_text, tmp_path
):
    """Catches a width that is chosen and that the given heads do not divide."""
    config = own_text.with_values({"model.d_model": 0, "model.num_heads": 5})
    with pytest.raises(ValueError, match=r"d_model \(128\) must be a multiple"):
        transformer.train(config, tmp_path / "runs" / "new", verbose=False)
    assert not (tmp_path / "runs").exists()


def test_the_text_is_read_once(own_text, monkeypatch, tmp_path):
    """Catches a corpus that is read again for each question: to choose by, for the held-out pairs,
    the vocabulary and the ids; and one that is kept in memory for good."""
    reads, read = [], training_text.read_blocks
    monkeypatch.setattr(training_text, "read_blocks", lambda *of: reads.append(of[1]) or read(*of))
    choices = choose_settings(own_text.with_values({"training.num_train_steps": 10}))
    assert reads == ["train"]
    said = "no validation and test files: of 400 pairs, drawn by a hash"
    assert choices.reasons["data.held_out"] == said
    config = choices.config
    task = TranslationTask(config, make_parallel(config), WorkDir(tmp_path / "run"))
    assert reads == ["train"] and not training_text._kept
    assert task.corpus.held_out == TrainingText(config.data).held_out
    assert reads == ["train"] * 2


def test_the_vocabulary_of_a_given_file_is_not_chosen(own_text, tmp_path):
    """Catches a start-up summary, and a model size, that count on pieces which nobody has."""
    texts = (Path(own_text.data.corpus) / "train.en").read_text().splitlines()
    tokenizer = SentencePieceTokenizer.train(texts, vocab_size=270)
    (tmp_path / "pieces.model").write_bytes(tokenizer.to_bytes())
    given = {"tokenizer.model": str(tmp_path / "pieces.model"), "training.num_train_steps": 10}
    choices = choose_settings(own_text.with_values(given))
    assert choices.config.tokenizer.vocab_size == tokenizer.vocab_size == 270
    assert "pieces.model" in choices.reasons["tokenizer.vocab_size"]


def test_a_run_to_start_from_keeps_its_network(own_text, tmp_path):
    """Catches a rule that gives the parameters of another run to a network of another width."""
    former = WorkDir(write_run(tmp_path / "former", d_model=24, num_layers=2)).load_config()
    given = {"training.init_from": str(tmp_path / "former"), "training.num_train_steps": 10}
    given |= {"model.d_model": 0, "model.num_layers": 0}
    choices = choose_settings(own_text.with_values(given))
    for name in automatic.OF_FORMER_RUN:
        assert choices.config.values()[name] == former.values()[name], name
    assert choices.reasons["model.d_model"] == "as in the run to start from"
    assert choices.lines()[0].startswith("chosen      training.minutes")
