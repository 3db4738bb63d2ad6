"""The vocabularies of BERT's and GPT-2's Hugging Face folders: read, and written."""

import json
from collections.abc import Sequence
from typing import Any

from etils import epath

from transformer.data.tokenizers.files import Tokenizer
from transformer.data.tokenizers.huggingface import (
    END,
    HuggingFaceTokenizer,
    byte_level,
    parse_tokenizer,
)
from transformer.files.storage import PathLike
from transformer.interop.settings import read_settings
from transformer.interop.writing import write_files
from transformer.optional_libraries import require
from transformer.special_tokens import SpecialIds

# The control tokens, in the order of `SpecialIds`: settings that name them, and BERT's.
CONTROL = "pad_token", "cls_token", "sep_token", "unk_token", "mask_token"
BERT = "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"


def read_bert_tokenizer(folder: PathLike) -> HuggingFaceTokenizer:
    """Reads tokenizer.json or vocab.txt; raises ValueError if neither is there and whole."""
    text, settings = _read(folder, "vocab.txt")
    names = [_content(settings.get(key)) or usual for key, usual in zip(CONTROL, BERT, strict=True)]
    if isinstance(text, list):
        text = bert_json(
            *text,
            lowercase=settings.get("do_lower_case", True),
            strip_accents=settings.get("strip_accents"),
            tokenize_chinese_chars=settings.get("tokenize_chinese_chars", True),
        )
    return with_control_tokens(text, names)


def read_gpt2_tokenizer(folder: PathLike) -> HuggingFaceTokenizer:
    """Reads tokenizer.json or two older files; raises ValueError as `read_bert_tokenizer`."""
    text, settings = _read(folder, "vocab.json", "merges.txt")
    names = [_content(settings.get("eos_token")) or END] * len(CONTROL)
    if isinstance(text, list):
        text = gpt2_json(*text, add_prefix_space=settings.get("add_prefix_space", False))
    return with_control_tokens(text, names)


def _read(folder: PathLike, *older: str) -> tuple[str | list[str], dict[str, Any]]:
    """Returns (the text of tokenizer.json or those of older files, the settings beside it)."""
    folder, name = epath.Path(folder), "tokenizer_config.json"
    settings = read_settings(folder, name) if (folder / name).is_file() else {}
    is_new = (folder / "tokenizer.json").is_file()
    try:
        files = ["tokenizer.json"] if is_new else older
        texts = [(folder / file).read_bytes().decode() for file in files]
    except OSError:
        raise ValueError(f"{folder} holds neither tokenizer.json nor {older[0]}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{folder}: its tokenizer is not UTF-8; restore the file.") from None
    return texts[0] if is_new else texts, settings


def _content(token: Any) -> str | None:
    """Returns a token that a setting names, as a string or as {"content": …}."""
    return token.get("content") if isinstance(token, dict) else token


def with_control_tokens(text: str, names: Sequence[str]) -> HuggingFaceTokenizer:
    """Returns the tokenizer of a tokenizer.json; names: of its control tokens, as in `CONTROL`.

    Other added tokens are found in texts, [UNK] too. Raises ValueError for a file without these
    tokens, or with another model than WordPiece or BPE.
    """
    tokenizer = parse_tokenizer(text)
    content = json.loads(tokenizer.to_str())  # files of old versions do not name their types
    if content["model"]["type"] not in ("WordPiece", "BPE"):
        raise ValueError(
            f"A tokenizer.json must hold a WordPiece or BPE vocabulary, not "
            f"{content['model']['type']}: import a model of BERT's or GPT-2's kind."
        )
    ids = tokenizer.get_vocab(with_added_tokens=True)
    if missing := [name for name in dict.fromkeys(names) if name not in ids]:
        raise ValueError(
            f"The vocabulary lacks {', '.join(missing)}: name the control tokens of this model, as "
            f"its tokenizer_config.json does."
        )
    pad, bos, eos, _, mask = names
    for token in content["added_tokens"]:
        token["special"] = token["content"] in (pad, bos, eos, mask)
    content["padding"] = content["truncation"] = None  # batches are made elsewhere
    special = SpecialIds(*(ids[name] for name in names))
    return HuggingFaceTokenizer(json.dumps(content, ensure_ascii=False), special)


def bert_json(
    vocabulary: str,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> str:
    """Returns the tokenizer.json of BERT's vocab.txt, which holds a token per line.

    lowercase (do_lower_case there), strip_accents and tokenize_chinese_chars are settings of
    tokenizer_config.json; strip_accents=None does as `lowercase` says.
    """
    tokens = vocabulary.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if missing := [name for name in BERT if name not in tokens]:
        raise ValueError(f"vocab.txt lacks {', '.join(missing)}: it is not that of a BERT model.")
    tokenizer = require("tokenizers").BertWordPieceTokenizer(
        {token: i for i, token in enumerate(tokens)},
        lowercase=lowercase,
        strip_accents=strip_accents,
        handle_chinese_chars=tokenize_chinese_chars,
    )
    return tokenizer.to_str()


def gpt2_json(vocabulary: str, merges: str, *, add_prefix_space: bool = False) -> str:
    """Returns the tokenizer.json of GPT-2's vocab.json and merges.txt.

    add_prefix_space is a setting of tokenizer_config.json. Raises ValueError if a file is damaged.
    """
    lines = merges.replace("\r\n", "\n").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        model = require("tokenizers").models.BPE(json.loads(vocabulary), pairs)
    except Exception:  # the library raises no other class
        raise ValueError("vocab.json and merges.txt are not those of one GPT-2.") from None
    tokenizer = byte_level(model, add_prefix_space=add_prefix_space)
    if model.token_to_id(END) is not None:
        tokenizer.add_special_tokens([END])
    return tokenizer.to_str()


def write_tokenizer(folder: epath.Path, tokenizer: Tokenizer, longest: int) -> list[str]:
    """Writes the tokenizer of a run beside an exported model; returns what to know of it.

    longest: the number of tokens in a text.
    """
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        name = f"tokenizer{tokenizer.suffix}"
        write_files(folder, {name: tokenizer.to_bytes()})
        return [f"{name} is the tokenizer of this package: Hugging Face cannot read it."]
    control = dict(zip(CONTROL, tokenizer.pieces(tokenizer.special), strict=True))
    inputs = ["input_ids", "attention_mask"]
    if len(tokenizer.encode([""])[0]) == 1:  # no [CLS]: GPT-2's
        control = dict.fromkeys(("bos_token", "eos_token", "unk_token"), control["sep_token"])
    else:  # GPT-2 would add vectors of token types as well
        inputs.append("token_type_ids")
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **control, "model_max_length": longest}
    about["model_input_names"] = inputs
    write_files(folder, {"tokenizer.json": tokenizer.text, "tokenizer_config.json": about})
    return []
