"""What writers of translation models have in common: what they cannot hold, and vocabularies."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from etils import epath

from transformer.config import Config, DecodingConfig
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer, Tokenizer
from transformer.files.storage import PathLike, write_atomically
from transformer.model.relative_positions import acts_in_attention
from transformer.registry import POSITION_ENCODINGS, task_kind

HELD: dict[str, Sequence[Any]] = {  # by all other systems
    "model.block": ("transformer",),
    "model.feed_forward": ("plain",),
    "model.norm_type": ("layer_norm",),
    "model.attention": ("scaled_dot_product", "fused"),
}


def check_holds(
    format_name: str,
    config: Config,
    *,
    task: str = "translation",
    needed: Mapping[str, Any] = {},
    reasons: Sequence[str] = (),
) -> None:
    """Raises ValueError, naming each, for settings of a run that a format cannot hold.

    task: the kind of the format's models. needed: the only value of further settings, by name.
    reasons: what else it cannot hold.
    """
    model, values = config.model, config.values()
    possible = HELD | {name: [value] for name, value in needed.items()}
    possible["task"] = [config.task] if task_kind(config.task) == task else []
    if model.positions not in POSITION_ENCODINGS.built_in or acts_in_attention(model):
        possible["model.positions"] = []
    refused = [f"{name}={values[name]}" for name in possible if values[name] not in possible[name]]
    if model.widths_of_head != (model.d_model // model.num_heads,) * 2:
        refused.append(f"heads of {model.widths_of_head}, not d_model / num_heads")
    if refused := [*refused, *reasons]:
        raise ValueError(
            f"{format_name} cannot hold {', '.join(refused)}; use another format, as safetensors."
        )


def write_files(folder: PathLike, contents: Mapping[str, str | bytes | Mapping[str, Any]]) -> None:
    """Writes files of a folder by their names: text, bytes, or settings as JSON."""
    epath.Path(folder).mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if isinstance(content, Mapping):
            content = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_atomically(epath.Path(folder) / name, content)


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Returns the piece of every id; raises ValueError if two ids have the same one."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    if len({*pieces}) < len(pieces):
        double = Counter(pieces).most_common(1)[0][0]
        raise ValueError(
            f"The vocabulary has {double!r} as a control token and as a piece of text, and other "
            f"systems know tokens by their names: use the format program or safetensors."
        )
    return pieces


def sentencepiece_files(tokenizers: Sequence[Tokenizer]) -> dict[str, bytes]:
    """Returns source.spm and target.spm, the SentencePiece models; none for other tokenizers."""
    return {
        name: tokenizer.model
        for name, tokenizer in zip(("source.spm", "target.spm"), tokenizers, strict=True)
        if isinstance(tokenizer, SentencePieceTokenizer | PieceListTokenizer)
    }


def first_pieces(tokenizer: Tokenizer) -> list[str]:
    """Returns the pieces that every text begins with: a language, where there are several."""
    return tokenizer.pieces(tokenizer.encode([""])[0][:-1])


def render(template: str, **values: Any) -> str:
    """Returns a README.md: the template "ctranslate2.md.jinja" with `values` filled in."""
    templates = jinja2.Environment(  # of plain text, which is no web page
        loader=jinja2.PackageLoader("transformer.interop", "readmes"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template(template).render(values)


def is_gnmt(decoding: DecodingConfig) -> bool:
    """Whether a run's search has the length penalty ((5+n)/6)^α, which other engines lack."""
    return decoding.length_penalty == "gnmt" and decoding.alpha > 0 and decoding.beam_size > 1


def search_notes(decoding: DecodingConfig, engine: str) -> list[str]:
    """Returns what an engine does otherwise than a run's search, a sentence each."""
    notes = [
        f"In {engine} a translation has at most a fixed number of tokens, in the run at most "
        f"{decoding.max_extra_length} more than its source."
    ]
    if decoding.beam_size > 1:
        notes.append(
            f"The run's beam search is exact; that of {engine} can end earlier with a worse "
            f"translation, as the run's with early_stopping=True."
        )
    if is_gnmt(decoding):
        notes.append(
            f"The run divides log-probabilities by ((5+n)/6)^{decoding.alpha:g}, {engine} by a "
            f"power of n: README.md chooses by the run's rule among the translations that it finds."
        )
    return notes
