"""What a native Marian model is made of, as a configuration of ours, or why there is none."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from transformer.config import Config
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary

# The values that have a counterpart here. A model that does not name a setting was written by a
# version without it, and is as the first value says.
SUPPORTED: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "input-types": ([], ["sequence", "sequence"]),
    "lemma-dim-emb": (0,),
    "right-left": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("d", "", "n", "nd"),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "ulr": (False,),
}
NORM_SETTINGS = tuple(f"transformer-{place}process" for place in ("pre", "post"))
NORM_SETTINGS += ("transformer-postprocess-top",)
NORMS: dict[tuple[str, ...], str] = {
    ("", "an", ""): "post",
    ("n", "a", "n"): "pre",
}  # without d, dropout
SIZES = {
    "dim-emb": "model.d_model",
    "transformer-dim-ffn": "model.d_ff",
    "transformer-heads": "model.num_heads",
    "enc-depth": "model.num_layers",
    "dec-depth": "model.num_decoder_layers",
}
EXACT_GELU = (1, 12, 1)  # the first version whose gelu is not x·sigmoid(1.702x)


def check_settings(path: PathLike, settings: Mapping[str, Any], decoder: Mapping[str, Any]) -> None:
    """Raises ValueError, naming all of them, if settings of a model have no counterpart here.

    path: the model's file; settings: of its network; decoder: the content of decoder.yml.
    """
    refused = [*_unsupported(settings)]
    if decoder.get("word-penalty"):
        refused.append(f"word-penalty={decoder['word-penalty']}")
    if refused:
        raise ValueError(
            f"{path} has {', '.join(refused)}, to which there is no counterpart here; what can be "
            f"read are encoder-decoder Transformers as OPUS-MT trains them."
        )


def _unsupported(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yields each setting that has no counterpart, as "name=value"."""
    for name, supported in SUPPORTED.items():
        value = settings.get(name, supported[0])
        if value not in supported:
            yield f"{name}={value}"
    decoder_width = settings.get("transformer-decoder-dim-ffn", 0)
    if decoder_width not in (0, settings.get("transformer-dim-ffn")):
        yield f"transformer-decoder-dim-ffn={decoder_width}"
    if _operations(settings) not in NORMS:
        yield from (f"{name}={settings.get(name, '')!r}" for name in NORM_SETTINGS)
    for name in SIZES:
        if not isinstance(settings.get(name), int) or settings[name] < 1:
            yield f"{name}={settings.get(name)}"


def _operations(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what is done before and after each sub-layer and on top of all of them.

    "dan" (dropout, add, normalise) is "an" here: a model drops nothing when it translates.
    """
    return tuple(str(settings.get(name, "")).replace("d", "") for name in NORM_SETTINGS)


def _sharing(settings: Mapping[str, Any]) -> str:
    if settings.get("tied-embeddings-all"):
        return "all"
    if not settings.get("tied-embeddings"):
        return "none"
    return "all" if settings.get("tied-embeddings-src") else "target"


def config_of(
    settings: Mapping[str, Any], decoder: Mapping[str, Any], vocabulary: Vocabulary
) -> Config:
    """Returns the configuration of a model that `check_settings` accepts.

    What decoder.yml leaves out is as Marian does it: a beam of 12, scores not divided by the
    length. Raises ValueError where the settings do not fit each other or the vocabularies.
    """
    source_pieces, target_pieces = (t.pieces(range(t.vocab_size)) for t in vocabulary.tokenizers)
    shared = source_pieces == target_pieces  # however text is split into them
    if _sharing(settings) == "all" and not shared:
        raise ValueError("tied-embeddings-all needs one vocabulary, but decoder.yml names two.")
    activation = settings.get("transformer-ffn-activation", "swish")
    if activation == "gelu" and _version(settings) < EXACT_GELU:
        activation = "gelu_sigmoid"
    values = {ours: settings[theirs] for theirs, ours in SIZES.items()} | {
        "model.norm": NORMS[_operations(settings)],
        "model.activation": activation,
        "model.positions": "sinusoidal_tensor2tensor",
        "model.projection_bias": True,
        "model.output_bias": True,
        "model.embedding_norm": "n" in settings.get("transformer-postprocess-emb", ""),
        "model.embedding_sharing": _sharing(settings),
        "tokenizer.kind": "imported",
        "tokenizer.shared": shared,
        "decoding.beam_size": decoder.get("beam-size", 12),
        "decoding.length_penalty": "power",
        "decoding.alpha": float(decoder.get("normalize", 0)),
    }
    for side, language in zip(("source", "target"), vocabulary.languages, strict=True):
        if language:
            values[f"data.{side}_language"] = language
    return Config().with_values(values).validate()


def _version(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns (1, 12, 42) of "v1.12.42 b7be0e964 2025-05-24"."""
    numbers = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(settings.get("version")))
    return tuple(map(int, numbers.groups())) if numbers else (0, 0, 0)
