"""What a setting may be: each rule with the sentence that says what to change."""

import math

CHOICES = {
    "task": ("translation", "classification", "language_model", "masked_lm", "images"),
    "model.norm": ("post", "pre"),
    "model.positions": ("sinusoidal", "learned"),
    "model.embedding_sharing": ("all", "target", "none"),
    "model.attention": (
        "scaled_dot_product",
        "dot_product",
        "general",
        "additive",
        "fused",
        "local",
        "performer",
    ),
    "model.dtype": ("float32", "bfloat16"),
    "data.bleu_tokenize": ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"),
    "data.selection_metric": ("bleu", "line_error_rate"),
    "tokenizer.kind": ("sentencepiece", "pieces", "characters"),
    "tokenizer.target_kind": ("", "sentencepiece", "pieces", "characters"),
    "decoding.length_penalty": ("gnmt", "power"),
    "parallelism": ("sharded", "pmap"),
}
POSITIVE = """model.d_model model.d_ff model.num_heads model.num_layers model.max_positions
    model.attention_block model.attention_features
    data.row_length data.patch_size tokenizer.vocab_size optimizer.warmup_steps
    training.num_train_steps
    training.batch_tokens training.accumulate_steps training.log_every training.eval_every
    training.checkpoint_every training.keep_checkpoints decoding.beam_size decoding.batch_size
    decoding.average_checkpoints""".split()  # noqa: SIM905
NOT_NEGATIVE = """model.head_dim model.value_dim data.max_validation_sentences
    data.max_length_ratio training.seed
    optimizer.peak_learning_rate optimizer.epsilon optimizer.clip_norm
    optimizer.decay_steps optimizer.weight_decay training.patience
    decoding.alpha decoding.max_extra_length""".split()  # noqa: SIM905
RATES = """model.dropout_rate model.attention_dropout_rate training.label_smoothing data.mask_rate
    optimizer.beta1 optimizer.beta2""".split()  # noqa: SIM905
MESH_AXES = ("mesh.data", "mesh.fsdp", "mesh.tensor")


def with_present_names(data):
    """The parsed JSON of a configuration of version 0.1.0 or later, under the names of today."""
    group = data.get("data", {})
    if "measure" in group:  # 0.1.0
        metric = group.pop("measure")
        group["selection_metric"] = {"word_error_rate": "line_error_rate"}.get(metric, metric)
    return data


def check_type(name, value, wanted):
    """The value as `wanted`, a whole number passing for a float; ValueError for another type."""
    if wanted is float and type(value) is int:
        value = float(value)
    _check(name, value, f"of type {wanted.__name__}", type(value) is wanted)
    _check(name, value, "finite", type(value) is not float or math.isfinite(value))
    return value


def check_values(values):
    """values: name -> value of every setting. ValueError with one sentence if one is wrong."""
    for name, allowed in CHOICES.items():
        _check(name, values[name], f"one of {', '.join(allowed)}", values[name] in allowed)
    for name in POSITIVE:
        _check(name, values[name], "at least 1", values[name] >= 1)
    for name in NOT_NEGATIVE:
        _check(name, values[name], "at least 0", values[name] >= 0)
    for name in RATES:
        wanted = "from 0 up to but not including 1"
        _check(name, values[name], wanted, 0 <= values[name] < 1)
    for name in MESH_AXES:
        wanted = "at least 1, or -1 for the devices that are left"
        _check(name, values[name], wanted, values[name] >= 1 or values[name] == -1)


def _check(name, value, wanted, is_right):
    if not is_right:
        raise ValueError(f"{name} must be {wanted}, not {value!r}.")


def _vocabulary_rules(m, tokenizer):
    """(whether it is right, what is wanted) of each rule that a tokenizer has part in."""
    return (
        (
            tokenizer.shared or m.embedding_sharing != "all",
            "model.embedding_sharing=all needs one vocabulary: set tokenizer.shared=True, or "
            "model.embedding_sharing=target.",
        ),
        (
            not tokenizer.shared or len(set(tokenizer.kinds)) == 1,
            f"tokenizer.target_kind={tokenizer.target_kind} is not tokenizer.kind="
            f"{tokenizer.kind}, so they cannot share one vocabulary: set tokenizer.shared=False.",
        ),
        (
            not tokenizer.model or (tokenizer.shared and tokenizer.kind == "sentencepiece"),
            "tokenizer.model names one SentencePiece vocabulary: set tokenizer.shared=True and "
            "tokenizer.kind=sentencepiece.",
        ),
    )


def check_together(config):
    """Settings that are right alone and wrong together."""
    m, d, tokenizer = config.model, config.data, config.tokenizer
    averaged, kept = config.decoding.average_checkpoints, config.training.keep_checkpoints
    mesh = config.mesh
    for is_right, wanted in (
        (
            m.head_dim or m.d_model % m.num_heads == 0,
            f"model.d_model ({m.d_model}) must be a multiple of model.num_heads "
            f"({m.num_heads}); change one of them or set model.head_dim.",
        ),
        (
            m.attention_dropout_rate == 0 or m.attention not in ("fused", "performer"),
            f"model.attention={m.attention} has no weights to drop: set "
            "model.attention_dropout_rate=0, or model.attention=scaled_dot_product.",
        ),
        (
            m.attention != "performer" or config.task == "images",
            "model.attention=performer has no mask that differs between queries, as decoders and "
            "packed rows need: it is for task=images; choose another model.attention.",
        ),
        (
            m.d_model % 2 == 0,
            f"model.d_model must be even, as sines and cosines come in pairs, not {m.d_model}.",
        ),
        (
            config.task == "images"
            or m.positions == "sinusoidal"
            or m.max_positions >= d.row_length,
            f"model.max_positions ({m.max_positions}) must be at least data.row_length "
            f"({d.row_length}), the longest sentence; raise it or lower the other.",
        ),
        *_vocabulary_rules(m, tokenizer),
        (
            averaged <= kept,
            f"decoding.average_checkpoints ({averaged}) must be at most "
            f"training.keep_checkpoints ({kept}); lower it or raise the other.",
        ),
        (
            (mesh.data, mesh.fsdp, mesh.tensor).count(-1) <= 1,
            "Only one of mesh.data, mesh.fsdp and mesh.tensor may be -1, the devices that are "
            "left; give the others a number.",
        ),
        (
            config.parallelism == "sharded" or mesh.fsdp == mesh.tensor == 1,
            "parallelism=pmap keeps all parameters on every device; mesh.fsdp and mesh.tensor "
            "need parallelism=sharded.",
        ),
    ):
        if not is_right:
            raise ValueError(wanted)
