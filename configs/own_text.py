"""Translation learnt from your own text, in ten minutes unless you say otherwise.

Expect sentences that a reader recognises after ten minutes on 2 CPU cores, and BLEU that depends on
the text; docs/own_text.md has figures.

    python train.py --config=configs/own_text.py --workdir=runs/mine --config.data.corpus=FOLDER
    python eval.py --workdir=runs/mine

FOLDER holds train.en and train.de (any two languages), or train.tsv; also val.* or validation.*,
and test.*, or these are held out of the training text; each may end in .gz or .xz. Languages,
vocabulary, batch, model and schedule are chosen from the text, the devices and the time; the
start-up summary says each of them and why. Any of them can be set, and the time as well:

    --config.training.minutes=60
    --config.training.num_train_steps=5000 --config.model.d_model=256
"""

from transformer.config import Config


def get_config() -> Config:
    """Leaves everything to be chosen that can be."""
    config = Config()
    return config.with_values(
        {known.name: known.automatic for known in config.settings() if known.automatic is not None}
    )
