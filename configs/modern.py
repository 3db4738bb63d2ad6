"""What came after the paper, each as a row of an ablation: on Multi30k, with a small budget.

The base is the network of configs/multi30k_bpe10k.py (Wu et al., ACL 2021; 2.6 million parameters)
with less dropout, trained for 600 steps of 2,048 target tokens: about five minutes on one CPU core.
Scores (BLEU) are those of the validation set, so that settings may be chosen by them.

    transformer-ablate --config=modern --table=modern --rows=base,pre,gated --workdir=runs/modern
    python train.py --config=configs/modern.py --workdir=runs/base  # the base alone
    python eval.py --workdir=runs/base
"""

from typing import Any

from configs import multi30k_bpe10k
from transformer.config import Config

PRE = {"model.norm": "pre"}
RMS = {"model.norm_type": "rms_norm"}
GATED = {
    "model.feed_forward": "gated",
    "model.activation": "swish",
    "model.d_ff": lambda base: base.model.d_ff * 2 // 3,  # as many parameters as without a gate
}
EMA = {"optimizer.ema_decay": 0.99}
COSINE = {"optimizer.decay_steps": lambda base: base.training.num_train_steps}
MUON, LION = {"optimizer.name": "muon"}, {"optimizer.name": "lion"}
DEEP_ENCODER = {  # as many parameters as 4+4 layers: a decoder layer has two attentions
    "model.num_layers": 6,
    "model.num_decoder_layers": 1,
    "model.d_ff": 438,
}


def rate(factor: float) -> dict[str, Any]:
    """Returns the change to another peak of the learning rate."""
    return {"optimizer.peak_learning_rate": lambda base: factor * base.optimizer.peak_learning_rate}


ROWS = {
    "base": {},
    "pre": PRE,
    "rms": RMS,
    "gated": GATED,
    "pre_6_1": PRE | DEEP_ENCODER,
    "rate2": rate(2),
    "cosine": COSINE,
    "linear": COSINE | {"optimizer.decay": "linear", "optimizer.final_share": 0.0},
    "wsd": COSINE | {"optimizer.decay": "wsd", "optimizer.final_share": 0.0},
    "adamw": {"optimizer.weight_decay": 0.1},
    "adafactor": {"optimizer.name": "adafactor"} | rate(8),
    "lion": LION | rate(1 / 5),
    "lion20": LION | rate(1 / 20),
    "muon": MUON,
    "muon2": MUON | rate(2),
    "ema": EMA,
    "modern": PRE | RMS | GATED | MUON | EMA | COSINE,
    "modern_adam": PRE | RMS | GATED | EMA | COSINE,
}


def get_config() -> Config:
    config = multi30k_bpe10k.get_config()
    config.model.dropout_rate = 0.1
    config.data.row_length = 128
    config.data.test_split = "val"
    config.data.max_validation_sentences = 100

    config.optimizer.warmup_steps = 150
    config.optimizer.peak_learning_rate = 0.004

    config.training.num_train_steps = 600
    config.training.batch_tokens = 2048
    config.training.accumulate_steps = 2
    config.training.eval_every = config.training.checkpoint_every = 300

    config.decoding.beam_size = 1
    config.decoding.average_checkpoints = 1
    return config
