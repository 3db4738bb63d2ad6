"""A small Vision Transformer (Dosovitskiy et al. 2021) on CIFAR-10, from scratch.

Patches of 4 × 4 pixels, a class token, pre-norm, GELU, learned positions; images are mirrored and
moved by up to 4 pixels (He et al. 2016), drawn anew in each batch. 2.7 million parameters, 200
epochs in batches of 256 images. The score is accuracy; it has not been run here, for want of the
dataset and of an accelerator.

Data: python -m transformer.data.tfds cifar10 (needs pip install -e '.[tf]' once).

    python train.py --config=configs/cifar10.py --workdir=runs/cifar10
    python eval.py --workdir=runs/cifar10
"""

from transformer.config import Config


def get_config() -> Config:
    config = Config(task="images")
    config.model.d_model, config.model.d_ff = 192, 768
    config.model.num_heads, config.model.num_layers = 3, 6
    config.model.norm, config.model.activation, config.model.pooling = "pre", "gelu", "first"
    config.model.projection_bias = True
    config.model.positions, config.model.max_positions = "learned", 65

    config.data.corpus = "tfds:cifar10"
    config.data.train_split, config.data.validation_split = "train[:95%]", "train[95%:]"
    config.data.patch_size = 4
    config.data.flip_images, config.data.crop_padding = True, 4

    config.optimizer.warmup_steps = 1000
    config.optimizer.peak_learning_rate = 0.001
    config.optimizer.beta2 = 0.999
    config.optimizer.decay_steps = 37_200
    config.optimizer.weight_decay = 0.05
    config.optimizer.clip_norm = 1.0
    config.optimizer.ema_decay = 0.999

    config.training.num_train_steps = 37_200  # 200 epochs
    config.training.batch_tokens = 256 * 64
    config.training.eval_every = config.training.checkpoint_every = 1860
    return config
