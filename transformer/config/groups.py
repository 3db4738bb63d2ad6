"""The settings of training and decoding; each is described where it is declared.

Every default is the paper's base model where the paper says something.
"""

from dataclasses import dataclass

from transformer.config.setting import SPEED_ONLY, Settings, count, rate, setting

MOST_HYPOTHESES = 1024  # of one sentence: the widest beam
MOST_EXTRA = 2**16  # tokens beyond the length of a source


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
        0.0, "Highest rate; 0: (d_model · warmup_steps)^-0.5, the paper's.", automatic=-1
    )
    beta1: float = rate(0.9, "Decay of the mean of gradients, of Adam and Lion.")
    beta2: float = rate(0.98, "Adam's decay of the mean of squares; Lion's second β.")
    epsilon: float = setting(1e-9, "Adam's ε.")
    clip_norm: float = setting(
        0.0, "Largest norm of the gradient; 0: no clipping, as in the paper."
    )
    decay_steps: int = setting(
        0, "Last step of the decay that follows; 0: the paper's decay.", automatic=-1
    )
    decay: str = setting(
        "cosine",
        "With decay_steps: a cosine or a line after the warm-up; wsd: constant, then a line in the "
        "last fifth.",
        choices=("cosine", "linear", "wsd"),
    )
    final_share: float = rate(0.1, "With decay_steps: share of the peak rate at their end.")
    weight_decay: float = setting(
        0.0, "Weight decay of the matrices, decoupled (AdamW); the paper has none."
    )
    ema_decay: float = rate(
        0.0, "Decay of a moving average of the parameters, which then is what is used; 0: none."
    )


@dataclass
class TrainingConfig(Settings):
    """How long, how much at a time, and what to write when. Periods count steps."""

    seed: int = setting(0, "Seed of parameters, batches and dropout.", at_most=2**63 - 1)
    num_train_steps: int = count(100_000, "Training steps in all.", resumable=True)
    minutes: float = setting(
        0.0, "Minutes for a run whose num_train_steps is 0; 0: no limit.", automatic=-1
    )
    batch_tokens: int = count(25_000, "Target positions in a batch (section 5.1).", at_most=2**26)
    accumulate_steps: int = count(
        1, "Micro-batches in a batch: more need less memory.", resumable=True, at_most=4096
    )
    label_smoothing: float = rate(0.1, "Label smoothing, ε_ls.")
    log_every: int = count(100, "Steps between two reports.", **SPEED_ONLY)
    eval_every: int = count(5000, "Steps between two evaluations.", resumable=True)
    checkpoint_every: int = count(1000, "Steps between two checkpoints.", resumable=True)
    keep_checkpoints: int = count(
        5, "Newest checkpoints kept for averaging, besides the best.", resumable=True
    )
    patience: int = setting(
        0, "Evaluations without a better score after which to stop; 0: never stop.", resumable=True
    )
    init_from: str = setting(
        "", "Run to start from: its parameters and its vocabulary.", resumable=True, is_path=True
    )
    lora_rank: int = setting(0, "Rank of low-rank adapters; 0: train everything.")


@dataclass
class DecodingConfig(Settings):
    """Search (section 6.1).

    These may be changed in config.json of a trained run. Opening it then warns which of them differ
    from those that its checkpoints were saved with.
    """

    beam_size: int = setting(
        4, "Beam width; 1: greedy.", at_least=1, resumable=True, at_most=MOST_HYPOTHESES
    )
    alpha: float = setting(0.6, "Exponent of the length penalty, α.", resumable=True)
    length_penalty: str = setting(
        "gnmt",
        "Divides log-probabilities at length n; gnmt: ((5+n)/6)^α, power: n^α.",
        choices=("gnmt", "power"),
        resumable=True,
    )
    max_extra_length: int = setting(
        50, "Most tokens beyond those of the source.", resumable=True, at_most=MOST_EXTRA
    )
    average_checkpoints: int = count(
        1, "Newest checkpoints to average where none is named; 1: the best one.", resumable=True
    )
    batch_size: int = setting(
        64, "Sentences searched at once on each device.", at_least=1, at_most=2**16, **SPEED_ONLY
    )


def _mesh_axis(num_devices: int, help: str) -> int:
    rest = "the devices that are left"
    return setting(num_devices, help, at_least=1, minus_one=rest, **SPEED_ONLY)


@dataclass
class MeshConfig(Settings):
    """The mesh of devices, data × fsdp × tensor; one of the three may be -1, the devices left."""

    data: int = _mesh_axis(-1, "Devices that share the rows of a batch, together with fsdp.")
    fsdp: int = _mesh_axis(1, "Devices that share parameters and optimizer state.")
    tensor: int = _mesh_axis(1, "Devices that share heads, feed-forward and vocabulary.")
