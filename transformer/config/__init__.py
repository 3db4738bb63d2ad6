"""The configuration of an experiment: `Config` and its groups of settings."""

from transformer.config.data import DataConfig, TokenizerConfig
from transformer.config.experiment import Config
from transformer.config.groups import (
    MOST_EXTRA,
    MOST_HYPOTHESES,
    DecodingConfig,
    MeshConfig,
    OptimizerConfig,
    TrainingConfig,
)
from transformer.config.model import ModelConfig

__all__ = [
    "MOST_EXTRA",
    "MOST_HYPOTHESES",
    "Config",
    "DataConfig",
    "DecodingConfig",
    "MeshConfig",
    "ModelConfig",
    "OptimizerConfig",
    "TokenizerConfig",
    "TrainingConfig",
]
