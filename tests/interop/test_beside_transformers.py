"""BERT, GPT-2 and ViT of several sizes beside transformers itself, where that is installed."""

import re
import shutil

import numpy as np
import pytest

import transformer
from tests.helpers.imported import GOLDEN, as_run, compute, random_model, write_run
from tests.helpers.tiny_models import tiny_config
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.inference.encoders import Classifier
from transformer.inference.language_model import LanguageModel
from transformer.interop.check import check_transformers
from transformer.interop.huggingface import bert, gpt2, vit
from transformer.interop.huggingface.tokens import read_bert_tokenizer, read_gpt2_tokenizer
from transformer.special_tokens import EOS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

TEXTS = ["The cat sat on the mat.", "Who is in it?", "", "über cats, singing und eine dog!"]
PROMPTS = ["the cat", "on the mat\n\nthe", "a", "Über 日本"]
# d_model, heads, layers, d_ff, activation
SIZES = [(16, 4, 1, 24, "gelu"), (48, 3, 3, 64, "gelu_new"), (64, 1, 2, 256, "relu")]


def randomise(model):
    """The model with random weights, scales around 1."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5
        parameter.data = noise + (parameter.data == 1).all()
    return model.eval()


def run(model, **inputs):
    with torch.no_grad():
        return model(**inputs)


def save(model, folder, *files):
    """Writes the folder of a model with files of a golden one."""
    model.save_pretrained(folder)
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def bert_config(size, vocab_size, **more):
    d_model, num_heads, num_layers, d_ff, activation = size
    return transformers.BertConfig(
        vocab_size=vocab_size, hidden_size=d_model, num_attention_heads=num_heads,
        num_hidden_layers=num_layers, intermediate_size=d_ff, hidden_act=activation,
        max_position_embeddings=40, type_vocab_size=3, **more,
    )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_bert(size, tmp_path):
    """Catches sizes that are only right where they are equal, and another activation."""
    golden = GOLDEN / "bert"
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(golden)
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    config = bert_config(size, len(tokenizer), num_labels=2)
    files = golden / "tokenizer.json", golden / "tokenizer_config.json"
    theirs = randomise(transformers.BertForMaskedLM(config))
    imported = bert.read(save(theirs, tmp_path / "lm", *files))
    ids = encoded.input_ids.numpy()
    is_token, expected = ids != tokenizer.pad_token_id, run(theirs, **encoded).logits.numpy()
    np.testing.assert_allclose(compute(imported, ids)[is_token], expected[is_token], atol=1e-5)

    theirs = randomise(transformers.BertForSequenceClassification(config))
    imported = bert.read(save(theirs, tmp_path / "classes", *files))
    classifier = Classifier(as_run(imported))
    found = [list(each.probabilities.values()) for each in classifier.classify(TEXTS)]
    np.testing.assert_allclose(found, run(theirs, **encoded).logits.softmax(-1), atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_gpt2(size, tmp_path):
    """Catches a width of the feed-forward layers that is assumed, and another continuation."""
    golden = GOLDEN / "gpt2"
    d_model, num_heads, num_layers, d_ff, activation = size
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(golden)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=40, n_embd=d_model, n_head=num_heads,
        n_layer=num_layers, n_inner=d_ff, activation_function=activation,
        bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    theirs = randomise(transformers.GPT2LMHeadModel(config))
    folder = save(theirs, tmp_path / "gpt2", golden / "vocab.json", golden / "merges.txt")
    imported = gpt2.read(folder)
    ours = imported.tokenizers[0]
    model = LanguageModel(as_run(imported))
    continuations = model.generate(PROMPTS, num_pieces=20, temperature=0)
    for prompt, continuation in zip(PROMPTS, continuations, strict=True):
        encoded = tokenizer(prompt, return_tensors="pt")
        expected = run(theirs, **encoded).logits.numpy()
        found = compute(imported, np.array([ours.encode([prompt])[0][:-1]]))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        output = theirs.generate(**encoded, do_sample=False, max_new_tokens=20, pad_token_id=0)
        new = output[0, encoded.input_ids.shape[1] :]
        assert continuation == tokenizer.decode(new, skip_special_tokens=True)


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
    theirs = randomise(transformers.ViTForImageClassification(config))
    processor = transformers.ViTImageProcessorPil(
        do_resize=False, image_mean=[0.3] * channels, image_std=[0.4] * channels
    )
    processor.save_pretrained(tmp_path)
    imported = vit.read(save(theirs, tmp_path))
    images = np.random.default_rng(0).integers(0, 256, (3, *image_size, channels), np.uint8)
    pixels = (images.transpose(0, 3, 1, 2) / 255 - 0.3) / 0.4
    expected = run(theirs, pixel_values=torch.tensor(pixels).float()).logits.softmax(-1)
    classifier = Classifier(as_run(imported))
    found = [list(each.probabilities.values()) for each in classifier.classify(images / 255)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def own_run(task, tokenizer, **model):
    """A run of ours with random parameters."""
    config = Config(task=task, model=tiny_config(**model))
    config.data.row_length = 32 if config.model.positions == "sinusoidal" else 16
    labels = Labels(["no", "yes", "maybe"] if task == "classification" else [])
    return random_model(config, (tokenizer, tokenizer), labels)


OWN = [
    {},
    dict(activation="gelu_tanh", projection_bias=True, output_bias=True, positions="learned"),
    dict(activation="swish", scale_embedding=False, norm_epsilon=1e-3, output_bias=True),
]


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("task", ["masked_lm", "classification"])
def test_transformers_computes_with_a_bert_of_ours(task, model, tmp_path):
    """Catches a folder that loads with other numbers, or with weights that begin afresh."""
    tokenizer = read_bert_tokenizer(GOLDEN / "bert")
    settings = dict(embedding_norm=True, prediction_head=True, pooling="pooler")
    ours = own_run(task, tokenizer, **settings | model)
    bert.write(ours, tmp_path)
    auto = transformers.AutoModelForMaskedLM
    if task == "classification":
        auto = transformers.AutoModelForSequenceClassification
    theirs, info = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path)
    encoded = reader(TEXTS[:2], padding=True, return_tensors="pt")
    ids, pad = encoded.input_ids.numpy(), tokenizer.special.pad
    assert [row[row != pad].tolist() for row in ids] == tokenizer.encode(TEXTS[:2])
    found, expected = run(theirs.eval(), **encoded).logits.numpy(), compute(ours, ids)
    if task == "classification":
        np.testing.assert_allclose(found, expected[:, 0], atol=1e-5)
        assert theirs.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    else:
        np.testing.assert_allclose(found[ids != pad], expected[ids != pad], atol=1e-5)
        assert reader.mask_token_id == tokenizer.special.mask


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("tokenizer", ["imported", "own"])
def test_transformers_continues_with_a_gpt2_of_ours(tokenizer, model, tmp_path):
    """Catches a folder that loads with other numbers, and another continuation."""
    is_own = tokenizer == "own"
    words = PiecesTokenizer([f"w{i}" for i in range(20)], "@@")
    tokenizer = words if is_own else read_gpt2_tokenizer(GOLDEN / "gpt2")
    ours = own_run("language_model", tokenizer, **dict(norm="pre") | model)
    gpt2.write(ours, tmp_path)
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not info["missing_keys"] and not info["mismatched_keys"]
    prompt = "w3 w4" if is_own else "the cat"
    (ids,) = tokenizer.encode([prompt])
    inputs = np.array([[EOS, *ids[:-1]] if is_own else ids[:-1]])
    encoded = {"input_ids": torch.tensor(inputs)}
    found = run(theirs.eval(), **encoded).logits.numpy()
    expected = compute(ours, inputs)
    shift = (found - expected).mean(-1, keepdims=True)
    np.testing.assert_allclose(found - shift, expected, atol=2e-5)
    new = theirs.generate(**encoded, do_sample=False, max_new_tokens=8, pad_token_id=0)
    new = new[0, inputs.shape[1] :].numpy()
    model = LanguageModel(as_run(ours))
    (continuation,) = model.generate([prompt], num_pieces=8, temperature=0, one_line=is_own)
    assert continuation == model.decode(new)
    if not is_own:
        reader = transformers.AutoTokenizer.from_pretrained(tmp_path)
        ids = tokenizer.encode(PROMPTS)[1][:-1]
        assert reader(PROMPTS[1]).input_ids == ids
        assert set(reader(PROMPTS[1])) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("name", "reader"), [("bert", bert), ("bert_classifier", bert), ("gpt2", gpt2), ("vit", vit)]
)
def test_a_difference_is_noticed(name, reader, tmp_path):
    """Catches a comparison of a model with itself, and one that says all is well."""
    imported, folder = reader.read(GOLDEN / name), shutil.copytree(GOLDEN / name, tmp_path / name)
    run = transformer.restore(write_run(imported, tmp_path / "run"))
    assert re.search(r"^checked .* within \de-0[567]$", check_transformers(run, folder))
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
