"""The Transformer of "Attention Is All You Need" (arXiv 1706.03762) in JAX and Flax.

The axis key, used in every shape of this package (the letters of `jax.nn.dot_product_attention`):

    B batch          T target or query length   S source or key length   D model width, d_model
    N heads, h       H width of a head, d_k     F feed-forward width     V vocabulary   W beam width

`Translator.from_checkpoint("runs/x").translate(["…"])` is the way in from Python; `train.py` and
`eval.py` are the ways in from a shell.
"""

__version__ = "0.2.0"
__all__ = ["Classifier", "Config", "LanguageModel", "Transformer", "Translator"]


def __getattr__(name):
    """Imports the public names on first use, so that the text rooms stay free of jax."""
    from importlib import import_module

    homes = {
        "Classifier": "inference.classifier",
        "Config": "config",
        "LanguageModel": "inference.language_model",
        "Transformer": "model.encoder_decoder",
        "Translator": "inference.translator",
    }
    if name not in homes:
        raise AttributeError(f"module 'transformer' has no attribute '{name}'")
    return getattr(import_module(f"transformer.{homes[name]}"), name)
