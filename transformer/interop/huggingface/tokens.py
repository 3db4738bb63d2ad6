"""The vocabulary of BERT's and GPT-2's Hugging Face folders, with our order of ids."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from transformer.data.tokenizers.files import Tokenizer
from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from transformer.data.tokenizers.huggingface_json import BERT, GPT2, bert_json, gpt2_json, renumber
from transformer.files.storage import PathLike, write_atomically
from transformer.interop.portable_model import FlatParams
from transformer.interop.settings import read_settings
from transformer.interop.weights.folds import NEVER, reorder_rows
from transformer.special_tokens import EOS, NUM_SPECIAL

TOKENS = "tokens/table/table", "tokens/table/bias"  # what has a row per id
BERT_CONTROL = ("pad_token", "cls_token", "sep_token", "mask_token")  # settings that name them


def read_bert_tokenizer(folder: PathLike) -> tuple[HuggingFaceTokenizer, list[int]]:
    """Returns (tokenizer, order) as `renumber` does, of tokenizer.json or vocab.txt."""
    folder = epath.Path(folder)
    settings = _tokenizer_settings(folder)
    names = [_content(settings.get(key)) for key in BERT_CONTROL]
    control = [name or known for name, known in zip(names, BERT, strict=True)]
    if (folder / "tokenizer.json").is_file():
        return renumber(_read_text(folder, "tokenizer.json"), control)
    text = bert_json(
        _read_text(folder, "vocab.txt"),
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        tokenize_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    return renumber(text, control)


def read_gpt2_tokenizer(folder: PathLike) -> tuple[HuggingFaceTokenizer, list[int]]:
    """Returns (tokenizer, order) as `renumber` does, of tokenizer.json or two older files."""
    folder = epath.Path(folder)
    settings = _tokenizer_settings(folder)
    control = [*GPT2]
    control[EOS] = _content(settings.get("eos_token")) or GPT2[EOS]
    if (folder / "tokenizer.json").is_file():
        return renumber(_read_text(folder, "tokenizer.json"), control)
    files = [_read_text(folder, name) for name in ("vocab.json", "merges.txt")]
    text = gpt2_json(*files, add_prefix_space=settings.get("add_prefix_space", False))
    return renumber(text, control)


def _tokenizer_settings(folder: epath.Path) -> dict[str, Any]:
    name = "tokenizer_config.json"
    return read_settings(folder, name) if (folder / name).is_file() else {}


def _content(token: Any) -> str | None:
    """Returns a token that a setting names, as a string or as {"content": …}."""
    return token.get("content") if isinstance(token, dict) else token


def _read_text(folder: epath.Path, name: str) -> str:
    try:
        return (folder / name).read_bytes().decode()
    except OSError:
        raise ValueError(
            f"{folder} holds no tokenizer: neither tokenizer.json nor {name}."
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{folder / name} is not UTF-8; restore the file.") from None


def reorder_tokens(params: FlatParams, order: Sequence[int]) -> tuple[FlatParams, list[str]]:
    """Returns (the parameters with the rows of tokens in `order`, notes).

    An id that is new (-1) gets zeros and the bias NEVER. Raises ValueError if the table lacks a
    row.
    """
    num_rows = len(params[TOKENS[0]])
    if max(order) >= num_rows:
        raise ValueError(
            f"The tokenizer has {max(order) + 1} tokens, the model rows for {num_rows}: they are "
            f"not of one model."
        )
    num_left = num_rows - len(set(order) - {-1})
    notes = [f"{num_left} rows of the embedding stand for no token: left out."] if num_left else []
    new_rows = dict(zip(TOKENS, (0.0, NEVER), strict=True))
    return {
        name: reorder_rows(array, order, new_rows[name]) if name in new_rows else array
        for name, array in params.items()
    }, notes


def is_byte_level(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is GPT-2's: of its control ids only EOS stands for a token of theirs."""
    return isinstance(tokenizer, HuggingFaceTokenizer) and tokenizer.encode([""]) == [[EOS]]


def gpt2_order(vocab_size: int) -> list[int]:
    """Returns our id of each id of theirs, whose last one is the end: 4 5 6 2 of 7."""
    return [*range(NUM_SPECIAL, vocab_size), EOS]


def write_tokenizer(
    folder: epath.Path, tokenizer: Tokenizer, settings: Mapping[str, Any]
) -> list[str]:
    """Writes the tokenizer of a run beside an exported model; returns what was written.

    settings: of tokenizer_config.json besides the names of control tokens.
    """
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        name = f"tokenizer{tokenizer.suffix}"
        write_atomically(folder / name, tokenizer.to_bytes())
        return [f"{name} is the tokenizer of this package: Hugging Face cannot read it."]
    text, names = tokenizer.to_bytes().decode(), tokenizer.pieces(range(NUM_SPECIAL))
    if is_byte_level(tokenizer):
        text, end = _in_their_order(text, tokenizer.vocab_size), names[EOS]
        control = {"bos_token": end, "eos_token": end, "unk_token": end}
    else:
        control = dict(zip(BERT_CONTROL, names, strict=True))
        control["unk_token"] = json.loads(text)["model"].get("unk_token")
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **control, **settings}
    inputs = ["input_ids", "attention_mask"]  # GPT-2 would add vectors of token types as well
    about["model_input_names"] = inputs if is_byte_level(tokenizer) else [*inputs, "token_type_ids"]
    write_atomically(folder / "tokenizer.json", text)
    write_atomically(folder / "tokenizer_config.json", json.dumps(about, indent=2) + "\n")
    return []


def _in_their_order(text: str, vocab_size: int) -> str:
    """Returns a tokenizer.json with the ids of `gpt2_order`, without the tokens that we added."""
    content = json.loads(text)
    their_ids = {ours: theirs for theirs, ours in enumerate(gpt2_order(vocab_size))}
    vocabulary = content["model"]["vocab"].items()
    content["model"]["vocab"] = {token: their_ids[i] for token, i in vocabulary if i in their_ids}
    content["added_tokens"] = [
        token | {"id": their_ids[token["id"]]}
        for token in content["added_tokens"]
        if token["id"] in their_ids
    ]
    return json.dumps(content, ensure_ascii=False)
