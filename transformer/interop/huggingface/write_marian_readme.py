"""README.md of a MarianMT folder: the lines of Python that translate with it, and its limits."""

from transformer.interop.portable_model import PortableModel
from transformer.interop.writing import first_pieces, is_gnmt, search_notes

TEXT = """\
# A translation model for transformers

```python
from transformers import MarianMTModel, MarianTokenizer

tokenizer = MarianTokenizer.from_pretrained(".")  # this folder
model = MarianMTModel.from_pretrained(".")
texts = ["{language}One sentence.", "{language}Another one."]
batch = tokenizer(texts, return_tensors="pt", padding=True)
{generate}
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
GNMT = """\
found = model.generate(
    **batch, num_return_sequences={width}, early_stopping=True, return_dict_in_generate=True,
    output_scores=True,
)
lengths = (found.sequences == model.config.eos_token_id).int().argmax(1)  # the end included
scores = found.sequences_scores * (6 * lengths / (5 + lengths)) ** {alpha:g}
for first, best in enumerate(scores.view(-1, {width}).argmax(1)):
    row = found.sequences[first * {width} + best]"""
CONTROL = """\
- `</s>`, `<unk>` and `<pad>` in a text are control tokens for MarianTokenizer, and text for us."""


def readme(model: PortableModel, *, start: str, has_tables: bool) -> str:
    """Returns README.md. has_tables: whether the folder holds positions."""
    config = model.config.model
    decoding = model.config.decoding
    generate = "for row in model.generate(**batch):"
    if is_gnmt(decoding):
        generate = GNMT.format(width=decoding.beam_size, alpha=decoding.alpha)
    notes = [*(f"- {note}" for note in search_notes(decoding, "transformers")), CONTROL]
    if has_tables:
        is_folded = config.positions == "sinusoidal"
        what = "the vector that its decoder starts with" if is_folded else "them"
        notes.insert(0, TABLES.format(what=what, way_out=WAY_OUT if is_folded else ""))
    if start == "token":
        notes.append(TOKEN)
    if config.norm_epsilon != 1e-5:
        notes.append(EPSILON.format(ours=config.norm_epsilon))
    language = "".join(f"{piece} " for piece in first_pieces(model.tokenizers[0]))
    return TEXT.format(language=language, generate=generate, notes="\n".join(notes))
