"""The paper's big model on WMT14 en-de (Vaswani et al., 2017, Table 2): 28.4 BLEU, newstest2014.

The paper took 3.5 days on 8 P100 (1.0 s per step); this configuration has not been run to its end.
The 28.4 are BLEU on tokens with compounds split; expect about 1.5 less in cased sacreBLEU 13a.
214 million parameters. Data and differences as in configs/wmt14_en_de_base.py.

    python train.py --config=configs/wmt14_en_de_big.py --workdir=runs/wmt14_big
    python eval.py --workdir=runs/wmt14_big
"""

from configs import wmt14_en_de_base
from transformer.config import Config


def get_config() -> Config:
    config = wmt14_en_de_base.get_config()
    config.model.d_model, config.model.d_ff = 1024, 4096
    config.model.num_heads = 16
    config.model.dropout_rate = 0.3

    config.training.num_train_steps = 300_000
    config.training.checkpoint_every = 600  # 10 minutes in the paper
    config.training.eval_every = 6000
    config.training.keep_checkpoints = 20
    config.decoding.average_checkpoints = 20
    return config
