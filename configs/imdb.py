"""Sentiment of film reviews: IMDb (Maas et al. 2011), 2 classes, from scratch.

An encoder of 2 layers, the mean over the positions, and a softmax. The accuracy is of the test
split; the last tenth of the training split chooses the checkpoint. Written without a network: its
data has been tried with made-up reviews, and there is no figure of it here.

Data: 25,000 + 25,000 reviews of the TFDS catalogue, which one command prepares, with a network; no
other step needs one. Reviews of more than 512 pieces are left out of the training and cut in the
test, and both are counted.

    python -m transformer.data.tfds imdb_reviews
    python train.py --config=configs/imdb.py --workdir=runs/imdb
    python eval.py --workdir=runs/imdb
"""

from configs import trec
from transformer.config import Config


def get_config() -> Config:
    config = trec.get_config()
    config.model.dropout_rate = 0.3
    config.data.corpus = "tfds:imdb_reviews"
    config.data.train_split, config.data.validation_split = "train[:90%]", "train[90%:]"
    config.data.test_split = "test"
    config.data.row_length = 512
    config.tokenizer.kind, config.tokenizer.vocab_size = "sentencepiece", 8000

    config.optimizer.weight_decay = 0.1
    config.optimizer.decay_steps = config.training.num_train_steps = 4000
    config.training.batch_tokens = 8192
    config.training.log_every = 50
    config.training.eval_every = config.training.checkpoint_every = 200
    return config
