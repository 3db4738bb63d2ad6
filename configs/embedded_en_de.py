"""The default run: a small post-norm Transformer on the embedded English-German corpus.

As in the paper except for the size, and the peak learning rate and warm-up of a short run.
About 3 minutes on 2 CPU cores; expect BLEU above 95, which only compares with other runs on this
corpus (see transformer/embedded/README.md).

    python train.py
    python eval.py
"""

from transformer.config import Config


def get_config() -> Config:
    config = Config()
    config.model.d_model, config.model.d_ff = 128, 512
    config.model.num_heads, config.model.num_layers = 4, 2
    config.tokenizer.vocab_size = 2000

    config.data.row_length = 96
    config.data.drop_identical = False  # some names are the same in both languages

    config.optimizer.warmup_steps = 200
    config.optimizer.peak_learning_rate = 0.004

    config.training.num_train_steps = 600
    config.training.batch_tokens = 3072
    config.training.accumulate_steps = 4  # micro-batches fit a CPU's caches: a quarter less time
    config.training.log_every = 20
    config.training.eval_every = 150
    config.training.checkpoint_every = 75
    config.data.max_validation_sentences = 250
    return config
