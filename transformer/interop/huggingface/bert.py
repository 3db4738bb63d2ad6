"""BERT's Hugging Face folders: read as masked language models or classifiers, and written.

A run that has no token types is written as one whose two vectors are zeros.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface import one_stack
from transformer.interop.huggingface.tokens import read_tokenizer
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import Setting, SettingsTable, class_names, read_settings
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import GAMMA_BETA, PYTORCH
from transformer.interop.writing import check_holds
from transformer.registry import task_kind

STACK = {
    "hidden_size": Setting("d_model"),
    "num_hidden_layers": Setting("num_layers"),
    "num_attention_heads": Setting("num_heads"),
    "intermediate_size": Setting("d_ff"),
    "hidden_act": Setting("activation", "gelu"),
    "layer_norm_eps": Setting("norm_epsilon", 1e-12),
    "hidden_dropout_prob": Setting("dropout_rate", 0.1),
    "attention_probs_dropout_prob": Setting("attention_dropout_rate", 0.1),
}
SETTINGS = SettingsTable(
    STACK | {"max_position_embeddings": Setting("max_positions")},
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
TOKEN_TYPES = "tokens/types"
SOFTMAX, SOFTMAX_BIAS = "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"
FAMILY = one_stack.Family(
    SETTINGS,
    {
        one_stack.TABLE: "bert.embeddings.word_embeddings.weight",
        one_stack.POSITIONS: "bert.embeddings.position_embeddings.weight",
        TOKEN_TYPES: "bert.embeddings.token_type_embeddings.weight",
        "tokens/norm": "bert.embeddings.LayerNorm",
        "layer": "bert.encoder.layer.#.",
        "self_attention/query": "attention.self.query",
        "self_attention/key": "attention.self.key",
        "self_attention/value": "attention.self.value",
        "self_attention/output": "attention.output.dense",
        "self_residual/LayerNorm_0": "attention.output.LayerNorm",
        "feed_forward/inner": "intermediate.dense",
        "feed_forward/outer": "output.dense",
        "feed_forward_residual/LayerNorm_0": "output.LayerNorm",
        "pooler/dense": "bert.pooler.dense",
        "classes": "classifier",
        "prediction/dense": "cls.predictions.transform.dense",
        "prediction/norm": "cls.predictions.transform.LayerNorm",
        one_stack.BIAS: "cls.predictions.bias",
        "next_sentence": "cls.seq_relationship",
    },
    prefix="bert.",  # not in a BertModel
    copies={SOFTMAX: one_stack.TABLE, SOFTMAX_BIAS: one_stack.BIAS},
)
NEXT_SENTENCE = ["cls.seq_relationship.weight", "cls.seq_relationship.bias"]
POSITION_IDS = "bert.embeddings.position_ids"  # 0, 1, 2, …
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
    model_settings, tensors = SETTINGS.read(settings), open_tensors(folder)
    tokenizer = read_tokenizer(folder, "bert")
    has_head = "cls.predictions.transform.dense.weight" in tensors
    has_pooler = any(name.endswith("pooler.dense.weight") for name in tensors)
    labels = Labels([])
    if "classifier.weight" in tensors:
        labels = Labels(class_names(settings, len(tensors["classifier.weight"])))
    config = one_stack.stack_config(
        "classification" if labels.names else "masked_lm",
        **model_settings,
        norm="post",
        embedding_norm=True,
        token_types=True,
        prediction_head=has_head,
        output_bias=has_head,
        pooling="pooler" if has_pooler else "mean",
    )
    is_old = any(name.endswith(".LayerNorm.gamma") for name in tensors)  # of 2018
    family = FAMILY._replace(style=GAMMA_BETA if is_old else PYTORCH)
    ignored = [*NEXT_SENTENCE, POSITION_IDS]
    params, notes = one_stack.read_params(family, config, tokenizer, labels, tensors, ignored)
    params[TOKEN_TYPES] = np.resize(params[TOKEN_TYPES], (2, config.model.d_model))
    notes.append(PAIRS)
    if NEXT_SENTENCE[0] in tensors:
        notes.append("The head that predicts whether a sentence is the next one is left out.")
    if config.task == "masked_lm" and not has_head:
        notes.append("It has no prediction head: fine-tune it, its own predictions mean nothing.")
    if not has_pooler:
        notes.append("It has no pooler: a classifier that starts from it takes the mean.")
    return PortableModel(config, params, (tokenizer, tokenizer), labels, notes)


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of BertForMaskedLM or BertForSequenceClassification; returns what to know.

    Raises ValueError, naming each, for settings of the run that BERT cannot have.
    """
    config, special, names = model.config, model.tokenizers[0].special, model.labels.names
    is_classifier = task_kind(config.task) == "classification"
    kind = "BertForPreTraining" if config.model.next_sentence else "BertForMaskedLM"
    kind = "BertForSequenceClassification" if is_classifier else kind
    needed = {"model.pooling": "pooler"} if is_classifier else {"model.prediction_head": True}
    needed |= {"model.norm": "post", "model.embedding_norm": True}
    task = "classification" if is_classifier else "masked_lm"
    check_holds(kind, config, task=task, needed=needed)
    settings: dict[str, Any] = {
        "architectures": [kind],
        "model_type": "bert",
        "type_vocab_size": 2,
        "pad_token_id": special.pad,
    }
    if is_classifier:
        settings["id2label"] = dict(enumerate(names))
        settings["label2id"] = {name: i for i, name in enumerate(names)}
    params = {TOKEN_TYPES: np.zeros((2, config.model.d_model), np.float32)} | model.params
    notes = [BARE_IDS.format(**special._asdict())] if config.model.token_types else []
    added = {"token_types": True, "output_bias": not is_classifier}
    model = replace(model, params=params)
    return one_stack.write_folder(FAMILY, folder, model, settings, notes, **added)
