"""The settings of an experiment: groups of dataclasses, validated, to and from JSON.

A field is set in `configs/*.py` or on the command line as `--config.GROUP.FIELD=VALUE`. Every
default is the paper's base model where the paper says something.
"""

import dataclasses
import json
from dataclasses import dataclass, field

from transformer.config_rules import check_together, check_type, check_values, with_present_names


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
    attention: str = "scaled_dot_product"  # or another of `attention.FUNCTIONS` and `MODULES`
    attention_block: int = 64  # of "local": how many places it sees to either side
    attention_features: int = 256  # of "performer": more are more exact
    dtype: str = "float32"  # of the computation, or "bfloat16"; parameters are float32

    @property
    def widths_of_head(self) -> tuple[int, int]:
        """(d_k, d_v): of queries and keys, and of values."""
        key_dim = self.head_dim or self.d_model // self.num_heads
        return key_dim, self.value_dim or key_dim


@dataclass
class DataConfig:
    """Which text or images. A split may be a part of one: "train[:90%]"."""

    corpus: str = "embedded"  # or a folder, or tfds:NAME; several for pairs: "a@2,b@0.5"
    source_language: str = "en"
    target_language: str = "de"
    train_split: str = "train"
    validation_split: str = "validation"
    test_split: str = "test"
    max_validation_sentences: int = 1000  # translated at each evaluation; 0: all
    selection_metric: str = "bleu"  # chooses the best checkpoint; or "line_error_rate"
    bleu_tokenize: str = "13a"  # sacrebleu's; "none" if the text is tokenised already
    row_length: int = 256  # target pieces of a packed row, so also the longest sentence
    max_length_ratio: float = 9.0  # of source to target pieces or back; 0: no limit
    drop_identical: bool = True  # leave out training pairs whose sides are equal (untranslated)
    mask_rate: float = 0.15  # of a masked language model: pieces that it has to guess
    patch_size: int = 4  # of an image: so many pixels square are one place of the sequence


@dataclass
class TokenizerConfig:
    """How text becomes pieces."""

    kind: str = "sentencepiece"  # or "pieces": text that is already split; or "characters"
    target_kind: str = ""  # of the target, if that is another; needs shared=False
    model: str = ""  # a SentencePiece model to use; empty: train one from the corpus
    vocab_size: int = 37_000
    shared: bool = True  # one vocabulary for both languages
    joiner: str = "@@"  # of ready-made pieces: marks a piece that the next one continues

    @property
    def kinds(self) -> tuple[str, str]:
        """Of the source, and of the target."""
        return self.kind, self.target_kind or self.kind


@dataclass
class OptimizerConfig:
    """Adam and the paper's schedule (section 5.3)."""

    warmup_steps: int = 4000
    peak_learning_rate: float = 0.0  # 0: the paper's, (d_model · warmup_steps)^-0.5
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    clip_norm: float = 0.0  # of the gradient; 0: no clipping, as in the paper
    decay_steps: int = 0  # 0: the paper's; else a cosine after warm-up, to a tenth at this step
    weight_decay: float = 0.0  # of matrices (AdamW); the paper has none


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
class MeshConfig:
    """How many devices share what; one of the three may be -1, the devices that are left."""

    data: int = -1  # the rows of a batch are dealt out over data × fsdp
    fsdp: int = 1  # parameters and optimizer state are kept in so many parts, gathered when used
    tensor: int = 1  # heads, feed-forward and vocabulary are computed in so many parts


@dataclass
class Config:
    """All of it. What follows `task`, and `mesh`, arranges the work and changes no result."""

    task: str = "translation"  # or another of `tasks.TASKS`
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    parallelism: str = "sharded"  # jit over the mesh; or "pmap": all parameters on every device
    remat: bool = False  # recompute the inside of blocks in the backward pass: less memory
    scan_layers: bool = False  # compile one block for all layers: a quicker compile

    def validate(self) -> "Config":
        """Returns itself, or raises ValueError with one sentence that says what to change."""
        for name, owner, leaf in _leaves(self):
            setattr(owner, leaf.name, check_type(name, getattr(owner, leaf.name), leaf.type))
        check_values(self.values())
        check_together(self)
        return self

    def values(self) -> dict:
        """Every setting by its full name, as "model.d_ff"."""
        return {name: getattr(owner, leaf.name) for name, owner, leaf in _leaves(self)}

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads what `to_json` wrote. Unknown names raise ValueError; missing ones get defaults."""
        try:
            data = with_present_names(json.loads(text))
            groups = {
                f.name: f.default_factory(**data.pop(f.name, {}))
                for f in dataclasses.fields(cls)
                if dataclasses.is_dataclass(f.type)
            }
            return cls(**groups, **data).validate()
        except (json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise ValueError(f"This is not a configuration of this version: {error}.") from error

    def differences(self, other: "Config") -> list[str]:
        """The fields in which two configurations differ, as "name: this, other"."""
        theirs = other.values()
        return [
            f"{name}: {value!r}, {theirs[name]!r}"
            for name, value in self.values().items()
            if value != theirs[name]
        ]


def _leaves(settings, prefix=""):
    """(full name, owner, field) of every setting."""
    for leaf in dataclasses.fields(settings):
        value = getattr(settings, leaf.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{leaf.name}.")
        else:
            yield prefix + leaf.name, settings, leaf
