"""Makes the tokenizer of BERT or GPT-2 models: our control ids in a tokenizer.json."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer, parse_tokenizer
from transformer.optional_libraries import require
from transformer.special_tokens import EOS, NUM_SPECIAL, SPECIAL_NAMES

BERT = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")  # the tokens that get the control ids 0 to 3
GPT2 = (None, None, "<|endoftext|>", None)
NUM_BYTES = 256
UNKNOWN = "[UNK]"  # BERT's: an ordinary token, as its texts have it


def renumber(
    text: str, control: Sequence[str | None] = BERT
) -> tuple[HuggingFaceTokenizer, list[int]]:
    """Gives the tokens of a tokenizer.json the ids that this package reserves.

    control: the tokens of PAD, BOS, EOS and UNK; None adds one that no text becomes. The others
    keep their order. Returns (tokenizer, order): order[i] is the id there of our id i, -1 for an
    added token. With the tokens a [SEP] [PAD] b [CLS] [MASK] the order is 2 4 1 5 0 3. Raises
    ValueError for a file without such tokens, or with another model than WordPiece or BPE.
    """
    tokenizer = parse_tokenizer(text)
    content = json.loads(tokenizer.to_str())  # files of old versions do not name their types
    if content["model"]["type"] not in ("WordPiece", "BPE"):
        raise ValueError(
            f"A tokenizer.json must hold a WordPiece or BPE vocabulary, not "
            f"{content['model']['type']}: import a model of BERT's or GPT-2's kind."
        )
    theirs = tokenizer.get_vocab(with_added_tokens=True)
    if missing := [name for name in control if name is not None and name not in theirs]:
        raise ValueError(
            f"The vocabulary lacks {', '.join(missing)}: name the control tokens of this model, as "
            f"its tokenizer_config.json does."
        )
    names = [name or _new_name(SPECIAL_NAMES[i], theirs) for i, name in enumerate(control)]
    names += [name for name in sorted(theirs, key=theirs.__getitem__) if name not in names]
    ids = {name: i for i, name in enumerate(names)}
    content["model"]["vocab"] = ids
    content["added_tokens"] = _renumber_added(content["added_tokens"], ids)
    content["post_processor"] = _renumber_processor(content["post_processor"], ids)
    content["padding"] = content["truncation"] = None  # batches are made elsewhere
    renumbered = HuggingFaceTokenizer(json.dumps(content, ensure_ascii=False))
    return renumbered, [theirs.get(name, -1) for name in names]


def _new_name(name: str, taken: Mapping[str, int]) -> str:
    while name in taken:
        name = f"<{name}>"
    return name


def _renumber_added(tokens: list[dict[str, Any]], ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns tokens that are found in texts; the control tokens alone are special: they are not.

    All of them are in the model's vocabulary too, as the library would number them otherwise.
    """
    tokens = [token | {"id": ids[token["content"]]} for token in tokens]
    tokens = [token | {"special": token["id"] < NUM_SPECIAL} for token in tokens]
    return sorted(tokens, key=lambda token: token["id"])


def _renumber_processor(processor: Any, ids: Mapping[str, int]) -> Any:
    """Returns what puts control tokens around a text, with our ids."""
    match processor:
        case {"type": "Sequence", "processors": parts}:
            return processor | {"processors": [_renumber_processor(part, ids) for part in parts]}
        case {"type": "TemplateProcessing", "special_tokens": tokens}:
            new = {
                name: token | {"ids": [ids[each] for each in token["tokens"]]}
                for name, token in tokens.items()
            }
            return processor | {"special_tokens": new}
        case {"type": "BertProcessing" | "RobertaProcessing", "cls": (cls, _), "sep": (sep, _)}:
            return processor | {"cls": (cls, ids[cls]), "sep": (sep, ids[sep])}
    return processor


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
    library = require("tokenizers")
    tokens = vocabulary.replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {token: i for i, token in enumerate(tokens)}
    if missing := [name for name in (*BERT, UNKNOWN) if name not in ids]:
        raise ValueError(
            f"vocab.txt lacks {', '.join(missing)}: give that of a BERT model, a token per line."
        )
    tokenizer = library.Tokenizer(library.models.WordPiece(ids, unk_token=UNKNOWN))
    tokenizer.normalizer = library.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([*BERT, UNKNOWN])
    start, end = (BERT[i] for i in (EOS - 1, EOS))
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, ids[start]), (end, ids[end])]
    )
    return tokenizer.to_str()


def gpt2_json(vocabulary: str, merges: str, *, add_prefix_space: bool = False) -> str:
    """Returns the tokenizer.json of GPT-2's vocab.json and merges.txt.

    add_prefix_space is a setting of tokenizer_config.json. Raises ValueError if a file is damaged.
    """
    library = require("tokenizers")
    lines = merges.replace("\r\n", "\n").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        model = library.models.BPE(json.loads(vocabulary), pairs)
    except Exception:  # the library raises no other class
        raise ValueError(
            "vocab.json and merges.txt are not those of one GPT-2 vocabulary; restore the files."
        ) from None
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = library.decoders.ByteLevel()
    end = GPT2[EOS]
    if model.token_to_id(end) is not None:
        tokenizer.add_special_tokens([end])
    return tokenizer.to_str()


def train_byte_level(texts: Sequence[str], vocab_size: int) -> HuggingFaceTokenizer:
    """Learns a byte-level BPE vocabulary of at most `vocab_size` tokens from texts, as GPT-2's.

    Raises ValueError if the bytes alone are more, or if `tokenizers` is not installed.
    """
    fewest = NUM_BYTES + NUM_SPECIAL
    if vocab_size < fewest:
        raise ValueError(
            f"tokenizer.vocab_size ({vocab_size}) must be at least {fewest} with "
            f"tokenizer.kind=byte_level: every byte is a token."
        )
    library = require("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size - NUM_SPECIAL + 1,  # renumber adds the control tokens but EOS
        special_tokens=[GPT2[EOS]],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return renumber(tokenizer.to_str(), GPT2)[0]
