"""The rows of the paper's Table 3: variations of the base model, on newstest2013 (validation).

As in the paper: WMT14 en-de, beam 4, α 0.6, no averaging of checkpoints. `ROWS` says what each row
changes; the rest is configs/wmt14_en_de_base.py. The paper took 12 hours per row on 8 P100, and 3.5
days for big; no row has been run to its end here. The paper's BLEU is on tokens: expect about 1.5
less in sacreBLEU 13a.

    python train.py --config=configs/table3.py:h1 --workdir=runs/table3_h1
    python eval.py --workdir=runs/table3_h1
"""

from configs import wmt14_en_de_base
from transformer.config import Config

ROWS = {  # what the row changes          paper: perplexity, BLEU, million parameters
    "base": {},  #                                 4.92  25.8   65
    # A: heads; d_k = d_v = d_model / heads
    "h1": {"model.num_heads": 1},  #               5.29  24.9
    "h4": {"model.num_heads": 4},  #               5.00  25.5
    "h16": {"model.num_heads": 16},  #             4.91  25.8
    "h32": {"model.num_heads": 32},  #             5.01  25.4
    # B: d_k, at the same d_v
    "dk16": {"model.head_dim": 16, "model.value_dim": 64},  # 5.16  25.1  58
    "dk32": {"model.head_dim": 32, "model.value_dim": 64},  # 5.01  25.4  60
    # C: size
    "n2": {"model.num_layers": 2},  #              6.11  23.7   36
    "n4": {"model.num_layers": 4},  #              5.19  25.3   50
    "n8": {"model.num_layers": 8},  #              4.88  25.5   80
    "d256": {"model.d_model": 256},  #             5.75  24.5   28
    "d1024": {"model.d_model": 1024},  #           4.66  26.0  168
    "ff1024": {"model.d_ff": 1024},  #             5.12  25.4   53
    "ff4096": {"model.d_ff": 4096},  #             4.75  26.2   90
    # D: regularisation
    "dropout0.0": {"model.dropout_rate": 0.0},  #  5.77  24.6
    "dropout0.2": {"model.dropout_rate": 0.2},  #  4.95  25.5
    "smoothing0.0": {"training.label_smoothing": 0.0},  # 4.67  25.3
    "smoothing0.2": {"training.label_smoothing": 0.2},  # 5.47  25.7
    # E: learned positions
    "learned": {"model.positions": "learned"},  #  4.92  25.7
    "big": {  #                                    4.33  26.4  213
        "model.d_model": 1024,
        "model.d_ff": 4096,
        "model.num_heads": 16,
        "model.dropout_rate": 0.3,
        "training.num_train_steps": 300_000,
    },
}


def get_config(row: str = "base") -> Config:
    if row not in ROWS:
        raise ValueError(f"The rows of Table 3 are {', '.join(ROWS)}, not '{row}'.")
    config = wmt14_en_de_base.get_config()
    config.data.test_split = "validation"
    config.decoding.average_checkpoints = 1
    for name, value in ROWS[row].items():
        group, field = name.split(".")
        setattr(getattr(config, group), field, value)
    return config
