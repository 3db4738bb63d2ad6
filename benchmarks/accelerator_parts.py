"""The parts of `accelerator.py`: what is measured, in their order."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from referee import Contestant
from search_models import NUM_TOKENS, make_random
from search_workload import SearchWorkload
from settings import read_settings
from workload import SMALL, WORKLOADS, Workload

ATTENTIONS = "scaled_dot_product", "fused"  # those that compute the whole of equation (1)
REFERENCES = "PyTorch", "CTranslate2"  # the contestants that ratios are to
SMALL_WORKLOAD = Workload(
    "small", **SMALL, vocab_size=64, num_sentences=8, source_length=16, target_length=16
)
SMALL_RUN = ["--config.training.num_train_steps=2", "--config.data.max_validation_sentences=2"]


@dataclasses.dataclass(frozen=True)
class Task:
    """What a contestant does, in one request or several."""

    workload: Workload | SearchWorkload
    requests: dict[str, dict[str, Any]]  # {name: options}
    num_tokens: int = 0  # of the target, in each request
    is_repeated: bool = True  # after warming up; else it is done once


@dataclasses.dataclass(frozen=True)
class Part:
    """One contestant at one task."""

    task: str  # results of the same task are compared
    contestant: str
    process: Contestant
    make_task: Callable[[str], Task]  # from a folder for what the contestants read
    weight: float = 1.0  # its share of the time, relative to the other parts'

    @property
    def name(self) -> str:
        """As in "training base, PyTorch"."""
        return f"{self.task}, {self.contestant}"


def list_parts(arguments: argparse.Namespace) -> list[Part]:
    """Returns the parts whose names contain one of the texts in --only."""
    found = [*training_parts(arguments), *search_parts(arguments), default_run_part(arguments)]
    return [p for p in found if any(text in p.name for text in arguments.only.split(","))]


def training_parts(arguments: argparse.Namespace) -> Iterator[Part]:
    """Yields the training steps: a sentence per row, and ours in packed rows as well."""
    settings, row_length = read_settings(arguments.set), 32 if arguments.small else 256
    contestants: dict[str, Contestant] = {"ours": (sys.executable, "ours", {"settings": settings})}
    if arguments.device != "tpu":
        contestants["PyTorch"] = (arguments.torch_python, "torch_transformer", {})
    if arguments.flax_example:
        folder = {"folder": arguments.flax_example}
        contestants["Flax's example"] = (sys.executable, "flax_example", folder)
    for attention in ATTENTIONS:
        options = {"settings": settings | {"model.attention": attention}, "row_length": row_length}
        contestants[f"ours, packed, {attention}"] = (sys.executable, "ours", options)
    for workload in training_workloads(arguments):
        task = Task(workload, {"": {}}, workload.target_tokens)
        for name, process in contestants.items():
            weight = 2.0 if name == "PyTorch" else 1.0  # it compiles for longest
            weight *= 1.5 if workload.name == "big" else 1.0
            yield Part(f"training {workload.name}", name, process, lambda _, t=task: t, weight)


def training_workloads(arguments: argparse.Namespace) -> list[Workload]:
    """Returns base and big, or a small one."""
    workloads = [SMALL_WORKLOAD] if arguments.small else WORKLOADS["gpu"]
    dtype = "float32" if arguments.device == "cpu" else "bfloat16"
    return [dataclasses.replace(w, device=arguments.device, dtype=dtype) for w in workloads]


def search_parts(arguments: argparse.Namespace) -> Iterator[Part]:
    """Yields the searches, each with and without a beam."""
    contestants: dict[str, Contestant] = {"ours": (sys.executable, "search_ours", {})}
    if arguments.device != "tpu":
        contestants["CTranslate2"] = (arguments.torch_python, "search_ctranslate2", {})
    for shape in ("small",) if arguments.small else ("base", "big"):
        make_task = cache(partial(search_task, shape, arguments.device))
        for name, process in contestants.items():
            yield Part(f"search {shape}", name, process, make_task)


def search_task(shape: str, device: str, folder: str) -> Task:
    """Writes a model with random weights, and returns the Task of searching with it."""
    num_sentences = 4 if shape == "small" else None
    workload, searches = make_random(shape, folder, device, num_sentences)
    return Task(workload, searches, len(workload.sentences()) * NUM_TOKENS)


def default_run_part(arguments: argparse.Namespace) -> Part:
    """Returns what `make train` does; a small one trains for two steps."""
    options = {"flags": SMALL_RUN if arguments.small else []}
    task = Task(dataclasses.replace(SMALL_WORKLOAD, device=arguments.device), {"": {}})
    task = dataclasses.replace(task, is_repeated=False)
    process = sys.executable, "default_run", options
    return Part("default run", "ours", process, lambda _: task, weight=4.0)
