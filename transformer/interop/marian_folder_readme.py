"""README.md of a MarianMT folder: the lines of Python that translate with it, and its limits."""

from transformer.data.piece_list_tokenizer import PieceListTokenizer
from transformer.interop.imported_model import ImportedModel

TEXT = """\
# A translation model for transformers

```python
from transformers import MarianMTModel, MarianTokenizer

tokenizer = MarianTokenizer.from_pretrained(".")  # this folder
model = MarianMTModel.from_pretrained(".")
texts = ["{language}One sentence.", "{language}Another one."]
batch = tokenizer(texts, return_tensors="pt", padding=True)
for row in model.generate(**batch):
    print(tokenizer.decode(row, skip_special_tokens=True, use_source_tokenizer=False))
```

`pip install transformers torch sentencepiece sacremoses` is what it needs.

{notes}
"""
TABLES = """- Use the folder as it is. `save_pretrained` writes no positions of a MarianMT: what it
  makes of this model, after fine-tuning too, has lost {what}.{way_out}"""
WAY_OUT = "\n  To train it further with transformers, export it with start=token."
TOKEN = """- Its decoder starts with `<s>`, so that it can be trained further. The converter of
  CTranslate2 would start it with zeros: use the format ctranslate2, or start=zero."""
EPSILON = "- Layer normalisation has ε = 1e-5 there and {ours:g} here: logits differ by some 1e-5."
GNMT = """- The run divides log-probabilities by ((5+n)/6)^α; transformers divides by n^α, so
  that with the same α a translation of another length can win."""
SEARCH = """- A beam search of transformers may end before ours does, with a worse translation;
  greedy search (num_beams=1) is the same.
- `</s>`, `<unk>` and `<pad>` in a text are control tokens for MarianTokenizer, and text
  for us."""


def readme(model: ImportedModel, *, start: str, has_tables: bool) -> str:
    """Returns README.md. has_tables: whether the folder holds positions."""
    config, decoding, source = model.config.model, model.config.decoding, model.tokenizers[0]
    notes = [SEARCH]
    if has_tables:
        is_folded = config.positions == "sinusoidal"
        what = "the vector that its decoder starts with" if is_folded else "them"
        notes.insert(0, TABLES.format(what=what, way_out=WAY_OUT if is_folded else ""))
    if start == "token":
        notes.append(TOKEN)
    if config.norm_epsilon != 1e-5:
        notes.append(EPSILON.format(ours=config.norm_epsilon))
    if decoding.length_penalty == "gnmt" and decoding.alpha:
        notes.append(GNMT)
    first = source.first if isinstance(source, PieceListTokenizer) else []
    language = f"{first[0]} " if first else ""
    return TEXT.format(language=language, notes="\n".join(notes))
