"""A masked language model of English for one CPU core, from which configs/english_tuned.py starts.

A million parameters, 4,000 steps of 3,072 tokens (4.5 epochs of 213,000 sentences), about 35
minutes of one core. A quarter of the tokens is hidden, where BERT hides 15%: so small a model is
short of steps, and each teaches more. Reached: 3.28 nats per masked token of held-out sentences.

Data: data/english, made of Tatoeba's, Multi30k's and other English, with the training sentences of
SST-2 and of TREC (but those that configs/trec.py scores):

    python tools/make_pretraining_text.py --output=data/english data/tatoeba_ende/train.en.gz \\
        data/multi30k/train.en.gz data/small_enja/train.en.gz data/onmt_ende10k/train.en.gz \\
        data/newstest/newstest2013.en.gz data/sst2/train.tsv.gz data/trec/train.tsv.gz
    python train.py --config=configs/english_masked_lm.py --workdir=runs/english
    python eval.py --workdir=runs/english
"""

from configs import masked_lm
from transformer.config import Config


def get_config() -> Config:
    config = masked_lm.get_config()
    config.data.corpus = "data/english"
    config.data.mask_rate = 0.25
    config.tokenizer.vocab_size = 5000
    config.model.d_ff, config.model.activation = 512, "gelu"
    config.optimizer.warmup_steps = 400
    config.optimizer.decay_steps = config.training.num_train_steps = 4000
    config.training.eval_every = config.training.checkpoint_every = 500
    config.training.keep_checkpoints = 1
    return config
