"""Settings that are right alone and wrong together: each rule raises ValueError in one sentence."""

from typing import Any

from transformer.config.data import DataConfig, TokenizerConfig
from transformer.config.groups import DecodingConfig, MeshConfig, TrainingConfig
from transformer.config.model import ModelConfig
from transformer.registry import (
    ATTENTION_FUNCTIONS,
    HARD_ATTENTION,
    OWN_TASK,
    SELF_ATTENTION_ONLY,
    SOURCE_ATTENTION_ONLY,
)

_PRODUCTS = "scaled_dot_product", "dot_product"
_ATTENTION_OF_POSITIONS = {  # the functions that take a bias, or whose products may be rotated
    "relative": _PRODUCTS[:1],
    "t5": _PRODUCTS,
    "alibi": _PRODUCTS,
    "rotary": (*_PRODUCTS, "content", "fused", *SELF_ATTENTION_ONLY),
}
_OF_PAIRS = (  # settings of `data` that no other task than translation reads
    "subword_dropout",
    "held_out",
    "source_noise",
    "corpus_temperature",
    "drop_duplicates",
    "drop_without_letters",
    "drop_wrong_script",
    "drop_overlap",
)
_NO_WEIGHTS = "fused", "performer", *HARD_ATTENTION  # that could be dropped


def check_model(
    model: ModelConfig, task: str, row_length: int, *, is_rearranged: bool = False
) -> None:
    """Checks the network's settings against each other, the task and `data.row_length`.

    is_rearranged: whether its layers are recomputed or scanned.
    """
    _require(
        model.head_dim or model.d_model % model.num_heads == 0,
        f"model.d_model ({model.d_model}) must be a multiple of model.num_heads "
        f"({model.num_heads}); change one of them or set model.head_dim.",
    )
    _require(
        model.attention_dropout_rate == 0 or model.attention not in _NO_WEIGHTS,
        f"model.attention={model.attention} has no weights to drop: set "
        "model.attention_dropout_rate=0, or model.attention=scaled_dot_product.",
    )
    _check_positions(model)
    if model.has_memory:
        _check_memory(model, task, row_length)
    _require(
        model.has_memory or not model.evaluation_memory,
        "model.evaluation_memory is for model.block=transformer_xl: set it to 0.",
    )
    _require(
        model.attention not in SOURCE_ATTENTION_ONLY or task in ("translation", OWN_TASK),
        f"model.attention={model.attention} is a decoder's attention to the source: it is for "
        f"task=translation, not {task}; choose another.",
    )
    _require(
        model.attention != "hard" or not is_rearranged,
        "model.attention=hard collects what its layers draw, which recomputed and scanned layers "
        "do not give: set remat=False and scan_layers=False.",
    )
    _require(
        not model.token_types or task not in ("translation", "language_model", "images"),
        f"model.token_types is for texts that an encoder alone reads, not for task={task}: set it "
        "to False.",
    )
    _require(
        not model.next_sentence or (model.token_types and model.pooling == "pooler"),
        "model.next_sentence sees a pair through BERT's pooler: set model.token_types=True and "
        "model.pooling=pooler.",
    )
    _require(
        model.d_model % 2 == 0,
        f"model.d_model must be even, as sines and cosines come in pairs, not {model.d_model}.",
    )
    _require(
        task == "images" or not model.is_bounded or model.max_positions >= row_length,
        f"model.max_positions ({model.max_positions}) must be at least data.row_length "
        f"({row_length}), the longest sentence; raise it or lower the other.",
    )


def _check_positions(model: ModelConfig) -> None:
    allowed = _ATTENTION_OF_POSITIONS.get(model.positions, ATTENTION_FUNCTIONS)
    is_own = model.attention not in ATTENTION_FUNCTIONS.built_in  # and gets no bias
    _require(
        model.attention in (*allowed, *SOURCE_ATTENTION_ONLY)
        or (is_own and model.positions == "rotary"),
        f"model.positions={model.positions} acts on products of queries and keys in a way that "
        f"model.attention={model.attention} does not allow: set model.attention to "
        f"{' or '.join(allowed)}, or choose other positions.",
    )
    _require(
        model.positions != "rotary" or model.widths_of_head[0] % 2 == 0,
        "model.positions=rotary turns pairs of components, so the width of a head must be even, "
        f"not {model.widths_of_head[0]}: change model.num_heads or model.head_dim.",
    )


def _check_memory(model: ModelConfig, task: str, row_length: int) -> None:
    _require(task == "language_model", f"model.block={model.block} is for task=language_model.")
    positions = "none", *_ATTENTION_OF_POSITIONS
    for name, allowed in (("positions", positions), ("attention", (*_PRODUCTS, "fused"))):
        _require(
            getattr(model, name) in allowed,
            f"model.block={model.block} needs model.{name} to be one of {', '.join(allowed)}, as "
            f"its segments also see those before them; it is {getattr(model, name)}.",
        )
    _require(
        row_length > model.segment_length,
        f"data.row_length ({row_length}) must be longer than model.segment_length "
        f"({model.segment_length}), or no segment has a memory: raise it or lower the other.",
    )


def check_tokenizer(tokenizer: TokenizerConfig, model: ModelConfig) -> None:
    """Checks that the tokenizers allow the vocabulary that is to be shared."""
    _require(
        tokenizer.shared or model.embedding_sharing != "all",
        "model.embedding_sharing=all needs one vocabulary: set tokenizer.shared=True, or "
        "model.embedding_sharing=target.",
    )
    _require(
        not tokenizer.shared or len(set(tokenizer.kinds)) == 1,
        f"tokenizer.target_kind={tokenizer.target_kind} is not tokenizer.kind="
        f"{tokenizer.kind}, so they cannot share one vocabulary: set tokenizer.shared=False.",
    )
    _require(
        not tokenizer.model or (tokenizer.shared and tokenizer.kind == "sentencepiece"),
        "tokenizer.model names one SentencePiece vocabulary: set tokenizer.shared=True and "
        "tokenizer.kind=sentencepiece.",
    )


def forget_unread(data: DataConfig, model: ModelConfig, task: str) -> None:
    """Resets what nothing reads, which runs of earlier versions may have set."""
    for name, usual in _unread_data(task).items():
        setattr(data, name, usual)
    if not model.has_memory:
        model.evaluation_memory = 0


def _unread_data(task: str) -> dict[str, Any]:
    """Returns {name: default} of the settings of `data` that a task does not read."""
    is_of_pairs = task in ("translation", OWN_TASK)
    return {} if is_of_pairs else {name: getattr(DataConfig(), name) for name in _OF_PAIRS}


def check_data(data: DataConfig, tokenizer: TokenizerConfig, task: str) -> None:
    """Checks what is done with the text against the task, and that there are merges to drop."""
    for name, usual in _unread_data(task).items():
        _require(
            getattr(data, name) == usual,
            f"data.{name} is for task=translation, not {task}: set it to {usual!r}.",
        )
    _require(
        data.mask_rate or task != "masked_lm",
        "data.mask_rate must be more than 0, or nothing is learnt.",
    )
    _require(
        not data.subword_dropout or set(tokenizer.kinds) == {"sentencepiece"},
        f"data.subword_dropout needs tokenizer.kind=sentencepiece on both sides, not "
        f"{' and '.join(sorted(set(tokenizer.kinds)))}: set it to 0, or change the tokenizer.",
    )


def check_training(training: TrainingConfig, decoding: DecodingConfig) -> None:
    """Checks that the checkpoints to average are kept, and that there are parameters to adapt."""
    _require(
        decoding.average_checkpoints <= training.keep_checkpoints,
        f"decoding.average_checkpoints ({decoding.average_checkpoints}) must be at most "
        f"training.keep_checkpoints ({training.keep_checkpoints}); lower it or raise the other.",
    )
    _require(
        training.init_from or not training.lora_rank,
        "training.lora_rank adapts the parameters of another run: name it with training.init_from.",
    )


def check_mesh(mesh: MeshConfig, parallelism: str) -> None:
    """Checks that the mesh can be laid out, and that `parallelism` has one."""
    _require(
        (mesh.data, mesh.fsdp, mesh.tensor).count(-1) <= 1,
        "Only one of mesh.data, mesh.fsdp and mesh.tensor may be -1, the devices that are "
        "left; give the others a number.",
    )
    _require(
        parallelism == "sharded" or mesh.fsdp == mesh.tensor == 1,
        "parallelism=pmap keeps all parameters on every device; mesh.fsdp and mesh.tensor "
        "need parallelism=sharded.",
    )


def _require(is_right: object, sentence: str) -> None:
    if not is_right:
        raise ValueError(sentence)
