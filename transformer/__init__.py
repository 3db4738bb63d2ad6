"""The Transformer of "Attention Is All You Need" (arXiv 1706.03762) in JAX and Flax.

The axis key, used in every shape of this package (the letters of `jax.nn.dot_product_attention`):

    B batch          T target or query length   S source or key length   D model width, d_model
    N heads, h       H width of a head, d_k     F feed-forward width     V vocabulary   W beam width

`train(config, "runs/x")` trains a run that a `Config` describes, and `evaluate("runs/x")` scores
it; `Translator`, `Classifier`, `Tagger`, `LanguageModel` and `TextEncoder` use it:
`Translator.from_checkpoint("runs/x").translate(["…"])`. `restore("runs/x")` returns its model,
parameters, configuration and tokenizers; `pad`, `cross_entropy`, `Run.in_memory` and `save_run` are
for a training loop of one's own. The functions `register_…` add attention functions, tasks
and metrics of one's own. `train.py` and `eval.py` are the commands.
"""

from importlib.util import find_spec

from etils import epy

if find_spec("fcntl") is None:  # as in native Windows
    raise ImportError("transformer runs on Linux and macOS; on Windows, install it inside WSL.")

with epy.lazy_api_imports(globals()):  # so that `import transformer` does not import JAX
    from transformer.checkpoint.export import save_run
    from transformer.checkpoint.restore import Run, restore
    from transformer.config import Config
    from transformer.data.rows.batch import pad
    from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
    from transformer.evaluation.attention_maps import draw_attention
    from transformer.evaluation.evaluate import compare, evaluate
    from transformer.inference.encoders import Classifier, Tagger, TextEncoder
    from transformer.inference.file_job import answer_file, translate_file
    from transformer.inference.language_model import LanguageModel
    from transformer.inference.translator import Translator
    from transformer.interop.export_model import export_model
    from transformer.interop.import_model import import_model
    from transformer.model.encoder_decoder import Transformer
    from transformer.model.loss import cross_entropy
    from transformer.registry import (
        register_attention,
        register_block,
        register_metric,
        register_position_encoding,
        register_task,
    )
    from transformer.training.run import train

__version__ = "0.3.0"
__all__ = [
    "Classifier",
    "Config",
    "LanguageModel",
    "Run",
    "SentencePieceTokenizer",
    "Tagger",
    "TextEncoder",
    "Transformer",
    "Translator",
    "answer_file",
    "compare",
    "cross_entropy",
    "draw_attention",
    "evaluate",
    "export_model",
    "import_model",
    "pad",
    "register_attention",
    "register_block",
    "register_metric",
    "register_position_encoding",
    "register_task",
    "restore",
    "save_run",
    "train",
    "translate_file",
]
