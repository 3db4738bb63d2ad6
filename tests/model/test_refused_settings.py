"""What no model can honour is refused with its configuration, before anything is compiled."""

import pytest

from transformer.config import Config

XL = {"model.block": "transformer_xl", "model.positions": "rotary", "task": "language_model"}
HARD = {"model.attention": "hard"}
LM = {"task": "language_model"}


def settings(text):
    """ "a=1 b=x" as {"model.a": 1, "model.b": "x"}."""
    pairs = (pair.split("=") for pair in text.split())
    values = {name: int(value) if value.isdigit() else value for name, value in pairs}
    values = {n: float(v) if "rate" in n else v for n, v in values.items()}
    return {f"model.{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ("attention=fused attention_dropout_rate=0.1", "fused has no weights to drop"),
        ("attention=location max_positions=64", r"max_positions \(64\) must be at least"),
        ("attention=cosine", "one of scaled_dot_product, dot_product, general"),
        ("attention=local attention_block=0", "attention_block must be at least 1"),
        ("positions=alibi attention=fused", "set model.attention to scaled_dot_product or"),
        ("positions=t5 attention=additive", "does not allow"),
        ("positions=relative attention=dot_product", "to scaled_dot_product, or choose"),
        ("positions=alibi attention=local", "that model.attention=local does not"),
        ("positions=rotary attention=additive", "scaled_dot_product or dot_product or content"),
        ("positions=rotary head_dim=5", "must be even, not 5"),
        (XL | {"task": "translation"}, "is for task=language_model"),
        (XL | settings("positions=learned"), "model.positions to be one of none"),
        (XL | settings("attention=local"), "model.attention to be one of"),
        (XL | settings("segment_length=256"), "must be longer than model.segment_length"),
        (HARD | {"remat": True}, "set remat=False and scan_layers=False"),
        (HARD | settings("attention_dropout_rate=0.1"), "hard has no weights to drop"),
        (HARD | {"task": "masked_lm"}, "it is for task=translation, not masked_lm"),
        (HARD | LM, "to the source: it is for task=translation"),
        (LM | settings("attention=location"), "to the source: it is for task=translation"),
    ],
)
def test_what_cannot_be_honoured_is_refused(changes, sentence):
    """Catches settings without effect, and a run that dies at its first step."""
    Config().with_values(XL).validate()
    changes = settings(changes) if isinstance(changes, str) else changes
    with pytest.raises(ValueError, match=sentence):
        Config().with_values(changes).validate()
