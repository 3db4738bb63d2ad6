"""Starts a run from another one: its parameters and, through the tasks, its tokenizers and classes.

Parameters mean something only with the network and the vocabulary that they were trained with, so
settings that contradict those of the other run are refused.
"""

import re
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike

from transformer.checkpoint.checkpoints import load_default
from transformer.checkpoint.train_state import Params
from transformer.config import Config, TokenizerConfig
from transformer.data.files import labels
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import load_tokenizers, train_tokenizer
from transformer.workdir import WorkDir

# Settings that say what a parameter is for, even where they leave its shape as it is.
SAME = ("model.d_model", "model.d_ff", "model.num_heads", "model.head_dim", "model.value_dim")
SAME += ("model.norm", "model.positions", "model.block", "model.norm_epsilon", "model.activation")
SAME += ("model.norm_type", "model.feed_forward", "model.projection_bias")
SAME += ("model.scale_embedding", "model.embedding_norm", "model.token_types")
SAME_TEXT = ("tokenizer.kind", "tokenizer.joiner")
SAME_TASK = ("model.embedding_sharing", "model.num_decoder_layers", "model.output_bias")
SAME_TASK += ("model.prediction_head", "model.pooling", "tokenizer.target_kind", "tokenizer.shared")
SAME_IMAGES = ("data.patch_size",)


def check_init_from(config: Config) -> None:
    """Checks that `config` asks for the network and vocabulary of the run `training.init_from`.

    Raises ValueError if it asks for others, or if there is no such run.
    """
    source = WorkDir(config.training.init_from)
    theirs = source.load_config()
    names = SAME + (SAME_IMAGES if config.task == theirs.task == "images" else ())
    names += SAME_TEXT if config.task != "images" else ()
    names += SAME_TASK if config.task == theirs.task else ()
    names += ("model.max_positions",) if config.model.is_bounded else ()
    here, there = config.values(), theirs.values()
    wanted = {name: there[name] for name in names if here[name] != there[name]}
    if config.task != "images":
        wanted |= _other_vocabulary(config.tokenizer, source.path)
    if wanted:
        differences = [f"{n} is {value!r} there, {here[n]!r} here" for n, value in wanted.items()]
        flags = [f"--config.{name}={value}" for name, value in wanted.items()]
        raise ValueError(
            f"training.init_from={source.path} needs the same network and vocabulary: "
            f"{'; '.join(differences)}. Set {' '.join(flags)}, or take all settings of that run: "
            f"--config=configs/fine_tune.py:{source.path}"
        )


def _other_vocabulary(config: TokenizerConfig, source: epath.Path) -> dict[str, str | int]:
    """Returns the settings that ask for another vocabulary than that in `source`, put right."""
    tokenizers = load_tokenizers(source)
    if config.model:
        given = train_tokenizer(config, [])  # which reads that file
        return {} if given.to_bytes() == tokenizers[0].to_bytes() else {"tokenizer.model": ""}
    sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    is_default = config.vocab_size == TokenizerConfig().vocab_size  # a size that nobody has chosen
    if config.kind != "sentencepiece" or is_default or config.vocab_size in sizes:
        return {}
    return {"tokenizer.vocab_size": sizes[0]}


def warm_start(params: Params, ours: WorkDir, init_from: PathLike) -> tuple[Params, str]:
    """Copies the parameters of the run `init_from` over those of the same name in `params`.

    The others keep their initial values: those that the other run lacks, and the outputs of a
    classifier for other classes. ours: the work directory of the run that starts. Returns
    (parameters, a sentence that says what was copied); raises ValueError if nothing was, or if an
    array has another shape there.
    """
    source = WorkDir(init_from)
    loaded = load_default(source)
    theirs = {_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(loaded.params)}
    if "encoder" in params and not any(name.startswith("encoder/") for name in theirs):
        # The only stack of a causal language model, which another mask makes an encoder.
        theirs = {re.sub("^decoder/", "encoder/", name): x for name, x in theirs.items()}
    if not _have_same_classes(ours, source):
        theirs = {name: x for name, x in theirs.items() if not name.startswith("classes/")}

    def choose(path: tuple[Any, ...], ours: jax.Array) -> jax.Array:
        found = theirs.get(_name(path), ours)
        if found.shape != ours.shape:
            raise ValueError(
                f"training.init_from={source.path} does not fit: {_name(path)} is {found.shape} "
                f"there, {ours.shape} here; take all settings of that run: "
                f"--config=configs/fine_tune.py:{source.path}"
            )
        return found if found is ours else jax.device_put(found.astype(ours.dtype), ours.sharding)

    names = {_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)}
    num_copied = len(names & theirs.keys())
    if not num_copied:
        raise ValueError(
            f"training.init_from={source.path} has no parameter of the same name: nothing to "
            f"start from."
        )
    return jax.tree_util.tree_map_with_path(choose, params), (
        f"warm start from {source.path}, {loaded.name}: {num_copied} of its {len(theirs)} arrays "
        f"are copied, {len(names) - num_copied} others begin fresh"
    )


def _name(path: tuple[Any, ...]) -> str:
    return "/".join(key.key for key in path)


def _have_same_classes(ours: WorkDir, source: WorkDir) -> bool:
    """Whether two runs, if they classify at all, number the same classes in the same way."""
    files = [workdir / labels.FILE for workdir in (ours, source)]
    if not all(file.is_file() for file in files):
        return True
    return Labels.load(ours.path).names == Labels.load(source.path).names
