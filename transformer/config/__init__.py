"""The configuration of an experiment: `Config` and its groups of settings."""

from transformer.config.data import DataConfig, TokenizerConfig
from transformer.config.experiment import Config
from transformer.config.groups import DecodingConfig, MeshConfig, OptimizerConfig, TrainingConfig
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
