"""Imports and exports beside transformers itself, where that is installed."""

import re
import shutil

import pytest

import transformer
from tests.helpers.imported import GOLDEN, as_run, random_model
from tests.helpers.tiny_models import tiny_config
from tools.golden_translation import LANGUAGES
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.interop.check import check_transformers
from transformer.interop.huggingface import bert, gpt2, vit

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

EQUAL = r"^checked beside transformers: log-probabilities of \w+ within (\de-0[5-9]|0)$"
# d_model, heads, layers, d_ff, activation
SIZES = [(16, 4, 1, 24, "gelu"), (48, 3, 3, 64, "gelu_new"), (64, 1, 2, 256, "relu")]


def save(model, folder, *files):
    """Writes the folder of a model with random weights, scales around 1, and files of others."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5
        parameter.data = noise + (parameter.data == 1).all()
    model.save_pretrained(folder)
    for file in files:
        shutil.copy(file, folder)
    return folder


def save_bert(folder, name, d_model, num_heads, num_layers, d_ff, activation):
    files = [GOLDEN / "bert" / name for name in ("tokenizer.json", "tokenizer_config.json")]
    config = transformers.BertConfig(
        vocab_size=len(transformers.PreTrainedTokenizerFast.from_pretrained(GOLDEN / "bert")),
        hidden_size=d_model, num_attention_heads=num_heads, num_hidden_layers=num_layers,
        intermediate_size=d_ff, hidden_act=activation, max_position_embeddings=40,
        type_vocab_size=3, num_labels=2,
    )  # fmt: skip
    return bert.read(save(getattr(transformers, name)(config), folder, *files))


def save_gpt2(folder, d_model, num_heads, num_layers, d_ff, activation):
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(GOLDEN / "gpt2")
    end = tokenizer.eos_token_id
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=40, n_embd=d_model, n_head=num_heads,
        n_layer=num_layers, n_inner=d_ff, activation_function=activation, bos_token_id=end,
        eos_token_id=end,
    )  # fmt: skip
    files = [GOLDEN / "gpt2" / name for name in ("vocab.json", "merges.txt")]
    return gpt2.read(save(transformers.GPT2LMHeadModel(config), folder, *files))


def save_vit(folder, image, d_model, num_heads, num_layers, d_ff, activation):
    image_size, patch_size, channels = image
    config = transformers.ViTConfig(
        hidden_size=d_model, num_attention_heads=num_heads, num_hidden_layers=num_layers,
        intermediate_size=d_ff, hidden_act=activation, image_size=image_size,
        patch_size=patch_size, num_channels=channels, num_labels=5, qkv_bias=channels == 3,
    )  # fmt: skip
    processor = transformers.ViTImageProcessorPil(
        do_resize=False, image_mean=[0.3] * channels, image_std=[0.4] * channels
    )
    processor.save_pretrained(folder)
    return vit.read(save(transformers.ViTForImageClassification(config), folder))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("save_model", "options"),
    [
        (save_bert, ["BertForMaskedLM"]),
        (save_bert, ["BertForSequenceClassification"]),
        (save_gpt2, []),
        (save_vit, [([8, 16], 4, 3)]),
        (save_vit, [([6, 6], 2, 1)]),
    ],
)
def test_models_of_other_sizes(save_model, options, size, tmp_path):
    """Catches sizes that are only right where they are equal, another activation, height taken for
    width, one channel taken for three, and biases that are absent.
    """
    run = as_run(save_model(tmp_path, *options, *size))
    assert re.search(EQUAL, check_transformers(run, tmp_path))


BERT = dict(embedding_norm=True, prediction_head=True, pooling="pooler")
OWN = [
    {},
    dict(activation="gelu_tanh", projection_bias=True, positions="learned"),
    dict(activation="swish", scale_embedding=False, norm_epsilon=1e-3),
]


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize(
    "task, name",
    [
        ("masked_lm", "bert"),
        ("classification", "bert"),
        ("language_model", "gpt2"),
        ("language_model", "own"),
    ],
)
def test_transformers_computes_with_a_run_of_ours(task, name, model, tmp_path):
    """Catches a folder that loads with other numbers, or with weights that begin afresh."""
    words = PiecesTokenizer([f"w{i}" for i in range(20)], "@@")
    module = bert if name == "bert" else gpt2
    tokenizer = words if name == "own" else module.read(GOLDEN / name).tokenizers[0]
    settings = BERT | {"output_bias": True} if name == "bert" else dict(norm="pre")
    config = Config(task=task, model=tiny_config(**settings | model))
    config.data.row_length = 32 if config.model.positions == "sinusoidal" else 16
    labels = Labels(["no", "yes", "maybe"] if task == "classification" else [])
    ours = random_model(config, (tokenizer, tokenizer), labels)
    module.write(ours, tmp_path)
    assert re.search(EQUAL, check_transformers(as_run(ours), tmp_path))


TRANSLATION = ["marianmt_shared", "marianmt_separate", "m2m100", "nllb", "mbart"]


@pytest.mark.parametrize("name", [*TRANSLATION, "bert", "bert_classifier", "gpt2", "vit"])
def test_an_import_checks_itself(name, tmp_path):
    """Catches a check that compares a model with itself, and one that says that all is well."""
    source, target = LANGUAGES.get(name, ("", ""))
    languages = dict(source_language=source, target_language=target)
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    said = "\n".join(transformer.import_model(folder, tmp_path / "run", **languages))
    assert re.search(EQUAL, said, re.M)
    run = transformer.restore(tmp_path / "run", dtype="float32")
    stack = run.params["encoder" if name in ("bert", "bert_classifier", "vit") else "decoder"]
    inner = stack["layer_0"]["feed_forward"]["inner"]
    inner["bias"] = inner["bias"] + 0.5
    assert "more than rounding: do not use" in check_transformers(run, folder)
    (folder / "config.json").write_text("{}")
    assert check_transformers(run, folder).startswith("not checked: transformers cannot use")
