"""Compares an imported translation model with the library that it comes from."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from etils.epath import PathLike

from transformer.config import Config
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import load_tokenizers
from transformer.inference.translator import Translator
from transformer.special_tokens import NUM_SPECIAL

NUM_TEXTS, EXTRA = 4, 12  # EXTRA: tokens that a translation may have more than its source
TOLERANCE = 1e-3  # of the logarithm of a token's probability
LIBRARIES = ("torch", "transformers")


class Results(NamedTuple):
    """What one side makes of some texts and their translations."""

    log_probs: list[np.ndarray]  # of each token of each target
    translations: list[str]  # greedy ones


def check_import(folder: PathLike, workdir: PathLike, config: Config) -> str:
    """Returns a sentence on how the run in `workdir` compares with the model in `folder`.

    The texts are of random pieces, as those of any language would be foreign to some models.
    """
    if not (Path(folder) / "config.json").is_file():
        return "not checked: that would need Marian itself."
    if missing := [name for name in LIBRARIES if not find_spec(name)]:
        return f"not checked: that needs {' and '.join(missing)}; pip install torch transformers"
    tokenizers = load_tokenizers(workdir)
    sources, targets = (_random_texts(tokenizer) for tokenizer in tokenizers)
    try:
        theirs = _theirs(folder, config, sources, targets)
    except Exception as error:  # whatever another library raises
        reason = " ".join(str(error).split())[:200]
        return f"not checked: transformers cannot open {folder} ({reason})"
    translator = Translator.from_checkpoint(workdir, dtype="float32")
    log_probs, mask, _ = translator.log_probs(sources, targets)
    rows = [row[kept] for row, kept in zip(log_probs, mask, strict=True)]
    greedy = translator.translate(sources, beam_size=1, alpha=0.0, max_extra_length=EXTRA)
    return describe(Results(rows, [found.text for found in greedy]), theirs)


def _random_texts(tokenizer: Tokenizer) -> list[str]:
    rng = np.random.default_rng(0)
    rows = [rng.integers(NUM_SPECIAL, tokenizer.vocab_size, 3 + n) for n in range(NUM_TEXTS)]
    return [tokenizer.decode(row) or "a" for row in rows]


def _theirs(
    folder: PathLike, config: Config, sources: Sequence[str], targets: Sequence[str]
) -> Results:
    """Returns what the library transformers makes of the texts."""
    import torch  # pyrefly: ignore[missing-import]
    import transformers  # pyrefly: ignore[missing-import]

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    languages = {"src_lang": config.data.source_language, "tgt_lang": config.data.target_language}
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
        folder, local_files_only=True, **languages
    )
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    ).eval()
    silenced = [
        words[0] for words in model.generation_config.bad_words_ids or () if len(words) == 1
    ]
    rows, translations = [], []
    for source, target in zip(sources, targets, strict=True):
        inputs = tokenizer([source], return_tensors="pt")
        labels = tokenizer(text_target=[target], return_tensors="pt").input_ids
        with torch.no_grad():
            logits = model(**inputs, labels=labels).logits[0]
            logits[:, silenced] = -torch.inf
            rows.append(logits.log_softmax(-1)[range(len(logits)), labels[0]].numpy())
            translations.append(_greedy(model, tokenizer, inputs, labels[0, 0].item()))
    return Results(rows, translations)


def _greedy(model: Any, tokenizer: Any, inputs: Any, first: int) -> str:
    """Returns their greedy translation; first: the language token, if the model has several."""
    options = {"forced_bos_token_id": first} if hasattr(tokenizer, "tgt_lang") else {}
    found = model.generate(
        **inputs,
        num_beams=1,
        do_sample=False,
        max_length=None,
        max_new_tokens=inputs.input_ids.shape[1] + EXTRA,
        **options,
    )
    start = 2 if options else 1  # the token that they start with, and the language
    return tokenizer.decode(found[0, start:], skip_special_tokens=True)


def describe(ours: Results, theirs: Results) -> str:
    """Returns a sentence on how near the results of both sides are."""
    pairs = list(zip(ours.log_probs, theirs.log_probs, strict=True))
    split_alike = [(a, b) for a, b in pairs if len(a) == len(b)]
    difference = max((np.abs(a - b).max() for a, b in split_alike), default=np.inf)
    num_equal = sum(a == b for a, b in zip(ours.translations, theirs.translations, strict=True))
    said = (
        f"checked beside transformers with {len(pairs)} random texts: log-probabilities of tokens "
        f"within {difference:.1g}, {num_equal} of {len(pairs)} greedy translations equal"
    )
    if len(split_alike) < len(pairs):
        said += f", {len(pairs) - len(split_alike)} texts split otherwise"
    if difference > TOLERANCE:
        said += "; this is more than rounding: do not use this run before you know why"
    return said
