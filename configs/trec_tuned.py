"""TREC, fine-tuned for two epochs from the encoder and the vocabulary of configs/masked_lm.py.

Reached with seeds 0, 1, 2: accuracy 75.1, 74.4, 75.6. With the same vocabulary and steps, but from
fresh parameters (--config.training.init_from=): 69.4, 70.2, 71.8.

Data and split as in configs/trec.py; the outputs for the classes begin fresh.

    python train.py --config=configs/masked_lm.py --workdir=runs/masked
    python train.py --config=configs/trec_tuned.py --workdir=runs/trec_tuned
    python eval.py --workdir=runs/trec_tuned
"""

from configs import masked_lm, trec
from transformer.config import Config


def get_config() -> Config:
    config = trec.get_config()
    config.model = masked_lm.get_config().model
    config.model.dropout_rate = 0.3
    config.tokenizer.kind = "sentencepiece"

    config.training.init_from = "runs/masked"
    config.optimizer.warmup_steps = 20
    config.optimizer.decay_steps = config.training.num_train_steps = 150
    config.training.eval_every = config.training.checkpoint_every = 30
    return config
