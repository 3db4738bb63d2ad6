"""Starting from another run: what is copied, what stays fresh, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.random_runs import WORDS, make_config, write_run
from tests.helpers.tiny_models import random_params
from transformer.checkpoint.checkpoints import open_for_reading
from transformer.checkpoint.restore import make_model, smallest_batch
from transformer.checkpoint.warm_start import check_init_from, warm_start
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import PieceListTokenizer, PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.workdir import WorkDir


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for task in ("translation", "masked_lm", "classification", "language_model"):
        write_run(folder / task, task)
    return folder


def start(task, init_from, classes=(), **model):
    """Parameters 0 of this task's model, warm-started: (arrays by name, the note)."""
    tokenizer, labels = PiecesTokenizer(WORDS, "@@"), Labels(list(classes))
    config = make_config(task, **model)
    ours = WorkDir(init_from.parent / f"new {len(classes)}")
    if classes:
        ours.path.mkdir(exist_ok=True)
        labels.save(ours.path)
    network = make_model(config, (tokenizer, tokenizer), labels)
    params = random_params(network.init, smallest_batch(config, labels), deterministic=True)
    params, note = warm_start(jax.tree.map(jnp.zeros_like, params), ours, init_from)
    return flat(params), note


def flat(params):
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {"/".join(key.key for key in path): np.asarray(x) for path, x in leaves}


def trained(path):
    run = WorkDir(path)
    return flat(open_for_reading(run, run.load_config()).load("best").params)


def test_a_run_of_the_same_task_is_copied_whole(runs):
    """Catches an array that stays fresh without a word."""
    params, note = start("translation", runs / "translation")
    theirs = trained(runs / "translation")
    jax.tree.map(np.testing.assert_array_equal, params, theirs)
    assert f"best (20): {len(theirs)} of its {len(theirs)} arrays are copied, 0 others" in note


@pytest.mark.parametrize(
    ("source", "classes", "is_fresh"),
    [
        ("masked_lm", ["no", "yes"], True),
        ("classification", ["no", "yes"], True),
        ("classification", ["yes", "no", "maybe"], True),
        ("classification", ["no", "yes", "maybe"], False),
    ],
)
def test_a_classifier_keeps_outputs_only_for_the_same_classes(runs, source, classes, is_fresh):
    """Catches outputs that are copied to other classes because their number is the same."""
    params, note = start("classification", runs / source, classes)
    assert params["encoder/layer_0/feed_forward/inner/kernel"].any()
    assert params["classes/kernel"].any() == (not is_fresh)
    assert note.endswith(", 2 others begin fresh") == is_fresh


@pytest.mark.parametrize("task", ["classification", "masked_lm"])
def test_an_encoder_takes_the_stack_of_a_causal_language_model(runs, task):
    """Catches a stack that begins afresh since it is called `decoder` there."""
    params, note = start(task, runs / "language_model", ["no", "yes"])
    theirs = trained(runs / "language_model")
    for name, array in params.items():
        if not name.startswith("classes/"):
            np.testing.assert_array_equal(array, theirs[name.replace("encoder/", "decoder/")])
    assert note.endswith(", 2 others begin fresh") == (task != "masked_lm")


def test_a_classifier_takes_the_pooler_of_a_masked_lm(tmp_path):
    """Catches a pooler that begins afresh though there is one."""
    run = write_run(tmp_path / "run", "masked_lm", pooling="pooler")
    params, note = start("classification", run, ["no", "yes"], pooling="pooler")
    assert note.endswith(", 2 others begin fresh")
    assert all(array.any() for name, array in params.items() if name.startswith("pooler"))


def test_layers_that_the_other_run_lacks_begin_fresh(runs):
    """Catches a deeper model whose new layers go unmentioned, and an array that is silently left
    fresh for its shape."""
    params, note = start("translation", runs / "translation", num_layers=2)
    num_fresh = len([name for name in params if "/layer_1/" in name])
    assert note.endswith(f", {num_fresh} others begin fresh")
    assert params["encoder/layer_0/feed_forward/inner/kernel"].any()
    assert not params["encoder/layer_1/feed_forward/inner/kernel"].any()
    with pytest.raises(ValueError, match=r"inner/bias is \(32,\) there, \(48,\) here"):
        start("translation", runs / "translation", d_ff=48)


def test_another_network_or_vocabulary_is_refused(runs):
    """Catches heads that are cut another way, and ids that stand for other pieces, unnoticed."""
    config = make_config()
    config.training.init_from = str(runs / "translation")
    check_init_from(config)
    changes = {"model.num_heads": 4, "model.norm": "pre", "tokenizer.kind": "characters"}
    changes["model.embedding_sharing"] = "target"
    for setting, value in changes.items():
        there = config.values()[setting]
        with pytest.raises(ValueError) as error:
            check_init_from(config.with_values({setting: value}))
        said = f"{setting} is {there!r} there, {value!r} here. Set --config.{setting}={there}, or"
        assert said in str(error.value)
        assert f"--config=configs/fine_tune.py:{runs / 'translation'}" in str(error.value)


def test_another_vocabulary_is_refused(tmp_path):
    """Catches tokenizer.vocab_size and tokenizer.model that are read and not used."""
    config, workdir = make_config(), WorkDir(tmp_path / "run")
    config.tokenizer.kind, config.training.init_from = "sentencepiece", str(workdir.path)
    workdir.path.mkdir()
    workdir.save_config(config)
    text = ["the cat sat on the mat", "a dog sat on a log"] * 20
    for name, size in (("ours", 280), ("theirs", 290)):
        tokenizer = SentencePieceTokenizer.train(text, size)
        (tmp_path / f"{name}.model").write_bytes(tokenizer.to_bytes())
    save_tokenizers(workdir.path, tokenizer, tokenizer)
    default, model = config.tokenizer.vocab_size, str(tmp_path / "theirs.model")
    for size, file in ((default, ""), (290, ""), (280, model)):  # the default stands for no size
        config.tokenizer.vocab_size, config.tokenizer.model = size, file
        check_init_from(config)
    for file, said in (("", "vocab_size=290"), (str(tmp_path / "ours.model"), "model=")):
        config.tokenizer.model = file
        with pytest.raises(ValueError, match=rf"Set --config\.tokenizer\.{said}, or take"):
            check_init_from(config)


def test_an_imported_vocabulary_is_taken_with_its_run(tmp_path):
    """Catches a size of the default vocabulary asked of an imported one, and another kind."""
    config, workdir = make_config(), WorkDir(tmp_path)
    config.tokenizer.kind, config.training.init_from = "imported", str(tmp_path)
    workdir.save_config(config)
    model = SentencePieceTokenizer.train(["the cat"] * 9, 270).to_bytes()
    pieces = ["<pad>", "<s>", "</s>", "<unk>", *"▁thecadio", "__de__"]
    source, target = (PieceListTokenizer(model, pieces, first) for first in ([], ["__de__"]))
    save_tokenizers(workdir.path, source, target)
    for size in (config.tokenizer.vocab_size, len(pieces), 8000):
        config.tokenizer.vocab_size = size
        check_init_from(config)
    config.tokenizer.kind = "sentencepiece"
    with pytest.raises(ValueError, match=r"Set --config\.tokenizer\.kind=imported"):
        check_init_from(config)
