"""Makes workloads of searches: with a model of random weights, or with a trained run and a file."""

import dataclasses
import gzip
import os
import pathlib
from typing import Any

import numpy as np
from search_workload import SearchWorkload, write_folder
from workload import BASE, BIG, OPUS, SMALL, sinusoids

from transformer.special_tokens import NUM_SPECIAL, OWN_IDS, SPECIAL_NAMES

SHAPES = {"base": BASE, "opus": OPUS, "big": BIG, "small": SMALL}
VOCABULARIES = {"opus": 58_101, "small": 64}  # the first of the published opus-mt-en-de
SIZES = {  # (sentences, vocabulary) of random workloads
    "cpu": (32, 8_000),
    "gpu": (512, 37_000),
    "tpu": (512, 37_000),
}
DTYPES = {"cpu": "float32", "gpu": "bfloat16", "tpu": "bfloat16"}
EOS_LOGIT = -20.0  # mean logit of EOS with random weights, so that no sentence ends early
SOURCE_LENGTH, NUM_TOKENS = 32, 50  # per sentence of random workloads, with EOS
MAX_POSITIONS = 1024  # rows of the table of positions


def make_random(
    shape: str,
    folder: str,
    device: str,
    num_sentences: int | None = None,
    **options: Any,
) -> tuple[SearchWorkload, dict[str, dict[str, Any]]]:
    """Makes a `SearchWorkload` with random weights, and its searches {name: options}.

    All sources have `SOURCE_LENGTH` tokens and all translations `NUM_TOKENS`.
    """
    batch_size, vocab_size = SIZES[device]
    vocab_size = VOCABULARIES.get(shape, vocab_size)
    num_sentences = num_sentences or batch_size
    model = {"norm": "post", "embedding_sharing": "all", "positions": "sinusoidal"}
    model |= {"activation": "relu", "head_dim": 0, "value_dim": 0} | SHAPES[shape]
    vocabulary, sentences = random_sentences(num_sentences, vocab_size)
    write_folder(folder, model, random_weights(model, vocab_size), vocabulary, sentences)
    options |= {"dtype": DTYPES[device], "batch_size": num_sentences}
    searches = {
        name: {"beam_size": width, "alpha": 0.0, "num_tokens": NUM_TOKENS}
        for name, width in (("beam 4", 4), ("greedy", 1))
    }
    return SearchWorkload(shape, str(folder), device=device, **options), searches


def make_corpus(
    workdir: str, path: str, folder: str, device: str, **options: Any
) -> tuple[SearchWorkload, dict[str, dict[str, Any]]]:
    """Makes a `SearchWorkload` of a run and a text file, and its searches {name: options}."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from flax.traverse_util import flatten_dict

    from transformer.inference.translator import Translator

    translator = Translator.from_checkpoint(workdir)
    tokenizer, config = translator.tokenizer, translator.config
    if tokenizer is not translator.source_tokenizer or tokenizer.suffix != ".model":
        raise SystemExit("The run must have one SentencePiece vocabulary for both sides.")
    weights = flatten_dict(translator.params, sep="/")
    weights = {name: np.asarray(leaf) for name, leaf in weights.items()}
    model = dataclasses.asdict(config.model)
    weights["positions"] = sinusoids(MAX_POSITIONS, config.model.d_model)
    vocabulary = tokenizer.pieces(range(tokenizer.vocab_size))
    write_folder(folder, model, weights, vocabulary, read_lines(path), tokenizer.to_bytes())
    options |= {"workdir": str(pathlib.Path(workdir).resolve()), "dtype": DTYPES[device]}
    width = config.decoding.beam_size
    searches = {
        f"beam {width}, n^{alpha:g}": {"beam_size": width, "alpha": alpha}
        for alpha in dict.fromkeys((0.0, config.decoding.alpha))
    }
    if config.decoding.alpha:  # at 0, early stopping is exact
        early = {"beam_size": width, "alpha": config.decoding.alpha, "early_stopping": True}
        searches[f"beam {width}, n^{config.decoding.alpha:g}, early stopping"] = early
    name = f"{pathlib.Path(workdir).name}, {pathlib.Path(path).name}"
    workload = SearchWorkload(name, str(folder), device=device, **options)
    return workload, searches | {"greedy": {"beam_size": 1, "alpha": 0.0}}


def read_lines(path: str) -> list[str]:
    """Reads the lines of a text file, which may be compressed by gzip (.gz)."""
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if str(path).endswith(".gz") else data
    return data.decode().removesuffix("\n").split("\n")


def random_sentences(number: int, vocab_size: int) -> tuple[list[str], list[str]]:
    """Returns the vocabulary, and sentences of `SOURCE_LENGTH` tokens, of which EOS is one."""
    vocabulary = [*SPECIAL_NAMES, *(f"w{i}" for i in range(NUM_SPECIAL, vocab_size))]
    rng = np.random.default_rng(1)
    ids = [rng.integers(NUM_SPECIAL, vocab_size, SOURCE_LENGTH - 1) for _ in range(number)]
    return vocabulary, [" ".join(vocabulary[i] for i in row) for row in ids]


def random_weights(model: dict[str, Any], vocab_size: int) -> dict[str, np.ndarray]:
    """Returns weights of the model, with which EOS is never the best token."""
    rng, width, inner = np.random.default_rng(0), model["d_model"], model["d_ff"]
    weights = {"positions": sinusoids(MAX_POSITIONS, width)}

    def fill(name: str, *shape: int, mean: float = 0.0, std: float) -> None:
        weights[name] = rng.normal(mean, std, shape).astype("f4")

    def fill_norm(name: str) -> None:
        fill(f"{name}/LayerNorm_0/scale", width, mean=1.0, std=0.1)
        fill(f"{name}/LayerNorm_0/bias", width, std=0.3)

    fill("shared_embedding/table", vocab_size, width, std=width**-0.5)
    if model.get("output_bias"):
        fill("shared_embedding/bias", vocab_size, std=0.1)
    for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        for block in (f"{stack}/layer_{i}" for i in range(model["num_layers"])):
            for kind in attentions:
                for projection in ("query", "key", "value", "output"):
                    name = f"{block}/{kind}_attention/{projection}/kernel"
                    fill(name, width, width, std=width**-0.5)
                    if model.get("projection_bias"):
                        fill(name.replace("/kernel", "/bias"), width, std=0.1)
                fill_norm(f"{block}/{kind}_residual")
            for name, sides in (("inner", (width, inner)), ("outer", (inner, width))):
                fill(f"{block}/feed_forward/{name}/kernel", *sides, std=(2 / sum(sides)) ** 0.5)
                fill(f"{block}/feed_forward/{name}/bias", sides[1], std=0.1)
            fill_norm(f"{block}/feed_forward_residual")
    bias = weights[f"{block}/feed_forward_residual/LayerNorm_0/bias"]
    weights["shared_embedding/table"][OWN_IDS.eos] = EOS_LOGIT * bias / (bias @ bias)
    return weights
