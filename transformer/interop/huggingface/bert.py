"""BERT's Hugging Face folders: read as masked language models or classifiers, and written.

A run that has no token types is written as one whose two vectors are zeros.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface.one_stack import (
    POSITIONS,
    complete,
    stack_config,
    tie,
    untie,
    write_folder,
)
from transformer.interop.huggingface.tokens import TOKENS, fit_rows, read_bert_tokenizer
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.settings import (
    SettingsTable,
    class_names,
    read_settings,
)
from transformer.interop.weights import name_table
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import (
    GAMMA_BETA,
    PYTORCH,
    Entry,
    Style,
    dense,
    layer_norm,
    layers,
)
from transformer.interop.writing import check_holds
from transformer.registry import task_kind

NAMES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "d_ff",
    "hidden_act": "activation",
    "layer_norm_eps": "norm_epsilon",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
}
DEFAULTS = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
SETTINGS = SettingsTable(
    NAMES | {"max_position_embeddings": "max_positions"},
    DEFAULTS,
    possible={
        "model_type": ("bert",),
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "pruned_heads": ({},),
        "problem_type": ("single_label_classification",),
    },
)
MODELS = ("BertForMaskedLM", "BertForPreTraining", "BertModel", "BertForSequenceClassification")
LAYER = {
    "self_attention/query": "attention.self.query",
    "self_attention/key": "attention.self.key",
    "self_attention/value": "attention.self.value",
    "self_attention/output": "attention.output.dense",
    "self_residual/LayerNorm_0": "attention.output.LayerNorm",
    "feed_forward/inner": "intermediate.dense",
    "feed_forward/outer": "output.dense",
    "feed_forward_residual/LayerNorm_0": "output.LayerNorm",
}
EMBEDDING, TOKEN_TYPES = "bert.embeddings.word_embeddings.weight", "tokens/types"
HEAD, POOLER = "cls.predictions.transform.dense.weight", "pooler.dense.weight"
OLD_SCALE = ".LayerNorm.gamma"
NEXT_SENTENCE = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
COPIES = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
POSITION_IDS = "embeddings.position_ids"  # 0, 1, 2, …
PAIRS = "A tab in a text separates the two of a pair, whose token types are 0 and 1."
BARE_IDS = (
    "Texts are encoded as {bos}, first text, {eos}, and for a pair second text, {eos}, of token "
    "type 1."
)


def read(folder: PathLike) -> PortableModel:
    """Reads a BertForMaskedLM, BertForPreTraining, BertModel or BertForSequenceClassification.

    The last becomes a run of task=classification, the others of masked_lm, with the pooler if the
    file has one. Raises ValueError for any other model, and for damaged or missing files.
    """
    settings = read_settings(folder)
    if settings.get("architectures") not in (None, *([name] for name in MODELS)):
        raise ValueError(
            f"config.json says architectures={settings['architectures']}, a head that is not read: "
            f"import the {', '.join(MODELS[:-1])} or {MODELS[-1]} of before, and fine-tune that."
        )
    model_settings = SETTINGS.read(settings)
    tensors = open_tensors(folder)
    tokenizer = read_bert_tokenizer(folder)
    config = config_of(model_settings, tensors)
    params, notes = fit_rows(_read_params(config, tensors), tokenizer.vocab_size)
    labels = Labels([])
    if config.task == "classification":
        labels = Labels(class_names(settings, len(params["classes/bias"])))
    notes += _notes(config, tensors)
    return PortableModel(config, params, (tokenizer, tokenizer), labels, notes)


def config_of(model_settings: Mapping[str, Any], tensors: Collection[str]) -> Config:
    """Returns the configuration of settings and of the names of the tensors beside them."""
    is_classifier, has_head = "classifier.weight" in tensors, HEAD in tensors
    return stack_config(
        "classification" if is_classifier else "masked_lm",
        **model_settings,
        norm="post",
        embedding_norm=True,
        token_types=True,
        prediction_head=has_head,
        output_bias=has_head,
        pooling="pooler" if {POOLER, f"bert.{POOLER}"} & {*tensors} else "mean",
    ).validate()


def entries(config: Config, prefix: str = "bert.", style: Style = PYTORCH) -> list[Entry]:
    """Returns the table of names; prefix: of the encoder's tensors, which BertModel has not."""
    model, embeddings = config.model, f"{prefix}embeddings"
    table = [
        Entry(TOKENS[0], f"{embeddings}.word_embeddings.weight"),
        Entry(POSITIONS, f"{embeddings}.position_embeddings.weight"),
        Entry(TOKEN_TYPES, f"{embeddings}.token_type_embeddings.weight"),
        *layer_norm("tokens/norm", f"{embeddings}.LayerNorm", style),
        *layers(model.num_layers, "encoder/layer_", f"{prefix}encoder.layer.#.", LAYER, style),
    ]
    if model.pooling == "pooler":
        table += dense("pooler/dense", f"{prefix}pooler.dense")
    if task_kind(config.task) == "classification":
        table += dense("classes", "classifier")
    elif model.prediction_head:
        table += dense("prediction/dense", "cls.predictions.transform.dense")
        table += layer_norm("prediction/norm", "cls.predictions.transform.LayerNorm", style)
        table += [Entry(TOKENS[1], "cls.predictions.bias")]
        if model.next_sentence:
            table += dense("next_sentence", "cls.seq_relationship")
    return table


def _read_params(config: Config, tensors: name_table.Tensors) -> FlatParams:
    """Returns our parameters of their tensors, whatever prefix and names of norms these have."""
    prefix = name_table.prefix_in(tensors, "bert.")
    is_old = any(name.endswith(OLD_SCALE) for name in tensors)  # in files of 2018
    table = entries(config, prefix, GAMMA_BETA if is_old else PYTORCH)
    ignored = [*NEXT_SENTENCE, *COPIES, f"{prefix}{POSITION_IDS}"]
    params = name_table.read(table, tensors, ignored=ignored)
    params[TOKEN_TYPES] = np.resize(params[TOKEN_TYPES], (2, config.model.d_model))
    if COPIES[0] in tensors:
        tie(config.model, params, tensors[COPIES[0]], COPIES[0])
    if COPIES[1] in tensors and not np.array_equal(tensors[COPIES[1]], params[TOKENS[1]]):
        raise ValueError(f"The tensors {COPIES[1]} and cls.predictions.bias must be equal.")
    return params


def _notes(config: Config, tensors: Collection[str]) -> list[str]:
    notes = [PAIRS]
    if NEXT_SENTENCE[0] in tensors:
        notes.append("The head that predicts whether a sentence is the next one is left out.")
    if config.task == "masked_lm" and not config.model.prediction_head:
        notes.append("It has no prediction head: fine-tune it, its own predictions mean nothing.")
    if config.model.pooling != "pooler":
        notes.append("It has no pooler: a classifier that starts from it takes the mean.")
    return notes


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of BertForMaskedLM or BertForSequenceClassification; returns what to know.

    Raises ValueError, naming each, for settings of the run that BERT cannot have.
    """
    config = model.config
    is_classifier = task_kind(config.task) == "classification"
    kind = "BertForPreTraining" if config.model.next_sentence else "BertForMaskedLM"
    kind = "BertForSequenceClassification" if is_classifier else kind
    needed = {"model.pooling": "pooler"} if is_classifier else {"model.prediction_head": True}
    needed |= {"model.norm": "post", "model.embedding_norm": True}
    task = "classification" if is_classifier else "masked_lm"
    check_holds(kind, config, "use the format safetensors", task=task, needed=needed)
    table = entries(config)
    params, softmax = untie(config.model, complete(config, model.params, table))
    params.setdefault(TOKEN_TYPES, np.zeros((2, config.model.d_model), np.float32))
    tensors, special = name_table.write(table, params), model.tokenizers[0].special
    notes = [BARE_IDS.format(**special._asdict())] if config.model.token_types else []
    settings = SETTINGS.write(config.model) | {
        "architectures": [kind],
        "model_type": "bert",
        "max_position_embeddings": len(params[POSITIONS]),
        "vocab_size": len(tensors[EMBEDDING]),
        "type_vocab_size": 2,
        "pad_token_id": special.pad,
        "tie_word_embeddings": softmax is None,
    }
    if is_classifier:
        settings["id2label"] = dict(enumerate(model.labels.names))
        settings["label2id"] = {name: i for i, name in enumerate(model.labels.names)}
    elif softmax is not None:
        tensors |= dict(zip(COPIES, (softmax, params[TOKENS[1]]), strict=True))
    return write_folder(folder, model, settings, tensors, notes)
