"""Compares a run with the same model in another library, by random texts or images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import Run
from transformer.data.corpora.corpora import Tags
from transformer.data.rows.encoded_texts import encode_texts
from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files.reading import reason_of
from transformer.inference.encoders import Classifier
from transformer.inference.translator import Translator
from transformer.interop.huggingface.vit import NO_CLASS
from transformer.interop.writing import first_pieces
from transformer.optional_libraries import require
from transformer.registry import task_kind

TOLERANCE = 1e-3  # of the logarithm of a probability
NUM_TEXTS, NUM_IMAGES = 8, 4
TOKENS, CLASSES = "log-probabilities of tokens", "log-probabilities of classes"


def random_texts(tokenizer: Tokenizer) -> list[str]:
    """Returns texts of random pieces: those of one language would be foreign to other models."""
    rng = np.random.default_rng(0)
    known = tokenizer.special.others(tokenizer.vocab_size)
    rows = [rng.choice(known, 2 + n) for n in range(NUM_TEXTS)]
    texts = (tokenizer.decode(row).replace("\t", " ") for row in rows)
    return [text if text.strip() else "a" for text in texts]


class _TransformersModel:
    """A model, and what prepares its inputs, as the library transformers loads them."""

    def __init__(self, folder: PathLike, auto_class: str) -> None:
        self.torch, library = require("torch"), require("transformers")
        library.logging.set_verbosity_error()
        library.logging.disable_progress_bar()

        @cache
        def load(auto_class: str, **options: Any) -> Any:
            """Returns what a class makes of the folder, no code of which is run."""
            options |= {"local_files_only": True, "trust_remote_code": False}
            return getattr(library, auto_class).from_pretrained(folder, **options)

        self.load, self.model = load, load(auto_class, dtype=self.torch.float32).eval()

    def log_probs(self, inputs: Mapping[str, Any], silenced: Sequence[int] = ()) -> np.ndarray:
        """Returns the log-probabilities that the model gives; silenced: ids that get none."""
        with self.torch.no_grad():
            tensors = {name: self.torch.as_tensor(array) for name, array in inputs.items()}
            logits = self.model(**tensors).logits
            logits[..., silenced] = -np.inf
            return logits.log_softmax(-1).numpy()


def check_transformers(run: Run, folder: PathLike) -> str:
    """Returns a sentence on how a run compares with the model in a folder of Hugging Face."""
    kind = task_kind(run.config.task)
    is_bare = kind == "masked_lm" and not run.config.model.prediction_head
    if is_bare or (kind == "images" and run.labels.names == [NO_CLASS]):
        return "not checked: the model has no head whose outputs could be compared"
    if missing := [name for name in ("torch", "transformers") if not find_spec(name)]:
        return f"not checked: that needs {' and '.join(missing)}"
    auto_class, compared, compare = COMPARISONS[kind]
    try:
        difference = compare(run, _TransformersModel(folder, auto_class))
    except Exception as error:  # whatever another library raises
        reason = reason_of(error)
        return f"not checked: transformers cannot use {folder} ({reason})"
    said = f"checked beside transformers: {compared} within {difference:.1g}"
    if difference > TOLERANCE:
        said += "; this is more than rounding: do not use the result before you know why"
    return said


def _encode(run: Run, other: _TransformersModel, text: str) -> tuple[list[int], list[int]]:
    """Returns the ids of a text for the run and for the other model."""
    tokenizer, is_causal = run.tokenizers[0], task_kind(run.config.task) == "language_model"
    ids = encode_texts(tokenizer, [text], run.config.model)[0].tolist()
    ids = ids[:-1] if is_causal else ids
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return ids, other.load("AutoTokenizer")(text).input_ids
    ids = [tokenizer.special.eos, *ids] if is_causal else ids
    return ids, ids  # the folder has the run's ids


def _compare_tokens(run: Run, other: _TransformersModel) -> float:
    """Compares tokens of texts, predicted by those before or, in a masked model, by all."""
    difference, ahead = 0.0, int(task_kind(run.config.task) == "language_model")
    for text in random_texts(run.tokenizers[0]):
        ids, other_ids = map(np.array, _encode(run, other, text))
        if len(ids) != len(other_ids):
            return np.inf
        logits: Any = run.model.apply({"params": run.params}, ids[None], deterministic=True)
        scores = np.asarray(jax.nn.log_softmax(logits))[0]
        other_scores = other.log_probs({"input_ids": other_ids[None]})[0]
        places = np.arange(len(ids) - ahead)
        scores = scores[places, ids[ahead:]] - other_scores[places, other_ids[ahead:]]
        difference = max(difference, np.abs(scores).max(initial=0.0))
    return difference


def _compare_classes(run: Run, other: _TransformersModel) -> float:
    """Compares the classes of some texts or images."""
    if task_kind(run.config.task) == "images":
        shape = NUM_IMAGES, *run.labels.image_shape
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        options = dict(input_data_format="channels_last", return_tensors="np")
        pixels = other.load("AutoImageProcessor")([*images], **options)["pixel_values"]
        inputs, expected = images / 255, other.log_probs({"pixel_values": pixels})
    else:
        inputs = random_texts(run.tokenizers[0])
        rows = [_encode(run, other, text)[1] for text in inputs]
        expected = np.concatenate([other.log_probs({"input_ids": [row]}) for row in rows])
    found = [[*each.probabilities.values()] for each in Classifier(run).classify(inputs)]
    return np.abs(np.log(found) - expected).max()


def _score_translations(run: Run) -> tuple[list[str], list[list[str]], list[np.ndarray]]:
    """Returns random sources, and pieces of translations to EOS with their log-probabilities."""
    source, target = run.tokenizers
    sources = [*map(Tags(run.config.data).put_on, random_texts(source))]
    scored = Translator(run).log_probs(sources, random_texts(target))
    rows = zip(scored.values, scored.mask, strict=True)
    return sources, scored.pieces, [values[mask] for values, mask in rows]


def _largest_difference(rows: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> float:
    """Compares numbers with those of others, which may have more behind them."""
    pairs = zip(rows, others, strict=True)
    return max(np.abs(row - np.array(other)[: len(row)]).max() for row, other in pairs)


def check_ctranslate2(run: Run, folder: PathLike) -> str:
    """Returns a sentence on how a run compares with a folder of CTranslate2.

    Whether the difference is large depends on the quantization.
    """
    sources, targets, log_probs = _score_translations(run)
    engine = require("ctranslate2").Translator(str(folder), compute_type="default")
    tokenizer = run.tokenizers[0]
    pieces = [tokenizer.pieces(ids)[:-1] for ids in tokenizer.encode(sources)]
    scored = engine.score_batch(pieces, [row[:-1] for row in targets])
    difference = _largest_difference(log_probs, [row.log_probs for row in scored])
    return f"checked: {TOKENS} within {difference:.1g}"


def _compare_translations(run: Run, other: _TransformersModel) -> float:
    """Compares the tokens of some translations."""
    sources, targets, log_probs = _score_translations(run)
    data = run.config.data
    languages = {"src_lang": data.source_language, "tgt_lang": data.target_language}
    tokenizer = other.load("AutoTokenizer", **languages)
    language = "".join(first_pieces(run.tokenizers[0]))
    if language.startswith(">>"):  # only MarianTokenizer does not add the language itself
        sources = [f"{language}{text}" for text in sources]
    ids = getattr(tokenizer, "target_encoder", None) or tokenizer.get_vocab()
    rows = [[ids[piece] for piece in row] for row in targets]
    longest = max(map(len, rows))
    labels = np.array([row + [-100] * (longest - len(row)) for row in rows])
    silenced = []  # what an import silences by its bias
    if run.config.tokenizer.kind == "imported":
        words = other.model.generation_config.bad_words_ids or []
        silenced = [word[0] for word in words if len(word) == 1]
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    scores = other.log_probs({**batch, "labels": labels}, silenced)
    scores = np.take_along_axis(scores, labels.clip(0)[..., None], -1)[..., 0]
    return _largest_difference(log_probs, scores)


# By the kind of a task: the class of transformers, what is compared, and what returns the largest
# difference of a log-probability.
COMPARISONS: dict[str, tuple[str, str, Callable[[Run, _TransformersModel], float]]] = {
    "translation": ("AutoModelForSeq2SeqLM", TOKENS, _compare_translations),
    "masked_lm": ("AutoModelForMaskedLM", TOKENS, _compare_tokens),
    "language_model": ("AutoModelForCausalLM", TOKENS, _compare_tokens),
    "classification": ("AutoModelForSequenceClassification", CLASSES, _compare_classes),
    "images": ("AutoModelForImageClassification", CLASSES, _compare_classes),
}
