"""Compares a run with the same model in another library, by random texts or images."""

from collections.abc import Callable, Sequence
from functools import cached_property
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
EXTRA = 12  # tokens that a translation may have more than its source
LOCAL = {"local_files_only": True, "trust_remote_code": False}  # no code of a folder is run


def random_texts(tokenizer: Tokenizer) -> list[str]:
    """Returns texts of random pieces: those of one language would be foreign to other models."""
    rng = np.random.default_rng(0)
    known = tokenizer.special.others(tokenizer.vocab_size)
    rows = [rng.choice(known, 2 + n) for n in range(NUM_TEXTS)]
    texts = (tokenizer.decode(row).replace("\t", " ") for row in rows)
    return [text if text.strip() else "a" for text in texts]


class _TransformersModel:
    """A model and its tokenizer as the library transformers loads them."""

    def __init__(self, folder: PathLike, auto_class: str, **languages: str) -> None:
        self.torch, self.library = require("torch"), require("transformers")
        self.library.logging.set_verbosity_error()
        self.library.logging.disable_progress_bar()
        self.folder, self.languages = folder, languages
        self.model = self._load(auto_class, dtype=self.torch.float32).eval()

    def _load(self, auto_class: str, **options: Any) -> Any:
        load = getattr(self.library, auto_class).from_pretrained
        return load(self.folder, **LOCAL, **options)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the folder."""
        return self._load("AutoTokenizer", **self.languages)

    def log_probs(self, **inputs: Any) -> np.ndarray:
        """Returns the log-probabilities that the model gives."""
        with self.torch.no_grad():
            tensors = {name: self.torch.tensor(array) for name, array in inputs.items()}
            return self.model(**tensors).logits.log_softmax(-1).numpy()

    def pixels(self, images: np.ndarray) -> np.ndarray:
        """Returns the pixels that the model takes of images of bytes [N, height, width, C]."""
        processor = self._load("AutoImageProcessor")
        options = dict(input_data_format="channels_last", return_tensors="np")
        return processor([*images], **options)["pixel_values"]


def check_transformers(run: Run, folder: PathLike) -> str:
    """Returns a sentence on how a run compares with the model in a folder of Hugging Face."""
    kind = task_kind(run.config.task)
    is_bare = kind == "masked_lm" and not run.config.model.prediction_head
    if is_bare or (kind == "images" and run.labels.names == [NO_CLASS]):
        return "not checked: the model has no head whose outputs could be compared"
    if missing := [name for name in ("torch", "transformers") if not find_spec(name)]:
        return f"not checked: that needs {' and '.join(missing)}"
    auto_class, compare = COMPARISONS[kind]
    data, languages = run.config.data, {}
    if kind == "translation":
        languages = {"src_lang": data.source_language, "tgt_lang": data.target_language}
    try:
        difference, compared = compare(run, _TransformersModel(folder, auto_class, **languages))
    except Exception as error:  # whatever another library raises
        reason = reason_of(error)
        return f"not checked: transformers cannot use {folder} ({reason})"
    said = f"checked beside transformers: {compared} within {difference:.1g}"
    if difference > TOLERANCE:
        said += "; this is more than rounding: do not use the result before you know why"
    return said


def _encode(run: Run, other: _TransformersModel, text: str) -> tuple[list[int], list[int]]:
    """Returns the ids of a text for the run and for the other model."""
    ids = encode_texts(run.tokenizers[0], [text], run.config.model)[0].tolist()
    is_language_model = task_kind(run.config.task) == "language_model"
    ids = ids[:-1] if is_language_model else ids
    if isinstance(run.tokenizers[0], HuggingFaceTokenizer):
        return ids, other.tokenizer(text).input_ids
    ids = [run.tokenizers[0].special.eos, *ids] if is_language_model else ids
    return ids, ids  # the folder has the run's ids


def _compare_tokens(run: Run, other: _TransformersModel) -> tuple[float, str]:
    """Compares the log-probabilities of the tokens of some texts.

    A token is predicted by those before it, or in a masked language model by all, itself too.
    """
    difference, what = 0.0, "log-probabilities of tokens"
    ahead = int(task_kind(run.config.task) == "language_model")
    for text in random_texts(run.tokenizers[0]):
        ids, other_ids = _encode(run, other, text)
        if len(ids) != len(other_ids):
            return np.inf, what
        logits: Any = run.model.apply({"params": run.params}, np.array([ids]), deterministic=True)
        tables = (
            np.asarray(jax.nn.log_softmax(logits))[0],
            other.log_probs(input_ids=[other_ids])[0],
        )
        places = np.arange(len(ids) - ahead)
        scores, other_scores = (
            table[places, np.array(row)[places + ahead]]
            for table, row in zip(tables, (ids, other_ids), strict=True)
        )
        difference = max(difference, np.abs(scores - other_scores).max(initial=0.0))
    return difference, what


def _compare_classes(run: Run, other: _TransformersModel) -> tuple[float, str]:
    """Compares the log-probabilities of the classes of some texts or images."""
    if task_kind(run.config.task) == "images":
        shape = NUM_IMAGES, *run.labels.image_shape
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        inputs: Any = images / 255
        expected = other.log_probs(pixel_values=other.pixels(images))
    else:
        inputs = random_texts(run.tokenizers[0])
        rows = [other.log_probs(input_ids=[_encode(run, other, text)[1]]) for text in inputs]
        expected = np.concatenate(rows)
    classified = Classifier(run).classify(inputs)
    log_probs = np.log([[*each.probabilities.values()] for each in classified])
    return np.abs(log_probs - expected).max(), "log-probabilities of classes"


class _Translations:
    """Random texts and what a run makes of them by greedy search.

    sources, targets: the pieces of each text and of its translation, EOS at the end. limits: the
    most tokens of each translation, at which the run's has to end.
    """

    def __init__(self, run: Run) -> None:
        source, target = run.tokenizers
        self.texts = [*map(Tags(run.config.data).put_on, random_texts(source))]
        self.sources = [source.pieces(ids) for ids in source.encode(self.texts)]
        self.limits = [len(row) + EXTRA for row in self.sources]
        options = dict(beam_size=1, alpha=0.0, max_extra_length=EXTRA)
        translations = Translator(run).translate(self.texts, **options)
        self.targets = [target.pieces(translation.ids) for translation in translations]
        self.log_probs = [translation.log_prob for translation in translations]

    def compare(
        self, translations: Sequence[Sequence[str]], log_probs: Sequence[float]
    ) -> tuple[float, str]:
        """Returns (the difference of log-probabilities a token, what has been compared).

        translations: the pieces of the other engine's; log_probs: what it gives to the run's.
        """
        num_equal = count_equal(self.targets, translations, self.limits)
        rows = zip(self.log_probs, log_probs, self.targets, strict=True)
        difference = max(abs(a - b) / len(target) for a, b, target in rows)
        return difference, (
            f"{num_equal} of {len(self.texts)} greedy translations of random text are equal, and "
            f"the log-probabilities of tokens"
        )


def count_equal(
    translations: Sequence[Sequence[str]], others: Sequence[Sequence[str]], limits: Sequence[int]
) -> int:
    """Returns how many translations are equal, as pieces with EOS at the end.

    At its limit the run's has to end, and the other one has not; behind its end the other one may
    have padding.
    """
    lengths = [min(len(row), limit - 1) for row, limit in zip(translations, limits, strict=True)]
    rows = zip(translations, others, lengths, strict=True)
    return sum(list(a[:length]) == list(b[:length]) for a, b, length in rows)


def check_ctranslate2(run: Run, folder: PathLike) -> str:
    """Returns a sentence on what CTranslate2 makes of some texts beside what the run makes.

    Whether the difference is large depends on the quantization.
    """
    own = _Translations(run)
    engine = require("ctranslate2").Translator(str(folder), compute_type="default")
    sources, first = [row[:-1] for row in own.sources], first_pieces(run.tokenizers[1])
    results = engine.translate_batch(
        sources,
        target_prefix=[first] * len(sources),
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=max(own.limits),
        return_end_token=True,
    )
    scored = engine.score_batch(sources, [row[:-1] for row in own.targets])
    log_probs = [sum(row.log_probs[len(first) :]) for row in scored]
    difference, compared = own.compare([result.hypotheses[0] for result in results], log_probs)
    return f"checked: {compared} within {difference:.1g}"


def _compare_translations(run: Run, other: _TransformersModel) -> tuple[float, str]:
    """Compares greedy translations, and the log-probabilities of the run's."""
    own, torch, tokenizer = _Translations(run), other.torch, other.tokenizer
    language = "".join(first_pieces(run.tokenizers[0]))
    if not language.startswith(">>"):  # only MarianTokenizer does not add the language itself
        language = ""
    batch = tokenizer(
        [f"{language}{text}" for text in own.texts], return_tensors="pt", padding=True
    )
    ids = getattr(tokenizer, "target_encoder", None) or tokenizer.get_vocab()
    names = {i: piece for piece, i in ids.items()}
    first = first_pieces(run.tokenizers[1])
    rows = other.model.generate(
        **batch,
        num_beams=1,
        do_sample=False,
        length_penalty=None,
        max_length=None,
        max_new_tokens=max(own.limits),
        forced_bos_token_id=ids[first[0]] if first else None,
    )
    translations = [[names.get(i, "") for i in row[1:].tolist()] for row in rows]  # [0] starts it
    labels = [torch.tensor([ids[piece] for piece in row]) for row in own.targets]
    labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    with torch.no_grad():
        logits = other.model(**batch, labels=labels).logits
    silenced = other.model.generation_config.bad_words_ids or []
    logits[..., [words[0] for words in silenced if len(words) == 1]] = -torch.inf
    log_probs = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    scores = log_probs.where(labels >= 0, 0.0)[:, len(first) :].sum(-1)
    return own.compare(translations, scores.tolist())


# By the kind of a task: the class of transformers, and (run, its model) -> (the largest difference
# of a log-probability, what has been compared).
COMPARISONS: dict[str, tuple[str, Callable[[Run, _TransformersModel], tuple[float, str]]]] = {
    "translation": ("AutoModelForSeq2SeqLM", _compare_translations),
    "masked_lm": ("AutoModelForMaskedLM", _compare_tokens),
    "language_model": ("AutoModelForCausalLM", _compare_tokens),
    "classification": ("AutoModelForSequenceClassification", _compare_classes),
    "images": ("AutoModelForImageClassification", _compare_classes),
}
