"""Fine-tunes low-rank adapters (Hu et al. 2021) of a run: --config=configs/lora.py:WORKDIR.

As configs/fine_tune.py, but the parameters of the run WORKDIR stay as they are. To every matrix of
attention and feed-forward a product of two thin ones is added; these alone are trained and saved.
WORKDIR must stay where it is; transformer-export makes one model of both. Reached on
2,000 captions: BLEU 12.94, where the general model has 9.31 (docs/fine_tuning.md).

    python train.py --config=configs/lora.py:runs/general --workdir=runs/adapter \\
        --config.data.corpus=path/to/domain
    python eval.py --workdir=runs/adapter
"""

from configs import fine_tune
from transformer.config import Config


def get_config(workdir: str = "") -> Config:
    config = fine_tune.get_config(workdir)
    config.training.lora_rank = 8
    config.optimizer.peak_learning_rate *= 5
    return config
