"""Starts a run from another one: its parameters and, through the tasks, its tokenizers and classes.

Parameters mean something only with the network and the vocabulary that they were trained with, so
settings that contradict those of the other run are refused.
"""

import re
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike
from flax.traverse_util import flatten_dict, unflatten_dict

from transformer.checkpoint.checkpoints import load_checkpoint
from transformer.checkpoint.train_state import Params
from transformer.config import Config, TokenizerConfig
from transformer.data.files.labels import FILE, Labels
from transformer.data.tokenizers.files import load_tokenizers, train_tokenizer
from transformer.workdir import WorkDir

# Settings that say what a parameter is for, even where they leave its shape as it is.
NETWORK = """d_model d_ff num_heads head_dim value_dim norm positions block norm_epsilon activation
    norm_type feed_forward projection_bias scale_embedding embedding_norm token_types"""
SAME_TASK = "embedding_sharing num_decoder_layers output_bias prediction_head pooling"


def check_init_from(config: Config) -> None:
    """Checks that `config` asks for the network and vocabulary of the run `training.init_from`.

    Raises ValueError if it asks for others, or if there is no such run.
    """
    source = WorkDir(config.training.init_from)
    former = source.load_config()
    is_same_task, has_text = config.task == former.task, config.task != "images"
    shared = f"{NETWORK} {SAME_TASK}" if is_same_task else NETWORK
    names = [f"model.{name}" for name in shared.split()]
    names += ["tokenizer.kind", "tokenizer.joiner"] if has_text else []
    names += ["tokenizer.target_kind", "tokenizer.shared"] if is_same_task else []
    names += ["data.patch_size"] if is_same_task and not has_text else []
    names += ["model.max_positions"] if config.model.is_bounded else []
    here, there = config.values(), former.values()
    wanted = {name: there[name] for name in names if here[name] != there[name]}
    if has_text:
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


def warm_start(params: Params, workdir: WorkDir, init_from: PathLike) -> tuple[Params, str]:
    """Copies the parameters of the run `init_from` over those of the same name in `params`.

    The others keep their initial values: those that the other run lacks, and the outputs of a
    classifier for other classes. workdir: that of the run that starts. Returns (parameters, a
    sentence that says what was copied); raises ValueError if nothing was, or if an array has
    another shape there.
    """
    source = WorkDir(init_from)
    loaded = load_checkpoint(source)
    former: dict[str, Any] = flatten_dict(loaded.params, sep="/")
    if "encoder" in params and not any(name.startswith("encoder/") for name in former):
        # The only stack of a causal language model, which another mask makes an encoder.
        former = {re.sub("^decoder/", "encoder/", name): x for name, x in former.items()}
    if (workdir / FILE).is_file() and (source / FILE).is_file():
        here, there = (Labels.load(run.path).names for run in (workdir, source))
        if here != there:
            former = {name: x for name, x in former.items() if not name.startswith("classes/")}
    new: dict[str, Any] = flatten_dict(params, sep="/")
    copied = sorted(new.keys() & former.keys())
    for name in copied:
        if former[name].shape != new[name].shape:
            raise ValueError(
                f"training.init_from={source.path} does not fit: {name} is {former[name].shape} "
                f"there, {new[name].shape} here; take all settings of that run: "
                f"--config=configs/fine_tune.py:{source.path}"
            )
        new[name] = jax.device_put(former[name].astype(new[name].dtype), new[name].sharding)
    if not copied:
        raise ValueError(
            f"training.init_from={source.path} has no parameter of the same name: nothing to "
            f"start from."
        )
    return unflatten_dict(new, sep="/"), (
        f"warm start from {source.path}, {loaded.name}: {len(copied)} of its {len(former)} arrays "
        f"are copied, {len(new) - len(copied)} others begin fresh"
    )
