"""Writes the search of a translation run as a program that needs neither this package nor Flax.

program.jaxexport   the search by `jax.export`: compiled where it is called, on a CPU, TPU or GPU
params.safetensors  its first argument
tokenizer.*, config.json, README.md  the vocabularies, the settings, and how to call it
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from etils.epath import PathLike
from flax.traverse_util import unflatten_dict
from jax import export

from transformer.checkpoint.export import save_vocabularies
from transformer.checkpoint.restore import Run, cast_matrices
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.files.storage import write_atomically
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.named_arrays import FILE, flat_parameters
from transformer.interop.writing import render
from transformer.optional_libraries import require
from transformer.registry import task_kind
from transformer.search.decoding import FREE, Limits
from transformer.search.options import SearchOptions
from transformer.search.programs import make_step_fn
from transformer.search.slots import search_to_end
from transformer.workdir import WorkDir

PLATFORMS = "cpu", "tpu", "cuda"


def export_program(restored: Run, folder: PathLike) -> str:
    """Writes the search that a run is configured for as a program; returns a sentence about it.

    Matrices are written in `model.dtype`, in which they are used. Raises ValueError for a run of
    another task, or if safetensors or flatbuffers is not installed.
    """
    for library in ("safetensors", "flatbuffers"):
        require(library)
    config, target, vocabulary = restored.config, WorkDir(folder), restored.tokenizers[-1]
    if task_kind(config.task) != "translation":
        raise ValueError(
            f"A program is the search of a translation, and {restored.workdir.path} holds a run of "
            f"{config.task}: export its parameters (safetensors) instead."
        )
    search = SearchOptions.from_config(config.decoding)
    target.path.mkdir(parents=True, exist_ok=True)
    params = flat_parameters(cast_matrices(restored.params, config))
    start = vocabulary.encode([""])[0][:-1]
    program = export_search(restored.model, search, params, start).serialize()
    write_atomically(target.path / "program.jaxexport", bytes(program))
    save_tensors(target.path / FILE, params)
    files = save_vocabularies(target, restored.tokenizers, restored.labels)
    readable = SentencePieceTokenizer.suffix, PieceListTokenizer.suffix
    readme = render(
        "jax_program.md.jinja",
        languages=f"{config.data.source_language}-{config.data.target_language}",
        checkpoint=restored.checkpoint,
        search=search,
        start=" ".join(vocabulary.pieces(start)),
        source=restored.tokenizers[0].special,
        target=vocabulary.special,
        files=files,
        has_text=all(file.endswith(readable) for file in files),
        has_lists=any(file.endswith(PieceListTokenizer.suffix) for file in files),
        longest=config.data.row_length,
        version=jax.__version__,
    )
    write_atomically(target.path / "README.md", readme)
    target.save_config(config)
    platforms = ", ".join(PLATFORMS)
    return f"the search of {restored.checkpoint} of {restored.workdir.path} for {platforms}"


def export_search(
    model: Any, search: SearchOptions, params: dict[str, Any], start: Sequence[int]
) -> export.Exported:
    """Returns the search as one program for every batch size, source length and platform.

    It returns the best translation of each sentence: ids [B, T] with T = S + max_extra_length, 0
    behind EOS, and its score. A row of length 0 holds no sentence, and no result.

    start: the ids that every translation begins with, as its language; they are not scored.
    """
    if model.config.attention == "fused":  # chooses its kernel by the devices of this process
        model = model.clone(config=replace(model.config, attention="scaled_dot_product"))
    method = search.method(model.special, len(start))
    extra = search.max_extra_length

    @jax.jit
    def translate(
        params: dict[str, Any], inputs: jax.Array, lengths: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        nested = unflatten_dict(params, sep="/")
        variables, (num_rows, source_length) = {"params": nested}, inputs.shape
        max_length = source_length + extra
        forced = jnp.full((num_rows, max_length), FREE)
        for position, token in enumerate(start):
            forced = jnp.where(jnp.arange(max_length) == position, token, forced)
        limits = Limits(jnp.where(lengths > 0, lengths + extra, 0), forced)
        encoded = model.apply(variables, inputs, lengths, method="encode_for_search")
        cache = model.apply(variables, num_rows, method.width, max_length, method="init_cache")
        found = search_to_end(method, make_step_fn(model, nested), limits, cache, encoded)
        return found.ids[:, 0], found.scores[:, 0]

    batch_size, length = export.symbolic_shape("b, s")
    shapes = {name: jax.ShapeDtypeStruct(a.shape, a.dtype) for name, a in params.items()}
    inputs = jax.ShapeDtypeStruct((batch_size, length), jnp.int32)
    lengths = jax.ShapeDtypeStruct((batch_size,), jnp.int32)
    return export.export(translate, platforms=PLATFORMS)(shapes, inputs, lengths)
