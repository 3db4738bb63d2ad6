"""The vocabularies of a training text, which are learnt once and kept beside its prepared ids."""

import os
import tempfile
from itertools import islice

from etils import epath

from transformer import storage
from transformer.config import Config
from transformer.console import say
from transformer.data.pair_blocks import Pairs
from transformer.data.prepared.cache import make_private, say_if_changed
from transformer.data.tags import Tags
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import (
    has_tokenizers,
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)
from transformer.data.training_text import TrainingText
from transformer.reading import PassingError

MOST_PAIRS = 2_000_000  # that a vocabulary is learnt from


def vocabularies(
    config: Config, text: TrainingText, folder: epath.Path
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of a new run: those kept in `folder`, or learnt now.

    Raises ValueError if the text allows no such vocabulary, or they cannot be read or written.
    """
    if has_tokenizers(folder):
        try:
            return load_tokenizers(folder)
        except PassingError:
            raise
        except ValueError as error:
            raise ValueError(f"{error} Without {folder} the vocabulary is learnt again.") from None
    say_if_changed(folder)
    tokenizers = train_tokenizers(config.tokenizer, sample_pairs(text), Tags(config.data).all)
    try:
        _keep(folder, tokenizers)
    except OSError as error:
        raise ValueError(
            f"The vocabulary cannot be written to {folder} ({error.strerror}). Name another folder "
            f"with --config.data.cache."
        ) from None
    return tokenizers


def _keep(folder: epath.Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    """Writes the tokenizers so that both are there or none; others may write the same ones now."""
    make_private(folder.parent)
    if storage.is_remote(folder):
        save_tokenizers(folder, *tokenizers)
        return
    with tempfile.TemporaryDirectory(prefix="making-", dir=folder.parent) as making:
        new = epath.Path(making) / folder.name
        new.mkdir(mode=0o700)
        save_tokenizers(new, *tokenizers)
        try:
            os.rename(new, folder)
        except OSError:
            if not folder.exists():  # if it does, another process was sooner
                raise


def sample_pairs(text: TrainingText, most: int = MOST_PAIRS) -> Pairs:
    """Returns all pairs, or of more than `most` every 2nd, 4th, 8th …, so that as many suffice.

    They are from all of the text, as corpora stand one after another.
    """
    sample: Pairs = []
    stride, num_seen = 1, 0
    for kept in text.kept():
        sample += islice(kept.pairs, -num_seen % stride, None, stride)
        num_seen += len(kept.pairs)
        while len(sample) > most:
            sample, stride = sample[::2], 2 * stride
    if stride > 1:
        say(f"the vocabulary is learnt from {len(sample):,} of {num_seen:,} pairs")
    return sample
