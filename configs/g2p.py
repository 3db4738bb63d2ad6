"""Spelling to pronunciation: SIGMORPHON 2021 task 1, medium (Ashby et al.), one language per run.

8,000 training words; characters in, phones out. The score is SIGMORPHON's word error rate, the
share of words with any error. The recipe of Wu, Cotterell & Hulden (EACL 2021), made smaller for
a CPU: theirs has 4+4 layers of 256/1024, dropout 0.3 and 20,000 updates of 400 words; this one
3+3 layers of 128/512, pre-norm, dropout 0.2 and 6,000 updates of about 130 words, at three times
the learning rate.

Data: LANG_train.tsv and LANG_dev.tsv (word, tab, phones separated by spaces) of data/medium in
https://github.com/sigmorphon/2021-task1, as data/g2p/LANG/train.tsv and data/g2p/LANG/val.tsv (or
.tsv.gz). The published figures are of val, so it is the test split here, too. It also chooses the
best checkpoint, but the score is of the mean of the last 10 checkpoints, which it does not choose.

Word error rate with beam 5, and that of the Transformer of github.com/juletx/writing-systems:

               hun         fre         arm_e       dut          mean
    here       2.2 ± 0.9   8.5 ± 1.9   5.8 ± 1.4   11.5 ± 2.0   7.0
    published  2.8         9.5         6.5         12.0         7.7

1.4 million parameters; 13 to 26 minutes per language on 2 busy CPU cores, about 8 on idle ones. The
French run was interrupted after 3,919 steps. The other languages have not been run.

    python train.py --config=configs/g2p.py:hun --workdir=runs/g2p_hun
    python eval.py --workdir=runs/g2p_hun
"""

from transformer.config import Config

LANGUAGES = ("arm_e", "bul", "dut", "fre", "geo", "hbs_latn", "hun", "jpn_hira", "kor", "vie_hanoi")


def get_config(language: str = "hun") -> Config:
    if language not in LANGUAGES:
        raise ValueError(
            f"The languages of SIGMORPHON 2021 (medium) are {', '.join(LANGUAGES)}, not "
            f"'{language}'."
        )
    config = Config()
    config.model.d_model, config.model.d_ff = 128, 512
    config.model.num_heads, config.model.num_layers = 4, 3
    config.model.dropout_rate = 0.2
    config.model.norm = "pre"
    config.model.embedding_sharing = "target"

    config.data.corpus = f"data/g2p/{language}"
    config.data.source_language, config.data.target_language = language, "ipa"
    config.data.validation_split = config.data.test_split = "val"
    config.data.selection_metric = "line_error_rate"
    config.data.bleu_tokenize = "none"
    config.data.row_length = 64
    config.data.drop_identical = False
    config.tokenizer.kind, config.tokenizer.target_kind = "characters", "pieces"
    config.tokenizer.joiner = ""  # every phone is a word
    config.tokenizer.shared = False

    config.optimizer.warmup_steps = 1000
    config.optimizer.peak_learning_rate = 0.003
    config.optimizer.clip_norm = 1.0

    config.training.num_train_steps = 6000
    config.training.batch_tokens = 1024
    config.training.eval_every = 1000
    config.training.checkpoint_every = 200
    config.training.keep_checkpoints = 10

    config.decoding.beam_size = 5
    config.decoding.length_penalty, config.decoding.alpha = "power", 1.0
    config.decoding.max_extra_length = 20
    config.decoding.average_checkpoints = 10
    config.decoding.batch_size = 128
    return config
