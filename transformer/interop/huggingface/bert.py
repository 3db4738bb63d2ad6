"""BERT's Hugging Face folders: read as masked language models or classifiers, and written.

A run that has no token types is written as one whose two vectors are zeros.
"""

import numpy as np

from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface import one_stack
from transformer.interop.huggingface.tokens import read_bert_tokenizer
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import SettingsTable, class_names, read_settings
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import (
    GAMMA_BETA,
    PYTORCH,
    Entry,
    Style,
    layers,
    modules,
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
ENCODER = {
    "tokens/norm": "bert.embeddings.LayerNorm",
    **layers("encoder/layer_#/", "bert.encoder.layer.#.", LAYER),
}
NEXT_SENTENCE = {"next_sentence": "cls.seq_relationship"}
TOKEN_TYPES, TYPES = "tokens/types", "bert.embeddings.token_type_embeddings.weight"
SOFTMAX, SOFTMAX_BIAS = "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"  # copies
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
    tokenizer = read_bert_tokenizer(folder)
    has_head = "cls.predictions.transform.dense.weight" in tensors
    has_pooler = any(name.endswith("pooler.dense.weight") for name in tensors)
    config = one_stack.stack_config(
        "classification" if "classifier.weight" in tensors else "masked_lm",
        **model_settings,
        norm="post",
        embedding_norm=True,
        token_types=True,
        prediction_head=has_head,
        output_bias=has_head,
        pooling="pooler" if has_pooler else "mean",
    )
    is_old = any(name.endswith(".LayerNorm.gamma") for name in tensors)  # of 2018
    next_sentence = [entry.theirs for entry in modules(NEXT_SENTENCE)]
    params, notes = one_stack.read_params(
        config.model,
        entries(config, GAMMA_BETA if is_old else PYTORCH),
        tensors,
        tokenizer.vocab_size,
        prefix="bert.",
        softmax=SOFTMAX,
        ignored=[*next_sentence, SOFTMAX_BIAS, POSITION_IDS],
    )
    params[TOKEN_TYPES] = np.resize(params[TOKEN_TYPES], (2, config.model.d_model))
    labels = Labels([])
    if config.task == "classification":
        labels = Labels(class_names(settings, len(params["classes/bias"])))
    notes.append(PAIRS)
    if next_sentence[0] in tensors:
        notes.append("The head that predicts whether a sentence is the next one is left out.")
    if config.task == "masked_lm" and not has_head:
        notes.append("It has no prediction head: fine-tune it, its own predictions mean nothing.")
    if not has_pooler:
        notes.append("It has no pooler: a classifier that starts from it takes the mean.")
    return PortableModel(config, params, (tokenizer, tokenizer), labels, notes)


def entries(config: Config, style: Style = PYTORCH) -> list[Entry]:
    """Returns the table of names; BertModel has them without "bert."."""
    model, names = config.model, dict(ENCODER)
    table = [
        Entry(one_stack.TABLE, "bert.embeddings.word_embeddings.weight"),
        Entry(one_stack.POSITIONS, "bert.embeddings.position_embeddings.weight"),
        Entry(TOKEN_TYPES, TYPES),
    ]
    if model.pooling == "pooler":
        names["pooler/dense"] = "bert.pooler.dense"
    if task_kind(config.task) == "classification":
        names["classes"] = "classifier"
    elif model.prediction_head:
        table.append(Entry(one_stack.BIAS, "cls.predictions.bias"))
        names["prediction/dense"] = "cls.predictions.transform.dense"
        names["prediction/norm"] = "cls.predictions.transform.LayerNorm"
        names |= NEXT_SENTENCE if model.next_sentence else {}
    return table + modules(names, style, model.num_layers)


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of BertForMaskedLM or BertForSequenceClassification; returns what to know.

    Raises ValueError, naming each, for settings of the run that BERT cannot have.
    """
    config, special = model.config, model.tokenizers[0].special
    is_classifier = task_kind(config.task) == "classification"
    kind = "BertForPreTraining" if config.model.next_sentence else "BertForMaskedLM"
    kind = "BertForSequenceClassification" if is_classifier else kind
    needed = {"model.pooling": "pooler"} if is_classifier else {"model.prediction_head": True}
    needed |= {"model.norm": "post", "model.embedding_norm": True}
    task = "classification" if is_classifier else "masked_lm"
    check_holds(kind, config, "use the format safetensors", task=task, needed=needed)
    params = {TOKEN_TYPES: np.zeros((2, config.model.d_model), np.float32)} | model.params
    tensors = one_stack.write_params(config, params, entries(config), SOFTMAX)
    notes = [BARE_IDS.format(**special._asdict())] if config.model.token_types else []
    settings = SETTINGS.write(config.model) | {
        "architectures": [kind],
        "model_type": "bert",
        "max_position_embeddings": len(tensors["bert.embeddings.position_embeddings.weight"]),
        "vocab_size": len(tensors["bert.embeddings.word_embeddings.weight"]),
        "type_vocab_size": 2,
        "pad_token_id": special.pad,
        "tie_word_embeddings": SOFTMAX not in tensors,
    }
    if is_classifier:
        tensors.pop(SOFTMAX, None)
        settings["id2label"] = dict(enumerate(model.labels.names))
        settings["label2id"] = {name: i for i, name in enumerate(model.labels.names)}
    elif SOFTMAX in tensors:
        tensors[SOFTMAX_BIAS] = tensors["cls.predictions.bias"]
    return one_stack.write_folder(folder, model, settings, tensors, notes)
