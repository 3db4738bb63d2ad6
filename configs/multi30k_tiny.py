"""Transformer-Tiny on Multi30k en-de from raw text, with a vocabulary of its own.

The network and recipe of configs/multi30k_bpe10k.py (Wu et al., ACL 2021), but cased, untokenised
text, a SentencePiece vocabulary of 6,000 trained on it, and cased sacreBLEU 13a on test 2016. Its
score is not comparable with that paper's 41.02, and we know of no published one for this setting.
About 2.1 million parameters and 61 steps per epoch; a step takes 0.75 s on 2 idle CPU cores.

Reached here: 40.25 after the first 5,440 of 8,000 steps (134 minutes on 2 busy CPU cores).

Data: train, val and test (.en and .de, or .gz) of https://github.com/multi30k/dataset,
data/task1/raw with test_2016_flickr as test, in data/multi30k.

    python train.py --config=configs/multi30k_tiny.py --workdir=runs/m30k_tiny
    python eval.py --workdir=runs/m30k_tiny
"""

from configs import multi30k_bpe10k
from transformer.config import Config


def get_config() -> Config:
    config = multi30k_bpe10k.get_config()
    config.data.corpus = "data/multi30k"
    config.data.row_length = 128
    config.data.bleu_tokenize = "13a"
    config.tokenizer.kind = "sentencepiece"
    config.tokenizer.vocab_size = 6000

    config.training.accumulate_steps = 8
    config.training.checkpoint_every = 61  # an epoch
    config.training.eval_every = 305
    return config
