"""The paper's base model on WMT14 en-de (Vaswani et al., 2017, Table 2): 27.3 BLEU, newstest2014.

The paper took 12 hours on 8 P100 (0.4 s a step); this configuration has not been run to its end.
The 27.3 are BLEU on tokens with compounds split; the same outputs score about 1.5 less in cased
sacreBLEU 13a, which is what eval.py reports, so expect about 25.8. 63.1 million parameters.

Different from the paper: the text is TFDS's wmt14_translate (4.5M pairs, newstest2013 to validate),
the vocabulary SentencePiece's BPE, batches are packed rows of 256 pieces, the longest sentence, and
the computation is in bfloat16 (parameters, softmax and loss stay float32);
--config.model.dtype=float32 is the paper's.

Data: TFDS_DATA_DIR with the prepared dataset; once, with a network:

    pip install -e '.[tf]'
    python -m transformer.data.tfds wmt14_translate/de-en

    python train.py --config=configs/wmt14_en_de_base.py --workdir=runs/wmt14_base
    python eval.py --workdir=runs/wmt14_base

On one device that the batch does not fit: --config.training.accumulate_steps=8 (the same batch).
What it needs on a TPU slice: --dry_run --topology=v5e:4x4 (README, "Train on TPUs").
"""

from transformer.config import Config


def get_config():
    config = Config()  # its defaults are this model
    config.model.dtype = "bfloat16"
    config.data.corpus = "tfds:wmt14_translate/de-en"
    config.training.num_train_steps = 100_000
    config.training.checkpoint_every = 1500  # 10 minutes in the paper
    config.training.eval_every = 4500
    config.training.keep_checkpoints = 5
    config.decoding.average_checkpoints = 5
    return config
