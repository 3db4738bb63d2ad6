"""The rows of the paper's Table 3: variations of the base model, on newstest2013 (validation).

`ROWS` says what each row changes, and `PUBLISHED` what the paper reports of it: perplexity, BLEU
and parameters. Where a row's value depends on the size of the base, it is the paper's value on the
paper's base and the same multiple of any other base: of 4 heads, h4 has 2 and h16 has 8.

    transformer-ablate --config=configs/embedded_en_de.py --rows=base,h1,h4,n2 --workdir=runs/table3

trains and tabulates rows on any corpus. One row as in the paper, on WMT14 en-de, beam 4, α 0.6, no
averaging of checkpoints, the rest as configs/wmt14_en_de_base.py:

    python train.py --config=configs/table3.py:h1 --workdir=runs/table3_h1
    python eval.py --workdir=runs/table3_h1

The paper took 12 hours per row on 8 P100, and 3.5 days for big; no row has been run to its end on
WMT14 here. The paper's BLEU is on tokens: expect about 1.5 less in sacreBLEU 13a.
"""

from collections.abc import Callable
from operator import attrgetter

from configs import wmt14_en_de_base
from transformer.config import Config


def scaled(setting: str, value: int, paper: int) -> Callable[[Config], int]:
    """Returns base -> `value`, in proportion; paper: the setting's value in the paper's base."""
    return lambda base: _share(attrgetter(setting)(base), value / paper)


def key_dim(value: int) -> Callable[[Config], int]:
    """Returns base -> d_k, in proportion to the paper's 64."""
    return lambda base: _share(base.model.widths_of_head[0], value / 64)


def value_dim(base: Config) -> int:
    """Returns the base's d_v, which rows that change d_k keep."""
    return base.model.widths_of_head[1]


def _share(number: int, share: float) -> int:
    return max(1, round(number * share)) if number > 0 else number  # 0 is no size


def num_heads(value: int) -> dict[str, Callable[[Config], int]]:
    return {"model.num_heads": scaled("model.num_heads", value, 8)}


def num_layers(value: int) -> dict[str, Callable[[Config], int]]:
    return {"model.num_layers": scaled("model.num_layers", value, 6)}


def d_model(value: int) -> dict[str, Callable[[Config], int]]:
    return {"model.d_model": scaled("model.d_model", value, 512)}


def d_ff(value: int) -> dict[str, Callable[[Config], int]]:
    return {"model.d_ff": scaled("model.d_ff", value, 2048)}


def num_train_steps(value: int) -> dict[str, Callable[[Config], int]]:
    return {
        "training.num_train_steps": scaled("training.num_train_steps", value, 100_000),
        "optimizer.decay_steps": scaled("optimizer.decay_steps", value, 100_000),
    }


ROWS = {
    "base": {},
    # A: heads; d_k = d_v = d_model / heads
    "h1": num_heads(1),
    "h4": num_heads(4),
    "h16": num_heads(16),
    "h32": num_heads(32),
    # B: d_k, at the same d_v
    "dk16": {"model.head_dim": key_dim(16), "model.value_dim": value_dim},
    "dk32": {"model.head_dim": key_dim(32), "model.value_dim": value_dim},
    # C: size
    "n2": num_layers(2),
    "n4": num_layers(4),
    "n8": num_layers(8),
    "d256": d_model(256),
    "d1024": d_model(1024),
    "ff1024": d_ff(1024),
    "ff4096": d_ff(4096),
    # D: regularisation
    "dropout0.0": {"model.dropout_rate": 0.0},
    "dropout0.2": {"model.dropout_rate": 0.2},
    "smoothing0.0": {"training.label_smoothing": 0.0},
    "smoothing0.2": {"training.label_smoothing": 0.2},
    # E: learned positions
    "learned": {"model.positions": "learned"},
    "big": d_model(1024)
    | d_ff(4096)
    | num_heads(16)
    | {"model.dropout_rate": 0.3}
    | num_train_steps(300_000),
}

PUBLISHED = {  # what the paper reports; parameters where they are not the base's
    "base": {"perplexity": 4.92, "BLEU": 25.8, "parameters": 65e6},
    "h1": {"perplexity": 5.29, "BLEU": 24.9},
    "h4": {"perplexity": 5.00, "BLEU": 25.5},
    "h16": {"perplexity": 4.91, "BLEU": 25.8},
    "h32": {"perplexity": 5.01, "BLEU": 25.4},
    "dk16": {"perplexity": 5.16, "BLEU": 25.1, "parameters": 58e6},
    "dk32": {"perplexity": 5.01, "BLEU": 25.4, "parameters": 60e6},
    "n2": {"perplexity": 6.11, "BLEU": 23.7, "parameters": 36e6},
    "n4": {"perplexity": 5.19, "BLEU": 25.3, "parameters": 50e6},
    "n8": {"perplexity": 4.88, "BLEU": 25.5, "parameters": 80e6},
    "d256": {"perplexity": 5.75, "BLEU": 24.5, "parameters": 28e6},
    "d1024": {"perplexity": 4.66, "BLEU": 26.0, "parameters": 168e6},
    "ff1024": {"perplexity": 5.12, "BLEU": 25.4, "parameters": 53e6},
    "ff4096": {"perplexity": 4.75, "BLEU": 26.2, "parameters": 90e6},
    "dropout0.0": {"perplexity": 5.77, "BLEU": 24.6},
    "dropout0.2": {"perplexity": 4.95, "BLEU": 25.5},
    "smoothing0.0": {"perplexity": 4.67, "BLEU": 25.3},
    "smoothing0.2": {"perplexity": 5.47, "BLEU": 25.7},
    "learned": {"perplexity": 4.92, "BLEU": 25.7},
    "big": {"perplexity": 4.33, "BLEU": 26.4, "parameters": 213e6},
}


def get_config(row: str = "base") -> Config:
    if row not in ROWS:
        raise ValueError(f"The rows of Table 3 are {', '.join(ROWS)}, not '{row}'.")
    config = wmt14_en_de_base.get_config()
    config.data.test_split = "validation"
    config.decoding.average_checkpoints = 1
    return config.with_values(ROWS[row])
