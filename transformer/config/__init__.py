"""The configuration of an experiment: `Config` and its groups of settings."""

from transformer.config.experiment import Config
from transformer.config.groups import (
    DataConfig,
    DecodingConfig,
    MeshConfig,
    OptimizerConfig,
    TokenizerConfig,
    TrainingConfig,
)
from transformer.config.model import ModelConfig

__all__ = [
    "Config",
    "DataConfig",
    "DecodingConfig",
    "MeshConfig",
    "ModelConfig",
    "OptimizerConfig",
    "TokenizerConfig",
    "TrainingConfig",
]
