"""The README.md beside an exported search: how to call it, without this package."""

import jax

from transformer.checkpoint.restore import Restored
from transformer.data.tokenizer import SentencePieceTokenizer
from transformer.search.options import SearchOptions

README = """# {languages}: a translation search as a program

`program.jaxexport` is the search of {checkpoint} of a run of `transformer`: {search}.
It needs JAX, and neither the package that trained it nor Flax:

    pip install jax flatbuffers numpy safetensors{sentencepiece}

```python
import jax, jax.export, numpy as np
from safetensors.numpy import load_file
{load_tokenizers}
program = jax.export.deserialize(bytearray(open("program.jaxexport", "rb").read()))
params = jax.device_put(load_file("params.safetensors"))
translate = jax.jit(program.call)

{rows}
lengths = np.array([len(row) for row in rows], np.int32)
inputs = np.stack([np.pad(row, (0, max(lengths) - len(row))) for row in rows]).astype(np.int32)
ids, scores = translate(params, inputs, lengths)
for row, score in zip(np.asarray(ids).tolist(), np.asarray(scores).tolist()):
    print(f"{{score:.3f}}", {show})
```

## translate(params, inputs, lengths) -> (ids, scores)

| array | shape | type | |
|---|---|---|---|
| params | | | a dict of the arrays of `params.safetensors` by their names |
| inputs | [b, s] | int32 | the ids of each sentence, 2 (EOS) at its end, anything behind it |
| lengths | [b] | int32 | how many ids each sentence has, EOS included: at most s |
| ids | [b, s + {extra}] | int32 | the best translation of each, 2 (EOS) at its end, 0 behind it |
| scores | [b] | float32 | its log-probability, divided by the length penalty |

A sentence of n ids has a translation of at most n + {extra}. A row of length 0 holds no sentence
and gets no result. Of the ids, 0 to 3 are padding, start, end and unknown.

b and s are any numbers from 1 on. Each pair of them is compiled when it first comes, which takes
seconds: pad to a few, as s to 16, 32, 64, … and b to 1, 8, 64. Padding changes results by rounding
alone. The model was trained on sentences of up to {longest} ids.

## Platforms and versions

It runs on the device that JAX finds: CPU, TPU or NVIDIA GPU. It was written by JAX {version}. JAX
promises to read it in versions up to six months newer and three weeks older (the compatibility
window of StableHLO); versions beyond that may refuse it. So keep the weights and not the program:
the run can be exported again, and `params.safetensors`, `config.json` and the vocabulary last.
"""

LOAD = """from sentencepiece import SentencePieceProcessor

source, target = (SentencePieceProcessor(model_file=file) for file in ({files}))
"""
TEXT_ROWS = """sentences = ["One sentence.", "Another, longer sentence."]
rows = [[*source.encode(sentence), 2] for sentence in sentences]"""
ID_ROWS = "rows = [[4, 5, 2], [4, 5, 4, 5, 2]]  # the ids of each sentence"


def program_readme(restored: Restored, search: SearchOptions, files: list[str]) -> str:
    """Returns the text; files: the names of the tokenizers' files, source before target."""
    has_text = all(isinstance(t, SentencePieceTokenizer) for t in restored.tokenizers)
    pair = [f'"{file}"' for file in (files[0], files[-1])]
    data = restored.config.data
    return README.format(
        languages=f"{data.source_language}-{data.target_language}",
        checkpoint=restored.checkpoint,
        search=_describe(search),
        sentencepiece=" sentencepiece" if has_text else "",
        load_tokenizers=LOAD.format(files=", ".join(pair)) if has_text else "",
        rows=TEXT_ROWS if has_text else ID_ROWS,
        show="target.decode(row[: row.index(2)])" if has_text else "row[: row.index(2)]",
        extra=search.max_extra_length,
        longest=data.row_length,
        version=jax.__version__,
    )


def _describe(search: SearchOptions) -> str:
    """As "beam search of 4, length penalty gnmt with alpha 0.6"."""
    kind = "greedy search" if search.beam_size == 1 else f"beam search of {search.beam_size}"
    return f"{kind}, length penalty {search.length_penalty} with alpha {search.alpha}"
