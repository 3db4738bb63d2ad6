"""What a comparison knows of a run: its settings, its size, its scores and its sentences."""

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from etils.epath import PathLike

from transformer.checkpoint.restore import load_model
from transformer.checkpoint.task_model import abstract_params, smallest_batch
from transformer.config import Config
from transformer.data.files.splits import folder_name
from transformer.evaluation.evaluation import Evaluation
from transformer.evaluation.run_facts import read_facts
from transformer.evaluation.scores import Perplexity, Score
from transformer.evaluation.segments import Segment
from transformer.workdir import WorkDir


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A run and what it reached on a test set.

    path: of the work directory, as it was given. config: with the search that was used.
    num_parameters: of the model. vocabulary: a number that tells the target vocabulary from every
    other, by whose tokens a perplexity counts; 0: there is none. segments: empty for other tasks
    than translation. origin: when, with what and on what it was trained, as
    `RunFacts.origin` returns it.
    """

    path: str
    checkpoint: str
    step: int | None
    config: Config
    num_parameters: int
    vocabulary: int
    corpus: str
    scores: dict[str, Score]
    segments: Sequence[Segment]
    origin: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns what the report of a comparison holds of this run."""
        return {
            "path": self.path,
            "checkpoint": self.checkpoint,
            "step": self.step,
            "num_parameters": self.num_parameters,
            "origin": self.origin,
            **{key: score.to_json() for key, score in self.scores.items()},
        }


def compared_run(path: PathLike, result: Evaluation) -> ComparedRun:
    """Returns the run in the work directory `path`, which `result` is an evaluation of."""
    workdir = WorkDir(path)
    config = workdir.load_config()
    num_parameters, vocabulary = _describe_model(workdir, config)
    return ComparedRun(
        path=str(path),
        checkpoint=result.checkpoint,
        step=result.step,
        config=_with_search(config, result.settings.search),
        num_parameters=num_parameters,
        vocabulary=vocabulary,
        corpus=result.corpus,
        scores=result.scores,
        segments=result.segments,
        origin=read_facts(workdir).origin(),
    )


def saved_run(path: PathLike) -> ComparedRun:
    """Returns a finished run of any task with the scores of its test split that training saved.

    Raises ValueError if the folder holds no such scores.
    """
    workdir = WorkDir(path)
    config = workdir.load_config()
    folder = workdir / "results" / folder_name(config.data.test_split)
    try:
        record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        file = folder / "segments.jsonl"
        lines = file.read_text(encoding="utf-8").split("\n") if file.is_file() else []
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder} holds no scores that can be read ({error}): score the run with eval.py "
            f"--workdir={path}."
        ) from None
    num_parameters, vocabulary = _describe_model(workdir, config)
    return ComparedRun(
        path=str(path),
        checkpoint=record["checkpoint"],
        step=record.get("step"),
        config=_with_search(config, record.get("search", {})),
        num_parameters=num_parameters,
        vocabulary=vocabulary,
        corpus=record["corpus"],
        scores=_read_scores(record),
        segments=[_read_segment(json.loads(line)) for line in lines if line],
        origin=read_facts(workdir).origin(),
    )


def _describe_model(workdir: WorkDir, config: Config) -> tuple[int, int]:
    """Returns the number of parameters of a run and the checksum of its target vocabulary."""
    model, tokenizers, labels = load_model(workdir, config)
    shapes = jax.tree.leaves(abstract_params(model, smallest_batch(config, labels)))
    vocabulary = zlib.crc32(tokenizers[1].to_bytes()) if tokenizers else 0
    return sum(math.prod(leaf.shape) for leaf in shapes), vocabulary


def _with_search(config: Config, search: dict[str, Any]) -> Config:
    """Returns the configuration with the options of the search in the place of its own."""
    known = config.values()
    options = {f"decoding.{name}": value for name, value in search.items()}
    return config.with_values({name: options[name] for name in options if name in known})


def _read_scores(record: dict[str, Any]) -> dict[str, Score]:
    """Returns the scores in a report.json, in their order: the primary one is the first."""
    scores: dict[str, Score] = {}
    for key, value in record.items():
        if isinstance(value, dict) and "signature" in value:
            kind = Perplexity if "smooth:no" in value["signature"].split("|") else Score
            if value["value"] is None:  # JSON knows no infinity
                value = value | {"value": math.inf}
            scores[key] = kind(**value)
    return scores


def _read_segment(fields: dict[str, Any]) -> Segment:
    if fields["reference_log_prob"] is None:
        fields = fields | {"reference_log_prob": math.nan}
    return Segment(**fields)
