"""README.md of a folder of CTranslate2: the lines of Python that translate with it."""

from transformer.data.list_tokenizers import CharacterTokenizer, PieceListTokenizer, PiecesTokenizer
from transformer.data.tokenizer import SentencePieceTokenizer, Tokenizer
from transformer.interop.imported_model import ImportedModel
from transformer.interop.written_model import (
    first_pieces,
    is_gnmt,
    longest_translation,
    search_notes,
    sentencepiece_files,
)
from transformer.special_tokens import EOS

TEXT = """\
# A translation model for CTranslate2

```python
{program}
```

It needs `pip install {packages}` and nothing else. The arguments are the settings of the run.

{notes}
"""
GNMT = """\
    lengths = [len(pieces) for pieces in result.hypotheses]
    scores = [s * (6 * n / (5 + n)) ** {alpha:g} for s, n in zip(result.scores, lengths)]
    best = result.hypotheses[scores.index(max(scores))]"""
PROCESSOR = "sentencepiece.SentencePieceProcessor"


def readme(model: ImportedModel) -> str:
    """Returns README.md."""
    decoding, (source, target) = model.config.decoding, model.tokenizers
    files = sentencepiece_files(model.tokenizers)
    languages, has_gnmt = first_pieces(target), is_gnmt(decoding)
    options = [
        "pieces",
        *([f"target_prefix=[{languages}] * len(pieces)"] if languages else []),
        f"beam_size={decoding.beam_size}",
        f"length_penalty={decoding.alpha:g}",
        *([f"num_hypotheses={decoding.beam_size}", "return_scores=True"] if has_gnmt else []),
        "min_decoding_length=0",
        f"max_decoding_length={longest_translation(model.config)}",
        "return_end_token=True",  # else the length penalty would not count it
    ]
    program = [
        "import ctranslate2",
        *(["import sentencepiece"] if files else []),
        "",
        'translator = ctranslate2.Translator(".", device="cpu")  # this folder; or "cuda"',
        *(f"{name[:6]} = {PROCESSOR}(model_file={name!r})" for name in files),
        'texts = ["One sentence.", "Another one."]',
        f"pieces = [{_split(source)} for text in texts]",
        "results = translator.translate_batch(",
        *(f"    {option}," for option in options),
        ")",
        "for result in results:",
        "    best = result.hypotheses[0]",
        *(GNMT.format(alpha=decoding.alpha).splitlines() if has_gnmt else []),
        f"    found = [p for p in best if p != {target.pieces([EOS])[0]!r}]",
        f"    print({_join(target)})",
    ]
    return TEXT.format(
        program="\n".join(program),
        packages="ctranslate2 sentencepiece" if files else "ctranslate2",
        notes="\n".join(f"- {note}" for note in search_notes(decoding, "CTranslate2")),
    )


def _split(tokenizer: Tokenizer) -> str:
    """Returns the Python expression of a source's pieces."""
    match tokenizer:
        case PieceListTokenizer() if tokenizer.first:
            return f"{tokenizer.first} + source.encode(text, out_type=str)"
        case PieceListTokenizer() | SentencePieceTokenizer():
            return "source.encode(text, out_type=str)"
        case CharacterTokenizer():
            return "list(text)"
    return "text.split()"


def _join(tokenizer: Tokenizer) -> str:
    """Returns the Python expression of the text of a translation."""
    match tokenizer:
        case PieceListTokenizer():  # the model leaves "▁" in pieces that it does not know
            start = f"[{len(tokenizer.first)}:]" if tokenizer.first else ""
            return f'target.decode(found{start}).replace("▁", " ").strip()'
        case SentencePieceTokenizer():
            return "target.decode(found)"
        case PiecesTokenizer() if tokenizer.joiner:
            return f'" ".join([*found, ""]).replace("{tokenizer.joiner} ", "").strip()'
        case CharacterTokenizer():
            return '"".join(found)'
    return '" ".join(found)'
