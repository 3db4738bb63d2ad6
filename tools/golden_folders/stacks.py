"""Folders of BERT, GPT-2 and ViT, with what transformers makes of some texts and images.

Every weight is random, and no bias is 0.
"""

import json

import numpy as np

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 32}
WORDS = """[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! ' , . ? a b c d e f g h i l m n o r s t u
the cat dog sat on mat ##s ##t ##ing ##ed ##a ##e ##o und über sing who is in it ein eine"""
MERGES = ["t h", "th e", "Ġ c", "a t", "Ġc at", "Ġ the", "Ċ Ċ", "i n", "Ġ s", "Ġs at", "o n"]
TEXTS = ["The cat sat on the mat.", "Who is in it?", "", "über cats, singing und eine dog!"]
PROMPTS = ["the cat", "on the mat\n\nthe", "a", "Über 日本"]


def bert(folder):
    """Writes a BertForPreTraining, which has every head and the pooler."""
    import transformers

    tokenizer = _bert_tokenizer(folder)
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **SIZES)
    model = _randomise(transformers.BertForPreTraining(config))
    masked = TEXTS[0].replace("sat", "[MASK]")
    encoded = tokenizer([*TEXTS, masked], padding=True, return_tensors="pt")
    logits = _run(model, **encoded).prediction_logits
    (folder / "vocab.txt").unlink()  # tokenizer.json holds it
    _save(folder, model, tokenizer, ids=encoded.input_ids, logits=logits)


def bert_classifier(folder):
    """Writes a BertForSequenceClassification with the tokenizer as vocab.txt."""
    import transformers

    tokenizer = _bert_tokenizer(folder)
    labels = {"id2label": {0: "place", 1: "person", 2: "number"}}
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=24, hidden_act="gelu_new", **labels,
        **SIZES,
    )  # fmt: skip
    model = _randomise(transformers.BertForSequenceClassification(config))
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    probabilities = _run(model, **encoded).logits.softmax(-1)
    _save(folder, model, None, probabilities=probabilities)


def gpt2(folder):
    """Writes a GPT2LMHeadModel, with the greedy continuations of PROMPTS."""
    import tokenizers
    import transformers

    names = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names += ["".join(pair.split()) for pair in MERGES] + ["<|endoftext|>"]
    ids = {name: i for i, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES]) + "\n")
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(names), n_positions=24, n_embd=16, n_layer=2, n_head=2, n_inner=32,
        bos_token_id=len(names) - 1, eos_token_id=len(names) - 1,
    )  # fmt: skip
    model = _randomise(transformers.GPT2LMHeadModel(config))
    prompts = [tokenizer(text, return_tensors="pt") for text in PROMPTS]
    longest = max(prompt.input_ids.shape[1] for prompt in prompts)
    logits = np.zeros((len(prompts), longest, len(names)), np.float32)
    padded = np.full((len(prompts), longest), -1)
    continuations = []
    for row, prompt in enumerate(prompts):
        length = prompt.input_ids.shape[1]
        padded[row, :length] = prompt.input_ids[0]
        logits[row, :length] = _run(model, **prompt).logits[0]
        output = model.generate(**prompt, do_sample=False, max_new_tokens=10, pad_token_id=0)
        continuations.append(output[0, length:].tolist())
    texts = [tokenizer.decode(ids) for ids in continuations]
    _save(folder, model, None, ids=padded, logits=logits, continuations=np.array(continuations))
    (folder / "continuations.json").write_text(json.dumps(texts, indent=1) + "\n")


def vit(folder):
    """Writes a ViTForImageClassification whose channels are scaled otherwise each."""
    import transformers
    from PIL import Image

    labels = {"id2label": {0: "cat", 1: "dog", 2: "bird", 3: "fish"}}
    config = transformers.ViTConfig(image_size=[8, 12], patch_size=4, **labels, **SIZES)
    model = _randomise(transformers.ViTForImageClassification(config))
    processor = transformers.ViTImageProcessorPil(
        size={"height": 8, "width": 12}, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.25]
    )
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 12, 3), np.uint8)
    pixels = processor([Image.fromarray(image) for image in images], return_tensors="pt")
    probabilities = _run(model, **pixels).logits.softmax(-1)
    _save(folder, model, processor, images=images, probabilities=probabilities)


def _bert_tokenizer(folder):
    import transformers

    (folder / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n", encoding="utf-8")
    return transformers.BertTokenizer.from_pretrained(folder)


def _randomise(model):
    """Returns the model with random weights, scales around 1."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        is_scale = bool((parameter == 1).all())
        width = parameter[0].numel() if parameter.ndim > 1 else 9
        noise = torch.randn(parameter.shape, generator=generator) * 1.5 * width**-0.5
        parameter.data = noise / 2 + 1 if is_scale else noise
    return model.eval()


def _run(model, **inputs):
    import torch

    with torch.no_grad():
        return model(**inputs)


def _save(folder, model, tokenizer, **arrays):
    """Writes the folder as transformers does, and the expected arrays beside it."""
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    np.savez_compressed(folder / "expected.npz", **{k: np.asarray(v) for k, v in arrays.items()})


MODELS = {"bert": bert, "bert_classifier": bert_classifier, "gpt2": gpt2, "vit": vit}
