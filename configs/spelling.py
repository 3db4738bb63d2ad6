"""Spelling correction, learnt from plain text: the misspelt sentence in, the sentence out.

Data: FOLDER/train.en, FOLDER/val.en and FOLDER/test.en (or .en.gz), one sentence per line; any text
of one language will do. The errors are made on the way (data.source_noise): letters exchanged, left
out, doubled or replaced, about one for twelve letters. With --config.data.source_noise=
remove_accents it learns to put accents back instead.

    python train.py --config=configs/spelling.py --workdir=runs/spelling --config.data.corpus=FOLDER
    echo 'A mna is ridng a hosre .' | python eval.py --workdir=runs/spelling --input=-

The score is the share of sentences with any error left. docs/results.md has figures.
"""

from transformer.config import Config


def get_config(language: str = "en") -> Config:
    config = Config()
    config.model.d_model, config.model.d_ff = 128, 512
    config.model.num_heads, config.model.num_layers = 4, 3
    config.model.norm = "pre"

    config.data.corpus = "data/multi30k"
    config.data.source_language = config.data.target_language = language
    config.data.source_noise = "misspell"
    config.data.drop_identical = False
    config.data.validation_split = "val"
    config.data.selection_metric = "line_error_rate"
    config.data.row_length = 256
    config.tokenizer.kind = "characters"

    config.optimizer.warmup_steps = 200
    config.optimizer.peak_learning_rate = 0.003
    config.optimizer.clip_norm = 1.0

    config.training.num_train_steps = 1500
    config.training.batch_tokens = 4096
    config.training.eval_every = 500
    config.training.label_smoothing = 0.0
    config.data.max_validation_sentences = 100

    config.decoding.length_penalty, config.decoding.alpha = "power", 1.0
    config.decoding.max_extra_length = 20
    return config
