"""Settings of Hugging Face's translation models as ours, or why there is no such model."""

from collections.abc import Mapping
from typing import Any

from etils import epath

from transformer.config import Config, ModelConfig
from transformer.interop.huggingface.settings import ACTIVATIONS, check_settings, read_settings

SIZES = ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "vocab_size")
SIZES += ("encoder_attention_heads",)
IDS = ("pad_token_id", "decoder_start_token_id", "eos_token_id")
POSITIONS = {"marian": "sinusoidal", "m2m_100": "sinusoidal_fairseq", "mbart": "learned"}
ACTIVATION = {"marian": "gelu", "m2m_100": "relu", "mbart": "gelu"}  # where a folder names none
WITHOUT = {  # settings of a search that ours does not have, and what they are where they do nothing
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (0, 1.0),
    "num_beam_groups": (0, 1),
    "do_sample": (False,),
    "min_length": (0,),
}
ENDS = ("max_length", "max_new_tokens", "early_stopping")  # how theirs end; ours has other rules


def read_seq2seq_settings(folder: epath.Path) -> dict[str, Any]:
    """Returns what config.json says, and over it generation_config.json; refuses what we lack."""
    settings = {name: value for name, value in read_settings(folder).items() if value is not None}
    if (folder / "generation_config.json").is_file():
        search = read_settings(folder, "generation_config.json")
        settings |= {name: value for name, value in search.items() if value is not None}
    end = settings.get("eos_token_id")
    settings["eos_token_id"] = end[0] if isinstance(end, list) and len(end) == 1 else end
    if missing := [name for name in IDS if type(settings.get(name)) is not int]:
        raise ValueError(f"{folder}/config.json lacks an id as {', '.join(missing)}; restore it.")
    possible = {
        "activation_function": tuple(ACTIVATIONS),
        "decoder_ffn_dim": (settings.get("encoder_ffn_dim"),),
        "decoder_attention_heads": (settings.get("encoder_attention_heads"),),
        "is_encoder_decoder": (True,),
        "quantization_config": (None,),
    }
    if settings.get("share_encoder_decoder_embeddings", True):
        possible["decoder_vocab_size"] = (settings.get("vocab_size"),)
    check_settings(settings, SIZES, possible)
    _check_search(settings)
    return settings


def _check_search(settings: Mapping[str, Any]) -> None:
    """Raises ValueError for settings of a search that are not what they should be."""
    penalty, words = settings.get("length_penalty", 1.0), settings.get("bad_words_ids", [])
    if type(penalty) not in (int, float):
        raise ValueError(f"length_penalty must be a number, not {penalty!r}.")
    known = range(settings.get("decoder_vocab_size", settings["vocab_size"]))
    lists = words if isinstance(words, list) else [words]
    if any(not isinstance(ids, list) or any(i not in known for i in ids) for ids in lists):
        raise ValueError(f"bad_words_ids must list ids from 0 to {known[-1]:,}, not {words!r}.")


def config_of(settings: Mapping[str, Any], languages: tuple[str, str]) -> Config:
    """Returns the configuration of a run with this model; languages: "" where unknown."""
    kind, length = settings["model_type"], settings.get("max_position_embeddings", 1024)
    is_shared = settings.get("share_encoder_decoder_embeddings", True)
    is_tied = settings.get("tie_word_embeddings", True)
    model = ModelConfig(
        d_model=settings["d_model"],
        d_ff=settings["encoder_ffn_dim"],
        num_heads=settings["encoder_attention_heads"],
        num_layers=settings["encoder_layers"],
        num_decoder_layers=settings["decoder_layers"],
        dropout_rate=settings.get("dropout", 0.1),
        attention_dropout_rate=settings.get("attention_dropout", 0.0),
        norm="post" if kind == "marian" else "pre",
        norm_epsilon=1e-5,
        activation=ACTIVATIONS[settings.get("activation_function", ACTIVATION[kind])],
        projection_bias=True,
        output_bias=True,
        scale_embedding=settings.get("scale_embedding", kind == "m2m_100"),
        embedding_norm=kind == "mbart",
        positions=POSITIONS[kind],
        max_positions=length,
        embedding_sharing="none" if not is_tied else "all" if is_shared else "target",
    )
    config = Config(model=model)
    config.data.row_length = length
    config.tokenizer.kind, config.tokenizer.shared = "imported", is_shared
    for name, language in zip(("source", "target"), languages, strict=True):
        if language:
            setattr(config.data, f"{name}_language", language)
    decoding = config.decoding
    decoding.beam_size, decoding.length_penalty = settings.get("num_beams", 1), "power"
    decoding.alpha = max(0.0, float(settings.get("length_penalty", 1.0)))
    return config


def describe_settings(
    settings: Mapping[str, Any], config: Config, languages: tuple[str, str]
) -> list[str]:
    """Returns what the user should know of the settings, a sentence each."""
    notes = []
    if not all(languages):
        pair = f"{config.data.source_language} to {config.data.target_language}"
        notes.append(f"The folder does not name its languages; the run says {pair}.")
    without = {
        name: settings[name] for name in WITHOUT if settings.get(name, 0) not in WITHOUT[name]
    }
    if len(silenced_words(settings)) < len(settings.get("bad_words_ids") or ()):
        without["bad_words_ids"] = "of several pieces"
    if settings.get("length_penalty", 1.0) < 0:
        without["length_penalty"] = settings["length_penalty"]
    if without:
        listed = ", ".join(f"{name}={value}" for name, value in without.items())
        notes.append(f"The search here does without {listed}.")
    ended = [f"{name}={settings[name]}" for name in ENDS if settings.get(name) not in (None, False)]
    if ended:
        notes.append(
            f"Not used: {', '.join(ended)}; here a search is exact, and </s> is forced when a "
            f"translation has {config.decoding.max_extra_length} tokens more than its source."
        )
    return notes


def silenced_words(settings: Mapping[str, Any]) -> list[int]:
    """Returns their ids that no search may find."""
    return [words[0] for words in settings.get("bad_words_ids") or () if len(words) == 1]
