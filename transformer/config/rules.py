"""Settings that are right alone and wrong together: `RULES` says when, and what to change.

The sentence of a rule names the settings that it reads: while one of them is still to be chosen,
the rule is not checked.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from transformer.config.data import DataConfig
from transformer.registry import (
    ATTENTION_FUNCTIONS,
    HARD_ATTENTION,
    OWN_TASK,
    SELF_ATTENTION_ONLY,
    SOURCE_ATTENTION_ONLY,
    task_kind,
)

if TYPE_CHECKING:
    from transformer.config.experiment import Config

_PRODUCTS = "scaled_dot_product", "dot_product"
_ATTENTION_OF_POSITIONS = {  # the functions that take a bias, or whose products may be rotated
    "relative": _PRODUCTS[:1],
    "t5": _PRODUCTS,
    "alibi": _PRODUCTS,
    "rotary": (*_PRODUCTS, "content", "fused", *SELF_ATTENTION_ONLY),
}
_OF_MEMORY = {  # what a block whose segments also see those before them can be combined with
    "positions": ("none", *_ATTENTION_OF_POSITIONS),
    "attention": (*_PRODUCTS, "fused"),
}
# Settings of `data` that no other task than translation reads.
_OF_PAIRS = """subword_dropout held_out source_noise corpus_temperature drop_duplicates
    drop_without_letters drop_wrong_script drop_overlap"""
_NO_WEIGHTS = "fused", "performer", *HARD_ATTENTION  # that could be dropped
_NO_ENCODER = "translation", "language_model", "images"  # alone, that reads texts


def _is_of_pairs(task: str) -> bool:
    return task_kind(task) in ("translation", OWN_TASK)


def _takes_positions(attention: str, positions: str) -> bool:
    is_own = attention not in ATTENTION_FUNCTIONS.built_in  # and gets no bias
    allowed = *_ATTENTION_OF_POSITIONS[positions], *SOURCE_ATTENTION_ONLY
    return attention in allowed or (is_own and positions == "rotary")


# {a sentence with values of a configuration: whether the configuration breaks this rule}
RULES: dict[str, Callable[["Config"], object]] = {
    "model.d_model ({c.model.d_model}) must be a multiple of model.num_heads "
    "({c.model.num_heads}); change one of them or set model.head_dim.": (
        lambda c: not c.model.head_dim and c.model.d_model % c.model.num_heads
    ),
    "model.attention={c.model.attention} has no weights to drop: set "
    "model.attention_dropout_rate=0, or model.attention=scaled_dot_product.": (
        lambda c: c.model.attention_dropout_rate and c.model.attention in _NO_WEIGHTS
    ),
    **{
        f"model.positions={p} acts on products of queries and keys in a way that "
        "model.attention={c.model.attention} does not allow: set model.attention to "
        f"{' or '.join(allowed)}, or choose other positions.": (
            lambda c, p=p: c.model.positions == p and not _takes_positions(c.model.attention, p)
        )
        for p, allowed in _ATTENTION_OF_POSITIONS.items()
    },
    "model.positions=rotary turns pairs of components, so the width of a head must be even, "
    "not {c.model.widths_of_head[0]}: change model.num_heads or model.head_dim.": (
        lambda c: c.model.positions == "rotary" and c.model.widths_of_head[0] % 2
    ),
    "model.block={c.model.block} is for task=language_model.": (
        lambda c: c.model.has_memory and task_kind(c.task) != "language_model"
    ),
    **{
        f"model.block={{c.model.block}} needs model.{name} to be one of {', '.join(allowed)}, "
        f"as its segments also see those before them; it is {{c.model.{name}}}.": (
            lambda c, n=name, a=allowed: c.model.has_memory and getattr(c.model, n) not in a
        )
        for name, allowed in _OF_MEMORY.items()
    },
    "data.row_length ({c.data.row_length}) must be longer than model.segment_length "
    "({c.model.segment_length}), or no segment has a memory: raise it or lower "
    "the other.": (lambda c: c.model.has_memory and c.data.row_length <= c.model.segment_length),
    "model.evaluation_memory is for model.block=transformer_xl: set it to 0.": (
        lambda c: c.model.evaluation_memory and not c.model.has_memory
    ),
    "model.attention={c.model.attention} is a decoder's attention to the source: it is for "
    "task=translation, not {c.task}; choose another.": (
        lambda c: c.model.attention in SOURCE_ATTENTION_ONLY and not _is_of_pairs(c.task)
    ),
    "model.attention=hard collects what its layers draw, which recomputed and scanned layers "
    "do not give: set remat=False and scan_layers=False.": (
        lambda c: c.model.attention == "hard" and (c.remat or c.scan_layers)
    ),
    "model.token_types is for texts that an encoder alone reads, not for task={c.task}: set it "
    "to False.": lambda c: c.model.token_types and task_kind(c.task) in _NO_ENCODER,
    "model.next_sentence sees a pair through BERT's pooler: set model.token_types=True and "
    "model.pooling=pooler.": (
        lambda c: c.model.next_sentence and (not c.model.token_types or c.model.pooling != "pooler")
    ),
    "model.d_model must be even, as sines and cosines come in pairs, not {c.model.d_model}.": (
        lambda c: c.model.d_model % 2
    ),
    "model.max_positions ({c.model.max_positions}) must be at least data.row_length "
    "({c.data.row_length}), the longest sentence; raise it or lower the other.": (
        lambda c: (
            task_kind(c.task) != "images"
            and c.model.is_bounded
            and c.model.max_positions < c.data.row_length
        )
    ),
    "model.embedding_sharing=all needs one vocabulary: set tokenizer.shared=True, or "
    "model.embedding_sharing=target.": (
        lambda c: c.model.embedding_sharing == "all" and not c.tokenizer.shared
    ),
    "tokenizer.target_kind={c.tokenizer.target_kind} is not tokenizer.kind={c.tokenizer.kind}, "
    "so they cannot share one vocabulary: set tokenizer.shared=False.": (
        lambda c: c.tokenizer.shared and len(set(c.tokenizer.kinds)) > 1
    ),
    "tokenizer.model names one SentencePiece vocabulary: set tokenizer.shared=True and "
    "tokenizer.kind=sentencepiece.": (
        lambda c: (
            c.tokenizer.model and not (c.tokenizer.shared and c.tokenizer.kind == "sentencepiece")
        )
    ),
    **{
        f"data.{n} is for task=translation, not {{c.task}}: set it to {usual!r}.": (
            lambda c, n=n, usual=usual: getattr(c.data, n) != usual and not _is_of_pairs(c.task)
        )
        for n, usual in ((n, getattr(DataConfig, n)) for n in _OF_PAIRS.split())
    },
    "data.mask_rate must be more than 0, or nothing is learnt.": (
        lambda c: task_kind(c.task) == "masked_lm" and not c.data.mask_rate
    ),
    "data.subword_dropout needs tokenizer.kind=sentencepiece on both sides, not for the source "
    "{c.tokenizer.kinds[0]} and for the target {c.tokenizer.kinds[1]}: set it to 0, or change "
    "the tokenizer.": (
        lambda c: c.data.subword_dropout and set(c.tokenizer.kinds) != {"sentencepiece"}
    ),
    "decoding.average_checkpoints ({c.decoding.average_checkpoints}) must be at most "
    "training.keep_checkpoints ({c.training.keep_checkpoints}); lower it or raise the other.": (
        lambda c: c.decoding.average_checkpoints > c.training.keep_checkpoints
    ),
    "training.lora_rank adapts the parameters of another run: name it with training.init_from.": (
        lambda c: c.training.lora_rank and not c.training.init_from
    ),
    "Only one of mesh.data, mesh.fsdp and mesh.tensor may be -1, the devices that are "
    "left; give the others a number.": (
        lambda c: (c.mesh.data, c.mesh.fsdp, c.mesh.tensor).count(-1) > 1
    ),
    "parallelism=pmap keeps all parameters on every device; mesh.fsdp and mesh.tensor "
    "need parallelism=sharded.": (
        lambda c: c.parallelism == "pmap" and (c.mesh.fsdp, c.mesh.tensor) != (1, 1)
    ),
}
