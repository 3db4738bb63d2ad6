"""The settings of an experiment: six groups of dataclasses, validated, to and from JSON.

A field is set in `configs/*.py` or on the command line as `--config.GROUP.FIELD=VALUE`. Every
default is the paper's base model where the paper says something.
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field


@dataclass
class ModelConfig:
    """The network (paper, sections 3 and 5.4; letters as in Table 3)."""

    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    head_dim: int = 0  # d_k; 0: d_model / num_heads
    value_dim: int = 0  # d_v; 0: d_k
    num_layers: int = 6  # of the encoder, and of the decoder
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.0  # the paper has none on the attention weights
    norm: str = "post"  # or "pre"
    positions: str = "sinusoidal"  # or "learned"
    max_positions: int = 512  # of learned positions
    embedding_sharing: str = "all"  # source, target and softmax; or "target", "none"
    attention: str = "scaled_dot_product"
    dtype: str = "float32"  # of the computation, or "bfloat16"; parameters are float32

    @property
    def widths_of_head(self) -> tuple[int, int]:
        """(d_k, d_v): of queries and keys, and of values."""
        key_dim = self.head_dim or self.d_model // self.num_heads
        return key_dim, self.value_dim or key_dim


@dataclass
class DataConfig:
    """Which text. `corpus` is read by `corpus.load_pairs`; splits are its names for them."""

    corpus: str = "embedded"  # or a folder, or tfds:NAME; several: "a@2,b@0.5"
    source_language: str = "en"
    target_language: str = "de"
    train_split: str = "train"
    validation_split: str = "validation"
    test_split: str = "test"
    max_validation_sentences: int = 1000  # translated at each evaluation; 0: all
    bleu_tokenize: str = "13a"  # sacrebleu's; "none" if the text is tokenised already
    row_length: int = 256  # target pieces of a packed row, so also the longest sentence
    max_length_ratio: float = 9.0  # of source to target pieces or back; 0: no limit
    drop_identical: bool = True  # leave out training pairs whose sides are equal (untranslated)


@dataclass
class TokenizerConfig:
    """How text becomes pieces."""

    kind: str = "sentencepiece"  # or "pieces": text that is already split
    model: str = ""  # a SentencePiece model to use; empty: train one from the corpus
    vocab_size: int = 37_000
    shared: bool = True  # one vocabulary for both languages
    joiner: str = "@@"  # of ready-made pieces: marks a piece that the next one continues


@dataclass
class OptimizerConfig:
    """Adam and the paper's schedule (section 5.3)."""

    warmup_steps: int = 4000
    peak_learning_rate: float = 0.0  # 0: the paper's, (d_model · warmup_steps)^-0.5
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    clip_norm: float = 0.0  # of the gradient; 0: no clipping, as in the paper


@dataclass
class TrainingConfig:
    """How long, how much at a time, and what to write when. Periods count steps."""

    seed: int = 0
    num_train_steps: int = 100_000
    batch_tokens: int = 25_000  # target positions of a batch, section 5.1
    accumulate_steps: int = 1  # a batch is worked off in so many parts
    label_smoothing: float = 0.1
    log_every: int = 100
    eval_every: int = 5000
    checkpoint_every: int = 1000
    keep_checkpoints: int = 5  # the newest ones, for averaging; the best is kept besides
    patience: int = 0  # stop after so many evaluations without a better BLEU; 0: never
    init_from: str = ""  # a work directory whose parameters to start from (warm start)


@dataclass
class DecodingConfig:
    """Search (section 6.1)."""

    beam_size: int = 4  # 1: greedy
    alpha: float = 0.6
    length_penalty: str = "gnmt"  # ((5+n)/6)^α; or "power": n^α
    max_extra_length: int = 50  # a translation has at most source + this many pieces
    average_checkpoints: int = 1  # the mean of the last n, when none is named
    batch_size: int = 64  # sentences searched at once


@dataclass
class Config:
    """All of it."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    def validate(self) -> "Config":
        """Returns itself, or raises ValueError with one sentence that says what to change."""
        for group in dataclasses.fields(self):
            _check_types(group.name, getattr(self, group.name))
        for name, allowed in CHOICES.items():
            _check(name, _get(self, name), f"one of {', '.join(allowed)}", lambda v: v in allowed)  # noqa: B023
        for name in POSITIVE:
            _check(name, _get(self, name), "at least 1", lambda v: v >= 1)
        for name in NOT_NEGATIVE:
            _check(name, _get(self, name), "at least 0", lambda v: v >= 0)
        for name in RATES:
            _check(name, _get(self, name), "from 0 up to but not including 1", lambda v: 0 <= v < 1)
        self._check_together()
        return self

    def _check_together(self):
        m, d, tokenizer = self.model, self.data, self.tokenizer
        averaged, kept = self.decoding.average_checkpoints, self.training.keep_checkpoints
        for is_right, wanted in (
            (
                m.head_dim or m.d_model % m.num_heads == 0,
                f"model.d_model ({m.d_model}) must be a multiple of model.num_heads "
                f"({m.num_heads}); change one of them or set model.head_dim.",
            ),
            (
                m.d_model % 2 == 0,
                f"model.d_model must be even, as sines and cosines come in pairs, not {m.d_model}.",
            ),
            (
                m.positions == "sinusoidal" or m.max_positions >= d.row_length,
                f"model.max_positions ({m.max_positions}) must be at least data.row_length "
                f"({d.row_length}), the longest sentence; raise it or lower the other.",
            ),
            (
                tokenizer.shared or m.embedding_sharing != "all",
                "model.embedding_sharing=all needs one vocabulary: set tokenizer.shared=True, or "
                "model.embedding_sharing=target.",
            ),
            (
                not tokenizer.model or (tokenizer.shared and tokenizer.kind == "sentencepiece"),
                "tokenizer.model names one SentencePiece vocabulary: set tokenizer.shared=True and "
                "tokenizer.kind=sentencepiece.",
            ),
            (
                averaged <= kept,
                f"decoding.average_checkpoints ({averaged}) must be at most "
                f"training.keep_checkpoints ({kept}); lower it or raise the other.",
            ),
        ):
            if not is_right:
                raise ValueError(wanted)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads what `to_json` wrote. Unknown names raise ValueError; missing ones get defaults."""
        try:
            data = json.loads(text)
            groups = {
                f.name: f.default_factory(**data.pop(f.name, {})) for f in dataclasses.fields(cls)
            }
            return cls(**groups, **data).validate()
        except (json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise ValueError(f"This is not a configuration of this version: {error}.") from error

    def differences(self, other: "Config") -> list[str]:
        """The fields in which two configurations differ, as "group.field: this, other"."""
        ours, theirs = (dataclasses.asdict(c) for c in (self, other))
        return [
            f"{group}.{name}: {value!r}, {theirs[group][name]!r}"
            for group, values in ours.items()
            for name, value in values.items()
            if value != theirs[group][name]
        ]


CHOICES = {
    "model.norm": ("post", "pre"),
    "model.positions": ("sinusoidal", "learned"),
    "model.embedding_sharing": ("all", "target", "none"),
    "model.attention": ("scaled_dot_product",),
    "model.dtype": ("float32", "bfloat16"),
    "data.bleu_tokenize": ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"),
    "tokenizer.kind": ("sentencepiece", "pieces"),
    "decoding.length_penalty": ("gnmt", "power"),
}
POSITIVE = """model.d_model model.d_ff model.num_heads model.num_layers model.max_positions
    data.row_length tokenizer.vocab_size optimizer.warmup_steps training.num_train_steps
    training.batch_tokens training.accumulate_steps training.log_every training.eval_every
    training.checkpoint_every training.keep_checkpoints decoding.beam_size decoding.batch_size
    decoding.average_checkpoints""".split()  # noqa: SIM905
NOT_NEGATIVE = """model.head_dim model.value_dim data.max_validation_sentences
    data.max_length_ratio training.seed
    optimizer.peak_learning_rate optimizer.epsilon optimizer.clip_norm training.patience
    decoding.alpha decoding.max_extra_length""".split()  # noqa: SIM905
RATES = """model.dropout_rate model.attention_dropout_rate training.label_smoothing
    optimizer.beta1 optimizer.beta2""".split()  # noqa: SIM905


def _get(config, name):
    group, leaf = name.split(".")
    return getattr(getattr(config, group), leaf)


def _check(name, value, wanted, is_right):
    if not is_right(value):
        raise ValueError(f"{name} must be {wanted}, not {value!r}.")


def _check_types(group, values):
    for leaf in dataclasses.fields(values):
        value = getattr(values, leaf.name)
        if leaf.type is float and type(value) is int:
            setattr(values, leaf.name, value := float(value))
        name = f"{group}.{leaf.name}"
        _check(name, value, f"of type {leaf.type.__name__}", lambda v: type(v) is leaf.type)  # noqa: B023
        _check(name, value, "finite", lambda v: type(v) is not float or math.isfinite(v))
