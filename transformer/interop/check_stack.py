"""Compares a run of one Stack with the same model of Hugging Face, by random texts or images."""

from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import Restored
from transformer.data.huggingface_tokenizer import HuggingFaceTokenizer
from transformer.inference.classifier import Classifier
from transformer.interop.check_export import make_texts
from transformer.interop.vit import NO_CLASS
from transformer.registry import task_kind
from transformer.special_tokens import EOS

NUM_IMAGES = 4
TOLERANCE = 1e-3  # of the logarithm of a probability
LIBRARIES = ("torch", "transformers")
CLASSES = {
    "masked_lm": "AutoModelForMaskedLM",
    "language_model": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "images": "AutoModelForImageClassification",
}


def check_stack(run: Restored, folder: PathLike) -> str:
    """Returns a sentence on how a run compares with the model in a folder of Hugging Face."""
    kind = task_kind(run.config.task)
    if missing := [name for name in LIBRARIES if not find_spec(name)]:
        return f"not checked: that needs {' and '.join(missing)}"
    is_bare = kind == "masked_lm" and not run.config.model.prediction_head
    if is_bare or (kind == "images" and run.labels.names == [NO_CLASS]):
        return "not checked: the model has no head whose outputs could be compared"
    try:
        theirs = _Theirs(folder, CLASSES[kind])
        if kind in ("masked_lm", "language_model"):
            difference, what = _compare_tokens(run, theirs, kind), "tokens"
        else:
            difference, what = _compare_classes(run, theirs, kind), "classes"
    except Exception as error:  # whatever another library raises
        reason = " ".join(str(error).split())[:200]
        return f"not checked: transformers cannot use {folder} ({reason})"
    said = f"checked beside transformers: log-probabilities of {what} within {difference:.1g}"
    if difference > TOLERANCE:
        said += "; this is more than rounding: do not use the result before you know why"
    return said


class _Theirs:
    """A model as the library transformers loads it."""

    def __init__(self, folder: PathLike, auto_class: str) -> None:
        import torch  # pyrefly: ignore[missing-import]
        import transformers  # pyrefly: ignore[missing-import]

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.torch, self.transformers, self.folder = torch, transformers, folder
        load = getattr(transformers, auto_class).from_pretrained
        self.model = load(folder, local_files_only=True, dtype=torch.float32).eval()

    def tokenize(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        load = self.transformers.AutoTokenizer.from_pretrained
        tokenizer: Any = load(self.folder, local_files_only=True)
        return tokenizer(text).input_ids

    def log_probs(self, **inputs: Any) -> np.ndarray:
        """Returns the log-probabilities that the model gives."""
        with self.torch.no_grad():
            tensors = {name: self.torch.tensor(array) for name, array in inputs.items()}
            return self.model(**tensors).logits.log_softmax(-1).numpy()

    def prepare(self, images: np.ndarray) -> np.ndarray:
        """Returns the pixels that the model takes of images of bytes [N, height, width, C]."""
        load = self.transformers.AutoImageProcessor.from_pretrained
        processor: Any = load(self.folder, local_files_only=True)
        pixels = processor([*images], input_data_format="channels_last", return_tensors="np")
        return pixels["pixel_values"]


def _compare_tokens(run: Restored, theirs: _Theirs, kind: str) -> float:
    """Returns the largest difference of the log-probability of a token of some texts.

    A token is found by the tokens before it, or in a masked language model by all, itself too.
    """
    tokenizer, difference = run.tokenizers[0], 0.0
    for text in make_texts(tokenizer):
        (ours,) = tokenizer.encode([text])
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


def _compare_classes(run: Restored, theirs: _Theirs, kind: str) -> float:
    """Returns the largest difference of the log-probability of a class."""
    classifier = Classifier(run.config, None, run.labels, *run.tokenizers[:1])
    classifier.use(run)
    if kind == "images":
        shape = NUM_IMAGES, *run.labels.image_shape
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        found = classifier.classify(images / 255)
        expected = theirs.log_probs(pixel_values=theirs.prepare(images))
    else:
        tokenizer = run.tokenizers[0]
        texts = make_texts(tokenizer)
        found = classifier.classify(texts)
        rows = tokenizer.encode(texts)
        if isinstance(tokenizer, HuggingFaceTokenizer):
            rows = [theirs.tokenize(text) for text in texts]
        expected = np.concatenate([theirs.log_probs(input_ids=[row]) for row in rows])
    ours = np.log([list(each.probabilities.values()) for each in found])
    return np.abs(ours - expected).max()
