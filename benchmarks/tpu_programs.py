"""The programs that `tpu_compile.py` gives to the TPU compiler, lowered for a slice, never run."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from flax_example import load_train, make_config, make_schedule, make_state, map_train_step
from flax_example import make_batch as make_flax_batch
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from workload import BASE, BIG, Workload

from transformer.checkpoint.restore import cast_matrices
from transformer.config import Config
from transformer.parallel.mapping import make_parallel
from transformer.registry import TASKS
from transformer.search.decoding import Limits
from transformer.search.options import SearchOptions
from transformer.search.programs import REPLICA, SearchPrograms, make_replicas
from transformer.search.slots import Sentences
from transformer.training.startup_summary import make_step_without_data

VOCAB_SIZE, ROWS, ROW_LENGTH = 32_000, 32, 256  # rows of a chip
SOURCE_LENGTH, LONGEST, NUM_COLUMNS = 32, 82, 64  # of a search: of a translation; of its cache
PROJECTED_BEFORE = ("encoder_attention", "key"), ("encoder_attention", "value")
Devices = Sequence[jax.Device]


class Program(NamedTuple):
    """What to compile: for all chips of a slice, or a search on one."""

    shape: dict[str, int]
    fsdp: int = 1
    is_flax: bool = False
    beam_size: int = 0  # of a search; 0: a training step
    num_sentences: int = 64  # of a search, at once


PROGRAMS = {
    "base": Program(BASE),
    "big": Program(BIG),
    "big_fsdp4": Program(BIG, fsdp=4),
    "flax_base": Program(BASE, is_flax=True),
    "flax_big": Program(BIG, is_flax=True),
    "beam4": Program(BASE, beam_size=4),
    "greedy": Program(BASE, beam_size=1),
    "beam4_128": Program(BASE, beam_size=4, num_sentences=128),
    "greedy_128": Program(BASE, beam_size=1, num_sentences=128),
}


def lower_program(
    program: Program, devices: Devices, settings: dict[str, Any], folder: str
) -> tuple[jax.stages.Lowered, int]:
    """Returns the lowered program, and the bytes that a step of a search must move (else 0).

    settings: changes of our Config. folder: of Flax's example.
    """
    if program.is_flax:
        return lower_flax(program, devices, folder), 0
    config = make_our_config(program, len(devices), settings)
    if program.beam_size:
        return lower_search(config, program, devices[:1])
    return make_step_without_data(config, make_parallel(config, devices)).lower(), 0


def make_our_config(program: Program, num_chips: int, settings: dict[str, Any]) -> Config:
    """Returns our configuration, in bfloat16."""
    model = {f"model.{name}": value for name, value in program.shape.items()}
    sizes = {"tokenizer.vocab_size": VOCAB_SIZE, "data.row_length": ROW_LENGTH}
    sizes["mesh.fsdp"] = program.fsdp
    sizes["training.batch_tokens"] = num_chips * ROWS * ROW_LENGTH
    changes = model | sizes | {"model.dtype": "bfloat16"} | settings
    return Config().with_values(changes).validate()


def lower_flax(program: Program, devices: Devices, folder: str) -> jax.stages.Lowered:
    """Returns the train step of Flax's example over all chips, on rows as long as ours."""
    train = load_train(folder)
    workload = Workload(
        "flax", **program.shape, vocab_size=VOCAB_SIZE, num_sentences=ROWS,
        source_length=ROW_LENGTH, target_length=ROW_LENGTH, device="tpu", dtype="bfloat16",
    )  # fmt: skip
    config = make_config(train.models, workload)
    batch = make_flax_batch(*workload.ids())
    schedule, rng = make_schedule(train), jax.random.key(0)
    state = jax.eval_shape(partial(make_state, train, config, batch, schedule), rng)
    arguments = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((len(devices), *x.shape), x.dtype), (state, batch, rng)
    )
    step = map_train_step(train, config, workload, schedule, devices)
    return step.lower(*arguments[:2], dropout_rng=arguments[2])


def lower_search(
    config: Config, program: Program, devices: Devices
) -> tuple[jax.stages.Lowered, int]:
    """Returns the program that advances a search, and the bytes that one step of it must move.

    Those are the weights that a step uses, and both caches, once each.
    """
    model, batch = TASKS[config.task].model_and_blank_batch(config)
    method = SearchOptions.from_config(config.decoding, beam_size=program.beam_size).method()
    programs = SearchPrograms(model, method, make_replicas(devices))

    def put_on(spec: P, tree: Any) -> Any:
        sharding = NamedSharding(programs.replicas, spec)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
        )

    init = partial(model.init, jax.random.key(0), batch, deterministic=True)
    params = jax.eval_shape(lambda: cast_matrices(init()["params"], config))
    count = program.num_sentences
    numbers, rngs = np.zeros(count, np.int32), np.zeros((count, 2), np.uint32)
    limits = Limits(numbers, np.zeros((count, LONGEST), np.int32))
    source = np.zeros((count, SOURCE_LENGTH), np.int32), numbers
    params, source = put_on(P(), params), put_on(P(REPLICA), source)
    encoded = programs.encode.lower(params, *source).out_info
    queue = put_on(P(REPLICA), Sentences(numbers, limits, rngs, encoded))
    slots = programs.empty_slots.eval_shape(queue, NUM_COLUMNS)
    slots, free = put_on(P(REPLICA), (slots, jax.ShapeDtypeStruct((1,), jnp.int32)))
    lowered = programs.advance.lower(params, slots, queue, free)
    return lowered, num_bytes((step_weights(params), slots.cache, encoded))


def step_weights(params: Any) -> list[Any]:
    """Returns the parameters that a decode step reads: the decoder's and the table.

    Keys and values of the source were projected before.
    """
    return [
        leaf
        for path, leaf in flatten_dict(params).items()
        if path[0] != "encoder" and path[-3:-1] not in PROJECTED_BEFORE
    ]


def num_bytes(tree: Any) -> int:
    """Returns the bytes of arrays."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
