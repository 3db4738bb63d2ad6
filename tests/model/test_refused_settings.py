"""What no model can honour is refused with its configuration, before anything is compiled."""

import pytest

from transformer.config import Config, ModelConfig

XL = dict(block="transformer_xl", positions="rotary")
HARD = dict(attention="hard")
LM, MT = "language_model", "translation"


@pytest.mark.parametrize(
    ("task", "model", "sentence"),
    [
        (MT, dict(attention="fused", attention_dropout_rate=0.1), "fused has no weights to drop"),
        (MT, dict(attention="location", max_positions=64), r"ons \(64\) must be at least"),
        (MT, dict(attention="cosine"), "one of scaled_dot_product, dot_product, general"),
        (MT, dict(attention="local", attention_block=0), "attention_block must be at least 1"),
        (MT, dict(positions="alibi", attention="fused"), "ion to scaled_dot_product or"),
        (MT, dict(positions="t5", attention="additive"), "does not allow"),
        (MT, dict(positions="relative", attention="dot_product"), "to scaled_dot_product, or"),
        (MT, dict(positions="rotary", attention="additive"), "_product or dot_product or content"),
        (MT, dict(positions="rotary", head_dim=5), "must be even, not 5"),
        (MT, XL, "is for task=language_model"),
        (LM, XL | dict(positions="learned"), "model.positions to be one of none"),
        (LM, XL | dict(attention="local"), "model.attention to be one of"),
        (LM, XL | dict(segment_length=256), "must be longer than model.segment_length"),
        (MT, HARD | dict(remat=True), "set remat=False and scan_layers=False"),
        (MT, HARD | dict(attention_dropout_rate=0.1), "hard has no weights to drop"),
        ("masked_lm", HARD, "it is for task=translation, not masked_lm"),
        (LM, dict(attention="location"), "to the source: it is for task=translation"),
    ],
)
def test_what_cannot_be_honoured_is_refused(task, model, sentence):
    """Catches settings without effect, and a run that dies at its first step."""
    Config(task=LM, model=ModelConfig(**XL)).validate()
    remat = model.pop("remat", False)
    with pytest.raises(ValueError, match=sentence):
        Config(task=task, remat=remat, model=ModelConfig(**model)).validate()
