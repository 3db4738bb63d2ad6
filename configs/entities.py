"""Named entities in the embedded corpus's sentences: 6 types, a label for each word, from scratch.

Reached: entity F1 99.92, accuracy 99.97 after 400 steps, about a minute of one CPU core. To compare
with: giving each word its most frequent label reaches F1 73.83, accuracy 94.51.

Data: made by a script from sentence frames whose slots are known, so the figures say that the model
learns and nothing about people's text.

    pip install '.[corpus]'
    python tools/make_labelled_corpora.py --output=data
    python train.py --config=configs/entities.py --workdir=runs/entities
    python eval.py --workdir=runs/entities
    echo 'Maria flew to Peru on Friday .' | python eval.py --workdir=runs/entities --input=-
"""

from configs import trec
from transformer.config import Config


def get_config() -> Config:
    config = trec.get_config()
    config.task = "token_classification"
    config.data.corpus = "data/entities"
    config.data.train_split, config.data.validation_split = "train", "validation"
    config.data.test_split = "test"
    config.tokenizer.kind, config.tokenizer.vocab_size = "sentencepiece", 2000
    config.model.d_model, config.model.d_ff, config.model.num_heads = 128, 512, 4
    config.model.dropout_rate = 0.1
    config.optimizer.decay_steps = config.training.num_train_steps = 400
    config.training.label_smoothing = 0.0
    config.training.batch_tokens = 2048
    return config
