"""The library transformers, beside which models are checked where it is installed."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from etils.epath import PathLike

from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.special_tokens import NUM_SPECIAL

LIBRARIES = ("torch", "transformers")
TOLERANCE = 1e-3  # of the logarithm of a probability
NUM_TEXTS = 8
LOCAL = {"local_files_only": True, "trust_remote_code": False}  # no code of a folder is run

# (torch, transformers) -> (the largest difference of a log-probability, what has been compared)
Compare = Callable[[Any, Any], tuple[float, str]]


def check_beside(folder: PathLike, compare: Compare) -> str:
    """Returns a sentence on how a run compares with the model in a folder of Hugging Face."""
    if missing := [name for name in LIBRARIES if not find_spec(name)]:
        return f"not checked: that needs {' and '.join(missing)}"
    import torch  # pyrefly: ignore[missing-import]
    import transformers  # pyrefly: ignore[missing-import]

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        difference, what = compare(torch, transformers)
    except Exception as error:  # whatever another library raises
        reason = " ".join(str(error).split())[:200]
        return f"not checked: transformers cannot use {folder} ({reason})"
    said = f"checked beside transformers: {what} within {difference:.1g}"
    if difference > TOLERANCE:
        said += "; this is more than rounding: do not use the result before you know why"
    return said


def random_texts(tokenizer: Tokenizer) -> list[str]:
    """Returns texts of random pieces: those of one language would be foreign to other models."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(NUM_SPECIAL, tokenizer.vocab_size, 2 + n) for n in range(NUM_TEXTS)]
    texts = (tokenizer.decode(row).replace("\t", " ") for row in rows)
    return [text if text.strip() else "a" for text in texts]
