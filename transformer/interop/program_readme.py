"""The README.md beside an exported search: how to call it, without this package."""

from pathlib import Path

import jax

from transformer.checkpoint.restore import Run
from transformer.data.list_tokenizers import PieceListTokenizer
from transformer.data.tokenizer import SentencePieceTokenizer
from transformer.search.options import SearchOptions

README = """# {languages}: a translation search as a program

`program.jaxexport` is the search of {checkpoint} of a run of `transformer`: {search}.
{start}It needs JAX, and neither the package that trained it nor Flax:

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

PIECE_LISTS = '''

class PieceList:
    """A SentencePiece model that splits text into pieces, and a list that gives their ids."""

    def __init__(self, file):
        content = json.load(open(file))
        self.pieces, self.first = content["pieces"], content["first"]
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.model = SentencePieceProcessor(model_proto=base64.b64decode(content["model"]))

    def encode(self, text):
        return [self.ids.get(p, 3) for p in [*self.first, *self.model.encode(text, out_type=str)]]

    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids if self.pieces[i] not in self.first]
        return self.model.decode_pieces(pieces).replace("▁", " ").strip()

'''
READERS = {  # in the README, of the files of vocabularies that SentencePiece reads
    SentencePieceTokenizer.suffix: 'SentencePieceProcessor(model_file="{}")',
    PieceListTokenizer.suffix: 'PieceList("{}")',
}
TEXT_ROWS = """sentences = ["One sentence.", "Another, longer sentence."]
rows = [[*source.encode(sentence), 2] for sentence in sentences]"""
ID_ROWS = """# The ids of each sentence: transformer.data.tokenizer_files.load_tokenizers(".")
rows = [[4, 5, 2], [4, 5, 4, 5, 2]]"""


def program_readme(restored: Run, search: SearchOptions, files: list[str]) -> str:
    """Returns the text; files: the names of the tokenizers' files, source before target."""
    has_text = {tokenizer.suffix for tokenizer in restored.tokenizers} <= READERS.keys()
    data, target = restored.config.data, restored.tokenizers[1]
    start = " ".join(target.pieces(target.encode([""])[0][:-1]))
    return README.format(
        languages=f"{data.source_language}-{data.target_language}",
        checkpoint=restored.checkpoint,
        search=_describe(search),
        start=f"Every translation begins with `{start}`. " if start else "",
        sentencepiece=" sentencepiece" if has_text else "",
        load_tokenizers=_load(files) if has_text else "",
        rows=TEXT_ROWS if has_text else ID_ROWS,
        show="target.decode(row[: row.index(2)])" if has_text else "row[: row.index(2)]",
        extra=search.max_extra_length,
        longest=data.row_length,
        version=jax.__version__,
    )


def _load(files: list[str]) -> str:
    """Returns the lines that read the source's and the target's tokenizer; one file is of both."""
    pair = [READERS[Path(file).suffix].format(file) for file in (files[0], files[-1])]
    has_lists = any(file.endswith(PieceListTokenizer.suffix) for file in files)
    lines = ["import base64, json"] if has_lists else []
    lines += ["from sentencepiece import SentencePieceProcessor", PIECE_LISTS if has_lists else ""]
    lines += [f"{name} = {reader}" for name, reader in zip(("source", "target"), pair, strict=True)]
    return "\n".join([*lines, ""])


def _describe(search: SearchOptions) -> str:
    """As "beam search of 4, length penalty gnmt with alpha 0.6"."""
    kind = "greedy search" if search.beam_size == 1 else f"beam search of {search.beam_size}"
    return f"{kind}, length penalty {search.length_penalty} with alpha {search.alpha}"
