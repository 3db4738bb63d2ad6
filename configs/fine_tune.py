"""Fine-tunes a trained model on text of your own: --config=configs/fine_tune.py:WORKDIR.

Takes every setting of the run (or export) WORKDIR and changes those of training alone: a tenth of
its peak learning rate, few steps, and an early stop once the validation score gets no better. The
run starts from WORKDIR's parameters with its vocabulary, and is scored before the first step, so
that the log shows what the general model reaches on this text. docs/fine_tuning.md has figures.

    python train.py --config=configs/fine_tune.py:runs/general --workdir=runs/tuned \\
        --config.data.corpus=path/to/domain
    python eval.py --workdir=runs/tuned

Reached on 2,000 captions: BLEU 15.65, where the general model has 9.31. With general text mixed in
(--config.data.corpus=path/to/domain,path/to/general@0.02) 14.41, and nothing of the general text is
forgotten; validation and test text are those of the first corpus.
"""

from transformer.config import Config, DataConfig
from transformer.workdir import WorkDir


def get_config(workdir: str = "") -> Config:
    if not workdir:
        raise ValueError("name the run to start from behind a colon, as fine_tune.py:runs/general.")
    config = WorkDir(workdir).load_config()
    config.training.init_from, config.training.lora_rank = workdir, 0
    config.model.dtype = "float32"  # an export names bfloat16, which is slow to train with on CPUs

    splits = DataConfig()  # those of the general text may be parts of one split
    config.data.train_split = splits.train_split
    config.data.validation_split = splits.validation_split
    config.data.test_split = splits.test_split

    if config.task == "translation":
        config.data.held_out = "auto"  # what this text has no files for

    optimizer, training = config.optimizer, config.training
    peak = optimizer.peak_learning_rate
    if not peak:  # the paper's
        peak = (config.model.d_model * optimizer.warmup_steps) ** -0.5
    optimizer.peak_learning_rate = peak / 10
    optimizer.warmup_steps = 20
    optimizer.decay_steps = training.num_train_steps = 300
    training.minutes = 0.0  # the steps count
    training.batch_tokens, training.accumulate_steps = min(1024, training.batch_tokens), 1
    training.log_every = 10
    training.eval_every = training.checkpoint_every = 50
    training.patience = 3
    config.decoding.average_checkpoints = 1  # the best one
    return config
