"""The paper's base model on WMT14 en-de (Vaswani et al., 2017, Table 2): 27.3 BLEU, newstest2014.

The paper took 12 hours on 8 P100 (0.4 s per step); this configuration has not been run to its end.
The 27.3 are BLEU on tokens with compounds split. The same outputs score about 1.5 less in cased
sacreBLEU 13a, which eval.py reports, so expect about 25.8. 63.1 million parameters.

Differences from the paper: the text is TFDS's wmt14_translate (4.5M pairs, validated on
newstest2013), the vocabulary SentencePiece's BPE, batches are packed rows of 256 tokens (longer
sentences are left out), and the computation is in bfloat16, with parameters, softmax and loss in
float32 (docs/paper.md); --config.model.dtype=float32 is the paper's.

Data: the dataset in TFDS_DATA_DIR, prepared once, with a network:

    python -m transformer.data.tfds wmt14_translate/de-en

    python train.py --config=configs/wmt14_en_de_base.py --workdir=runs/wmt14_base
    python eval.py --workdir=runs/wmt14_base

If the batch does not fit one device: --config.training.accumulate_steps=8 (the same batch). What it
needs on a TPU slice: train.py with --dry_run --topology=v5e:4x4.
"""

from transformer.config import Config


def get_config() -> Config:
    config = Config()  # its defaults are this model
    config.model.dtype = "bfloat16"
    config.data.corpus = "tfds:wmt14_translate/de-en"
    config.training.num_train_steps = 100_000
    config.training.checkpoint_every = 1500  # 10 minutes in the paper
    config.training.eval_every = 4500
    config.training.keep_checkpoints = 5
    config.decoding.average_checkpoints = 5
    return config
