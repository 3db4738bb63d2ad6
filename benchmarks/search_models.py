"""Makes the workloads of searches: a model with random weights, or a trained run and a file."""

import dataclasses
import gzip
import os
import pathlib

import numpy as np
from search_workload import SearchWorkload, write_folder
from workload import BASE, BIG

SHAPES = {"base": BASE, "big": BIG}
SIZES = {  # of random workloads: (sentences, vocabulary)
    "cpu": (32, 8_000),
    "gpu": (512, 37_000),
}
DTYPES = {"cpu": "float32", "gpu": "bfloat16"}
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
EOS = SPECIAL.index("</s>")
NEVER = -20.0  # the mean logit of the end of sentence in a model with random weights
SOURCE_LENGTH, NUM_PIECES = 32, 50  # of random workloads, EOS counted
LONGEST = 1024  # places in the table of positions


def make_random(shape, folder, device, num_sentences=None, **options):
    """A `SearchWorkload` with random weights, and its searches {name: options}.

    All translations have `NUM_PIECES` pieces.
    """
    sizes = SIZES[device]
    num_sentences, vocab_size = num_sentences or sizes[0], sizes[1]
    model = {"norm": "post", "embedding_sharing": "all", "positions": "sinusoidal"}
    model |= SHAPES[shape] | {"head_dim": 0, "value_dim": 0}
    weights = random_weights(model, vocab_size)
    vocabulary, sentences = random_sentences(num_sentences, vocab_size)
    write_folder(folder, model, weights, vocabulary, sentences)
    options |= {"dtype": DTYPES[device], "batch_size": num_sentences}
    searches = {
        name: {"beam_size": width, "alpha": 0.0, "num_pieces": NUM_PIECES}
        for name, width in (("beam 4", 4), ("greedy", 1))
    }
    return SearchWorkload(shape, str(folder), device=device, **options), searches


def make_corpus(workdir, path, folder, device, **options):
    """A `SearchWorkload` of a run and a text file, and its searches {name: options}."""
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
    weights["positions"] = sinusoids(LONGEST, config.model.d_model)
    vocabulary = tokenizer.pieces(range(tokenizer.vocab_size))
    write_folder(folder, model, weights, vocabulary, read_lines(path), tokenizer.to_bytes())
    options |= {"workdir": str(pathlib.Path(workdir).resolve()), "dtype": DTYPES[device]}
    width = config.decoding.beam_size
    searches = {
        f"beam {width}, n^{alpha:g}": {"beam_size": width, "alpha": alpha}
        for alpha in dict.fromkeys((0.0, config.decoding.alpha))
    }
    if config.decoding.alpha:  # with none the exact end is as early
        early = {"beam_size": width, "alpha": config.decoding.alpha, "early_stopping": True}
        searches[f"beam {width}, n^{config.decoding.alpha:g}, early stopping"] = early
    name = f"{pathlib.Path(workdir).name}, {pathlib.Path(path).name}"
    workload = SearchWorkload(name, str(folder), device=device, **options)
    return workload, searches | {"greedy": {"beam_size": 1, "alpha": 0.0}}


def read_lines(path):
    """The lines of a text file or of one that gzip made."""
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if str(path).endswith(".gz") else data
    return data.decode().removesuffix("\n").split("\n")


def sinusoids(length, d_model):
    """The paper's position vectors [T, D], float32: sine and cosine side by side."""
    frequencies = 10_000.0 ** -(np.arange(0, d_model, 2) / d_model)
    angles = np.arange(length)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, d_model).astype("f4")


def random_sentences(number, vocab_size):
    """(vocabulary, sentences of `SOURCE_LENGTH` pieces with EOS)"""
    vocabulary = [*SPECIAL, *(f"w{i}" for i in range(len(SPECIAL), vocab_size))]
    rng = np.random.default_rng(1)
    ids = rng.integers(len(SPECIAL), vocab_size, (number, SOURCE_LENGTH - 1))
    return vocabulary, [" ".join(vocabulary[i] for i in row) for row in ids]


def random_weights(model, vocab_size):
    """Weights of the paper's model, which never end a sentence of their own accord."""
    rng, width, inner = np.random.default_rng(0), model["d_model"], model["d_ff"]
    weights = {"positions": sinusoids(LONGEST, width)}

    def fill(name, *shape, mean=0.0, std):
        weights[name] = rng.normal(mean, std, shape).astype("f4")

    def fill_norm(name):
        fill(f"{name}/LayerNorm_0/scale", width, mean=1.0, std=0.1)
        fill(f"{name}/LayerNorm_0/bias", width, std=0.3)

    fill("shared_embedding/table", vocab_size, width, std=width**-0.5)
    for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        for block in (f"{stack}/layer_{i}" for i in range(model["num_layers"])):
            for kind in attentions:
                for projection in ("query", "key", "value", "output"):
                    name = f"{block}/{kind}_attention/{projection}/kernel"
                    fill(name, width, width, std=width**-0.5)
                fill_norm(f"{block}/{kind}_residual")
            for name, sides in (("inner", (width, inner)), ("outer", (inner, width))):
                fill(f"{block}/feed_forward/{name}/kernel", *sides, std=(2 / sum(sides)) ** 0.5)
                fill(f"{block}/feed_forward/{name}/bias", sides[1], std=0.1)
            fill_norm(f"{block}/feed_forward_residual")
    bias = weights[f"{block}/feed_forward_residual/LayerNorm_0/bias"]
    weights["shared_embedding/table"][EOS] = NEVER * bias / (bias @ bias)
    return weights
