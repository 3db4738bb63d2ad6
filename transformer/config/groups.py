"""The groups of settings of a configuration; each setting is described where it is declared.

Every default is the paper's base model where the paper says something.
"""

from dataclasses import dataclass

from transformer.config.setting import Settings, count, rate, setting
from transformer.registry import METRICS

BLEU_TOKENISATIONS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none")
TOKENIZERS = ("sentencepiece", "pieces", "characters", "imported")
SPEED_ALONE = {"resumable": True, "changes_result": False}  # facts of a setting


@dataclass
class DataConfig(Settings):
    """The text or images. A split may be a part of another one: "train[:90%]"."""

    corpus: str = setting(
        "embedded",
        "embedded, a folder, a file or pattern of names, tfds:NAME or sklearn:digits; pairs also "
        "from several, with weights and tags: a@2,b@0.5#<bt>.",
        is_path=True,
    )
    source_language: str = setting("en", "Source language, as files name it.", automatic="auto")
    target_language: str = setting("de", "Target language, as files name it.", automatic="auto")
    train_split: str = setting("train", "Split to train on.")
    validation_split: str = setting("validation", "Split to choose the best checkpoint by.")
    test_split: str = setting("test", "Split that is scored at the end.", resumable=True)
    held_out: str = setting(
        "", "Splits that are shares of the training text: validation@2%,test@2%.", automatic="auto"
    )
    max_validation_sentences: int = setting(
        1000, "Translated at each evaluation; 0: all.", at_least=0, resumable=True, automatic=-1
    )
    selection_metric: str = setting("bleu", "Chooses the best checkpoint.", choices=METRICS)
    bleu_tokenize: str = setting(
        "13a",
        "Tokenisation of sacreBLEU; none if the text is tokenised already.",
        choices=BLEU_TOKENISATIONS,
        resumable=True,
        automatic="auto",
    )
    source_noise: str = setting(
        "",
        "Damage each source: misspell, or remove_accents; with equal languages a text is both "
        "source and target.",
        choices=("", "misspell", "remove_accents"),
    )
    corpus_temperature: float = setting(
        1.0,
        "T: several corpora are shown in proportion to weight · pairs^(1/T); 1: weight · pairs.",
        at_least=1,
    )
    row_length: int = count(256, "Tokens in a packed row; longer sentences are left out.")
    max_length_ratio: float = setting(
        9.0, "Largest ratio of a training pair's two lengths in tokens; 0: no limit.", at_least=0
    )
    drop_identical: bool = setting(True, "Leave out training pairs whose two sides are equal.")
    drop_duplicates: str = setting(
        "",
        "Leave out training pairs that occurred before: the pair, its source, its target, or "
        "either of them.",
        choices=("", "pair", "source", "target", "either"),
    )
    drop_without_letters: bool = setting(
        False, "Leave out training pairs of which a side has no letter."
    )
    drop_wrong_script: bool = setting(
        False, "Leave out training pairs of which a side is in a script of another language."
    )
    drop_overlap: bool = setting(
        False, "Leave out training pairs with a sentence of the validation or test split."
    )
    cache: str = setting(
        "",
        "Folder of prepared corpora, local or gs://; empty: prepared_corpora beside the work "
        "directory.",
        is_path=True,
        **SPEED_ALONE,
    )
    cache_key: str = setting(
        "time",
        "What tells that a corpus has changed: path, size and time of its files, or a hash of all "
        "they hold.",
        choices=("time", "hash"),
        **SPEED_ALONE,
    )
    prepare_workers: int = setting(
        0,
        "Processes that prepare a corpus, or batches with subword_dropout; 0: as many as cores.",
        at_least=0,
        **SPEED_ALONE,
    )
    subword_dropout: float = rate(
        0.0,
        "BPE-dropout: the probability with which a merge is dropped, anew in each epoch; 0: none.",
    )
    mask_rate: float = rate(0.15, "Share of the tokens that a masked language model has to guess.")
    patch_size: int = setting(
        4, "Side of an image's square patches in pixels; a patch is one position.", at_least=1
    )


@dataclass
class TokenizerConfig(Settings):
    """How text becomes tokens."""

    kind: str = setting(
        "sentencepiece",
        "Tokenizer; pieces: the text is tokenised already; imported: that of training.init_from.",
        choices=TOKENIZERS,
    )
    target_kind: str = setting(
        "", "Another tokenizer for the target; needs shared=False.", choices=("", *TOKENIZERS)
    )
    model: str = setting(
        "", "File of the SentencePiece model; empty: train one from the corpus.", is_path=True
    )
    vocab_size: int = count(37_000, "Size of a SentencePiece vocabulary to train.")
    shared: bool = setting(True, "One vocabulary for both languages.")
    joiner: str = setting(
        "@@", "With kind=pieces: marks the end of a piece that the next one continues."
    )

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of the source's and of the target's tokenizer."""
        return self.kind, self.target_kind or self.kind


@dataclass
class OptimizerConfig(Settings):
    """The optimizer and the schedule of its learning rate; the paper's are Adam's (section 5.3)."""

    name: str = setting(
        "adam",
        "Optimizer; adam is AdamW with weight_decay; muon is for the matrices of the layers, and "
        "Adam for the rest; adafactor's rates are relative to the size of the parameters.",
        choices=("adam", "adafactor", "lion", "muon"),
    )
    warmup_steps: int = count(4000, "Steps over which the learning rate rises.")
    peak_learning_rate: float = setting(
        0.0,
        "Highest rate; 0: (d_model · warmup_steps)^-0.5, the paper's.",
        at_least=0,
        automatic=-1,
    )
    beta1: float = rate(0.9, "Decay of the mean of gradients, of Adam and Lion.")
    beta2: float = rate(0.98, "Adam's decay of the mean of squares; Lion's second β.")
    epsilon: float = setting(1e-9, "Adam's ε.", at_least=0)
    clip_norm: float = setting(
        0.0, "Largest norm of the gradient; 0: no clipping, as in the paper.", at_least=0
    )
    decay_steps: int = setting(
        0, "Last step of the decay that follows; 0: the paper's decay.", at_least=0, automatic=-1
    )
    decay: str = setting(
        "cosine",
        "With decay_steps: a cosine or a line after the warm-up; wsd: constant, then a line in the "
        "last fifth.",
        choices=("cosine", "linear", "wsd"),
    )
    final_share: float = rate(0.1, "With decay_steps: share of the peak rate at their end.")
    weight_decay: float = setting(
        0.0, "Weight decay of the matrices, decoupled (AdamW); the paper has none.", at_least=0
    )
    ema_decay: float = rate(
        0.0,
        "Decay per step of a moving average of the parameters, which is what is then evaluated, "
        "restored and exported; 0: none.",
    )


@dataclass
class TrainingConfig(Settings):
    """How long, how much at a time, and what to write when. Periods count steps."""

    seed: int = setting(0, "Seed of parameters, batches and dropout.", at_least=0)
    num_train_steps: int = count(100_000, "Training steps in all.", resumable=True)
    minutes: float = setting(
        0.0, "Minutes for a run whose num_train_steps is 0; 0: no limit.", at_least=0, automatic=-1
    )
    batch_tokens: int = count(25_000, "Target positions in a batch (section 5.1).")
    accumulate_steps: int = count(
        1, "Micro-batches in a batch: more need less memory.", resumable=True
    )
    label_smoothing: float = rate(0.1, "Label smoothing, ε_ls.")
    log_every: int = count(100, "Steps between two reports.", **SPEED_ALONE)
    eval_every: int = count(5000, "Steps between two evaluations.", resumable=True)
    checkpoint_every: int = count(1000, "Steps between two checkpoints.", resumable=True)
    keep_checkpoints: int = count(
        5, "Newest checkpoints kept for averaging, besides the best.", resumable=True
    )
    patience: int = setting(
        0,
        "Evaluations without a better score after which to stop; 0: never stop.",
        at_least=0,
        resumable=True,
    )
    init_from: str = setting(
        "", "Run to start from: its parameters and its vocabulary.", resumable=True, is_path=True
    )
    lora_rank: int = setting(0, "Rank of low-rank adapters; 0: train everything.", at_least=0)


@dataclass
class DecodingConfig(Settings):
    """Search (section 6.1)."""

    beam_size: int = setting(4, "Beam width; 1: greedy.", at_least=1, resumable=True)
    alpha: float = setting(0.6, "Exponent of the length penalty, α.", at_least=0, resumable=True)
    length_penalty: str = setting(
        "gnmt",
        "Divides log-probabilities at length n; gnmt: ((5+n)/6)^α, power: n^α.",
        choices=("gnmt", "power"),
        resumable=True,
    )
    max_extra_length: int = setting(
        50, "Tokens that a translation may have beyond its source's.", at_least=0, resumable=True
    )
    average_checkpoints: int = count(
        1, "Newest checkpoints to average where none is named; 1: the best one.", resumable=True
    )
    batch_size: int = setting(
        64, "Sentences searched at once on each device.", at_least=1, **SPEED_ALONE
    )


def _mesh_axis(num_devices: int, help: str) -> int:
    rest = "the devices that are left"
    return setting(num_devices, help, at_least=1, minus_one=rest, **SPEED_ALONE)


@dataclass
class MeshConfig(Settings):
    """The mesh of devices, data × fsdp × tensor; one of the three may be -1, the devices left."""

    data: int = _mesh_axis(-1, "Devices that share the rows of a batch, together with fsdp.")
    fsdp: int = _mesh_axis(1, "Devices that share parameters and optimizer state.")
    tensor: int = _mesh_axis(1, "Devices that share heads, feed-forward and vocabulary.")
