"""Compares a run of one Stack with the same model of Hugging Face, by random texts or images."""

from typing import Any

import jax
import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import Run
from transformer.data.rows.text_pairs import encode_texts
from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from transformer.inference.encoders import Classifier
from transformer.interop.beside_transformers import LOCAL, check_beside, random_texts
from transformer.interop.vit import NO_CLASS
from transformer.registry import task_kind
from transformer.special_tokens import EOS

NUM_IMAGES = 4
CLASSES = {
    "masked_lm": "AutoModelForMaskedLM",
    "language_model": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "images": "AutoModelForImageClassification",
}


def check_stack(run: Run, folder: PathLike) -> str:
    """Returns a sentence on how a run compares with the model in a folder of Hugging Face."""
    kind = task_kind(run.config.task)
    is_bare = kind == "masked_lm" and not run.config.model.prediction_head
    if is_bare or (kind == "images" and run.labels.names == [NO_CLASS]):
        return "not checked: the model has no head whose outputs could be compared"

    def compare(torch: Any, transformers: Any) -> tuple[float, str]:
        theirs = _Theirs(torch, transformers, folder, CLASSES[kind])
        if kind in ("masked_lm", "language_model"):
            return _compare_tokens(run, theirs, kind), "log-probabilities of tokens"
        return _compare_classes(run, theirs, kind), "log-probabilities of classes"

    return check_beside(folder, compare)


class _Theirs:
    """A model as the library transformers loads it."""

    def __init__(self, torch: Any, transformers: Any, folder: PathLike, auto_class: str) -> None:
        self.torch, self.transformers, self.folder = torch, transformers, folder
        load = getattr(transformers, auto_class).from_pretrained
        self.model = load(folder, **LOCAL, dtype=torch.float32).eval()

    def tokenize(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        load = self.transformers.AutoTokenizer.from_pretrained
        tokenizer: Any = load(self.folder, **LOCAL)
        return tokenizer(text).input_ids

    def log_probs(self, **inputs: Any) -> np.ndarray:
        """Returns the log-probabilities that the model gives."""
        with self.torch.no_grad():
            tensors = {name: self.torch.tensor(array) for name, array in inputs.items()}
            return self.model(**tensors).logits.log_softmax(-1).numpy()

    def prepare(self, images: np.ndarray) -> np.ndarray:
        """Returns the pixels that the model takes of images of bytes [N, height, width, C]."""
        load = self.transformers.AutoImageProcessor.from_pretrained
        processor: Any = load(self.folder, **LOCAL)
        pixels = processor([*images], input_data_format="channels_last", return_tensors="np")
        return pixels["pixel_values"]


def _compare_tokens(run: Run, theirs: _Theirs, kind: str) -> float:
    """Returns the largest difference of the log-probability of a token of some texts.

    A token is found by the tokens before it, or in a masked language model by all, itself too.
    """
    tokenizer, difference = run.tokenizers[0], 0.0
    for text in random_texts(tokenizer):
        ours = encode_texts(tokenizer, [text], run.config.model)[0].tolist()
        if kind == "language_model":
            ours = ours[:-1]
        if isinstance(tokenizer, HuggingFaceTokenizer):
            other = theirs.tokenize(text)
        else:  # the folder has our ids
            ours = [EOS, *ours] if kind == "language_model" else ours
            other = ours
        if len(ours) != len(other):
            return np.inf
        inputs = np.array([ours])
        logits: Any = run.model.apply({"params": run.params}, inputs, deterministic=True)
        rows = np.asarray(jax.nn.log_softmax(logits))[0], theirs.log_probs(input_ids=[other])[0]
        ahead = int(kind == "language_model")
        places = np.arange(len(ours) - ahead)
        found, expected = (
            row[places, np.array(ids)[places + ahead]]
            for row, ids in zip(rows, (ours, other), strict=True)
        )
        difference = max(difference, np.abs(found - expected).max(initial=0.0))
    return difference


def _compare_classes(run: Run, theirs: _Theirs, kind: str) -> float:
    """Returns the largest difference of the log-probability of a class."""
    classifier = Classifier(run)
    if kind == "images":
        shape = NUM_IMAGES, *run.labels.image_shape
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        found = classifier.classify(images / 255)
        expected = theirs.log_probs(pixel_values=theirs.prepare(images))
    else:
        tokenizer = run.tokenizers[0]
        texts = random_texts(tokenizer)
        found = classifier.classify(texts)
        encoded = encode_texts(tokenizer, texts, run.config.model)
        rows = [encoded[index].tolist() for index in range(len(texts))]
        if isinstance(tokenizer, HuggingFaceTokenizer):
            rows = [theirs.tokenize(text) for text in texts]
        expected = np.concatenate([theirs.log_probs(input_ids=[row]) for row in rows])
    ours = np.log([list(each.probabilities.values()) for each in found])
    return np.abs(ours - expected).max()
