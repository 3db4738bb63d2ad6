"""The vocabularies of BERT's and GPT-2's Hugging Face folders: read, and written."""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

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


class Vocabulary(NamedTuple):
    """A kind of vocabularies.

    control: settings that name its control tokens; tokens: those where nothing names them. older:
    the files of before tokenizer.json; convert: returns that of them, with some settings.
    """

    control: Sequence[str]
    tokens: Sequence[str]
    older: Sequence[str]
    convert: Callable[..., str]
    settings: Sequence[str]


def read_tokenizer(folder: PathLike, model_type: str) -> HuggingFaceTokenizer:
    """Reads tokenizer.json or older files; raises ValueError if they are not there and whole."""
    folder, kind, name = epath.Path(folder), KINDS[model_type], "tokenizer_config.json"
    settings = read_settings(folder, name) if (folder / name).is_file() else {}
    is_new = (folder / "tokenizer.json").is_file()
    try:
        files = ["tokenizer.json"] if is_new else kind.older
        texts = [(folder / file).read_bytes().decode() for file in files]
    except OSError:
        raise ValueError(f"{folder} holds neither tokenizer.json nor {kind.older[0]}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{folder}: its tokenizer is not UTF-8; restore the file.") from None
    given = {name: settings[name] for name in kind.settings if settings.get(name) is not None}
    text = texts[0] if is_new else kind.convert(*texts, **given)
    tokens = [settings.get(key) or kind.tokens[i] for i, key in enumerate(kind.control)]
    names = [token["content"] if isinstance(token, dict) else token for token in tokens]
    return with_control_tokens(text, names)


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
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> str:
    """Returns the tokenizer.json of BERT's vocab.txt, which holds a token per line.

    The others are settings of tokenizer_config.json; strip_accents=None does as `do_lower_case`.
    """
    tokens = vocabulary.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if missing := [name for name in BERT if name not in tokens]:
        raise ValueError(f"vocab.txt lacks {', '.join(missing)}: it is not that of a BERT model.")
    tokenizer = require("tokenizers").BertWordPieceTokenizer(
        {token: i for i, token in enumerate(tokens)},
        lowercase=do_lower_case,
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


KINDS = {
    "bert": Vocabulary(
        CONTROL, BERT, ("vocab.txt",), bert_json,
        settings=("do_lower_case", "strip_accents", "tokenize_chinese_chars"),
    ),
    "gpt2": Vocabulary(
        ("eos_token",) * 5, (END,) * 5, ("vocab.json", "merges.txt"), gpt2_json,
        settings=("add_prefix_space",),
    ),
}  # fmt: skip


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
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **control}
    about |= {"model_max_length": longest, "model_input_names": inputs}
    write_files(folder, {"tokenizer.json": tokenizer.text, "tokenizer_config.json": about})
    return []
