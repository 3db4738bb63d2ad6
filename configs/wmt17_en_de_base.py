"""The paper's base model on WMT17 en-de: more training text (5.9M pairs) than the paper had.

Recipe, size and hours as in configs/wmt14_en_de_base.py (8 P100: 12 hours); validated on
newstest2016, tested on newstest2017. Not run to its end, and the paper has no score for it: expect
what other base models have on newstest2017 in cased sacreBLEU 13a, in the upper twenties.

Data: TFDS_DATA_DIR with the prepared dataset; once, with a network:

    pip install -e '.[tf]'
    python -m transformer.data.tfds wmt17_translate/de-en

    python train.py --config=configs/wmt17_en_de_base.py --workdir=runs/wmt17_base
    python eval.py --workdir=runs/wmt17_base
"""

from configs import wmt14_en_de_base


def get_config():
    config = wmt14_en_de_base.get_config()
    config.data.corpus = "tfds:wmt17_translate/de-en"
    return config
