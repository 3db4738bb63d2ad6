"""GPT-2 (Radford et al. 2019) from scratch, in its sizes: gpt2.py:small, :medium, :large, :xl.

Pre-norm, learned positions, GELU by its tanh approximation, biases, unscaled embeddings, weights
from N(0, 0.02²) with residual projections divided by √(2N), a byte-level BPE vocabulary of 50,257:
124, 355, 774 and 1,558 million parameters. The schedule, which the paper does not give, is that of
nanoGPT's reproduction (github.com/karpathy/nanoGPT): 300 billion tokens in batches of half a
million, 4 days on 8 A100 for the small one, 2.85 nats. Not run here. OpenAI's weights are imported
with transformer-import instead.

Data: any text as data/openwebtext/train.txt.gz. The vocabulary is learnt from it.

    python train.py --config=configs/gpt2.py:small --dry_run --topology=v5litepod-16
    python train.py --config=configs/gpt2.py:small --workdir=runs/gpt2
    python eval.py --workdir=runs/gpt2
"""

from transformer.config import Config

SIZES = {  # num_layers, d_model, num_heads
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
}


def get_config(size: str = "small") -> Config:
    if size not in SIZES:
        raise ValueError(f"The sizes of GPT-2 are {', '.join(SIZES)}, not '{size}'.")
    config = Config(task="language_model")
    config.model.num_layers, config.model.d_model, config.model.num_heads = SIZES[size]
    config.model.d_ff = 4 * config.model.d_model
    config.model.norm, config.model.norm_epsilon = "pre", 1e-5
    config.model.activation = "gelu_tanh"
    config.model.positions, config.model.max_positions = "learned", 1024
    config.model.projection_bias, config.model.scale_embedding = True, False
    config.model.initializer = "gpt2"
    config.model.dropout_rate = 0.0  # 0.1 in the published settings, for fewer tokens per weight
    config.model.dtype = "bfloat16"

    config.data.corpus = "data/openwebtext/train.txt.gz"
    config.data.train_split = "all[:99%]"
    config.data.validation_split = config.data.test_split = "all[99%:]"
    config.data.row_length = 1024
    config.tokenizer.kind, config.tokenizer.vocab_size = "byte_level", 50_257

    config.optimizer.warmup_steps = 2000
    config.optimizer.peak_learning_rate = 6e-4
    config.optimizer.beta2, config.optimizer.epsilon = 0.95, 1e-8
    config.optimizer.decay_steps = 600_000
    config.optimizer.weight_decay = 0.1
    config.optimizer.clip_norm = 1.0

    config.training.num_train_steps = 600_000
    config.training.batch_tokens = 480 * 1024
    config.training.accumulate_steps = 8
    config.training.label_smoothing = 0.0
    config.training.eval_every = config.training.checkpoint_every = 2000
    return config
