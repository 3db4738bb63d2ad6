"""The paper's base model on WMT17 en-de: more training text (5.9M pairs) than the paper had.

Recipe, size and hours are those of configs/wmt14_en_de_base.py (8 P100: 12 hours); validated on
newstest2016, tested on newstest2017. It has not been run to its end, and the paper has no score for
it: expect the upper twenties in cased sacreBLEU 13a, as other base models reach on newstest2017.

Data: the dataset in TFDS_DATA_DIR, prepared once, with a network:

    python -m transformer.data.tfds wmt17_translate/de-en

    python train.py --config=configs/wmt17_en_de_base.py --workdir=runs/wmt17_base
    python eval.py --workdir=runs/wmt17_base
"""

from configs import wmt14_en_de_base
from transformer.config import Config


def get_config() -> Config:
    config = wmt14_en_de_base.get_config()
    config.data.corpus = "tfds:wmt17_translate/de-en"
    return config
