"""BERT, GPT-2 and ViT beside transformers itself, where that is installed."""

import re
import shutil

import pytest

import transformer
from tests.helpers.imported import GOLDEN, as_run, random_model, write_run
from tests.helpers.tiny_models import tiny_config
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForSequenceClassification"])
def test_bert(name, size, tmp_path):
    """Catches sizes that are only right where they are equal, and another activation."""
    files = [GOLDEN / "bert" / name for name in ("tokenizer.json", "tokenizer_config.json")]
    d_model, num_heads, num_layers, d_ff, activation = size
    config = transformers.BertConfig(
        vocab_size=len(transformers.PreTrainedTokenizerFast.from_pretrained(GOLDEN / "bert")),
        hidden_size=d_model, num_attention_heads=num_heads, num_hidden_layers=num_layers,
        intermediate_size=d_ff, hidden_act=activation, max_position_embeddings=40,
        type_vocab_size=3, num_labels=2,
    )  # fmt: skip
    folder = save(getattr(transformers, name)(config), tmp_path, *files)
    assert re.search(EQUAL, check_transformers(as_run(bert.read(folder)), folder))


@pytest.mark.parametrize("size", SIZES)
def test_gpt2(size, tmp_path):
    """Catches a width of the feed-forward layers that is assumed."""
    files = [GOLDEN / "gpt2" / name for name in ("vocab.json", "merges.txt")]
    d_model, num_heads, num_layers, d_ff, activation = size
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(GOLDEN / "gpt2")
    end = tokenizer.eos_token_id
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=40, n_embd=d_model, n_head=num_heads,
        n_layer=num_layers, n_inner=d_ff, activation_function=activation, bos_token_id=end,
        eos_token_id=end,
    )  # fmt: skip
    folder = save(transformers.GPT2LMHeadModel(config), tmp_path, *files)
    assert re.search(EQUAL, check_transformers(as_run(gpt2.read(folder)), folder))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("image_size, patch_size, channels", [((8, 16), 4, 3), ((6, 6), 2, 1)])
def test_vit(size, image_size, patch_size, channels, tmp_path):
    """Catches height taken for width, one channel taken for three, and biases that are absent."""
    d_model, num_heads, num_layers, d_ff, activation = size
    config = transformers.ViTConfig(
        hidden_size=d_model, num_attention_heads=num_heads, num_hidden_layers=num_layers,
        intermediate_size=d_ff, hidden_act=activation, image_size=list(image_size),
        patch_size=patch_size, num_channels=channels, num_labels=5, qkv_bias=channels == 3,
    )  # fmt: skip
    processor = transformers.ViTImageProcessorPil(
        do_resize=False, image_mean=[0.3] * channels, image_std=[0.4] * channels
    )
    processor.save_pretrained(tmp_path)
    folder = save(transformers.ViTForImageClassification(config), tmp_path)
    assert re.search(EQUAL, check_transformers(as_run(vit.read(folder)), folder))


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


@pytest.mark.parametrize(
    ("name", "reader"), [("bert", bert), ("bert_classifier", bert), ("gpt2", gpt2), ("vit", vit)]
)
def test_a_difference_is_noticed(name, reader, tmp_path):
    """Catches a comparison of a model with itself, and one that says all is well."""
    imported, folder = reader.read(GOLDEN / name), shutil.copytree(GOLDEN / name, tmp_path / name)
    run = transformer.restore(write_run(imported, tmp_path / "run"))
    assert re.search(EQUAL, check_transformers(run, folder))
    stack = run.params["decoder" if name == "gpt2" else "encoder"]
    inner = stack["layer_0"]["feed_forward"]["inner"]
    inner["bias"] = inner["bias"] + 0.1
    assert "more than rounding: do not use" in check_transformers(run, folder)
    (folder / "config.json").write_text("{}")
    assert check_transformers(run, folder).startswith("not checked: transformers cannot use")


def test_an_import_is_compared(tmp_path):
    """Catches an import that checks translation models alone."""
    said = transformer.import_model(GOLDEN / "vit", tmp_path / "run")
    assert any(sentence.startswith("checked beside transformers") for sentence in said)
