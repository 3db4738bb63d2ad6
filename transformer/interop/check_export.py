"""Compares a folder that was written with its run: some texts through both sides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import Restored
from transformer.data.tokenizer import Tokenizer
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.libraries import require
from transformer.special_tokens import NUM_SPECIAL

NUM_TEXTS = 8
EXTRA = 12  # tokens that a translation may have more than its source


@dataclass
class _Ours:
    """Texts and what a run makes of them by greedy search.

    pieces: of each text, EOS at the end. limits: the most tokens of each translation, at which ours
    has to end.
    """

    texts: list[str]
    pieces: list[list[str]]
    limits: list[int]
    translations: list[Translation]
    target: Tokenizer

    @classmethod
    def of(cls, run: Restored) -> "_Ours":
        """Translates random texts."""
        source, target = run.tokenizers
        texts = make_texts(source)
        pieces = [source.pieces(ids) for ids in source.encode(texts)]
        translator = Translator(run.config, None, (source, target))
        translator.use(run)
        options = dict(beam_size=1, alpha=0.0, max_extra_length=EXTRA)
        limits = [len(row) + EXTRA for row in pieces]
        return cls(texts, pieces, limits, translator.translate(texts, **options), target)

    def compare(self, pieces: Sequence[Sequence[str]], log_probs: Sequence[float]) -> str:
        """Returns a sentence about the others' translations, and their log p of ours."""
        found = [self.target.pieces(ours.ids) for ours in self.translations]
        num_equal = count_equal(found, pieces, self.limits)
        difference = max(
            abs(ours.log_prob - log_prob) / ours.num_pieces
            for ours, log_prob in zip(self.translations, log_probs, strict=True)
        )
        return (
            f"checked: {num_equal} of {len(self.texts)} greedy translations of random text are "
            f"equal, and the log-probabilities of words within {difference:.1g}"
        )


def count_equal(
    ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]], limits: Sequence[int]
) -> int:
    """Returns how many translations are equal, as pieces with EOS at the end.

    At its limit ours has to end, and theirs has not; behind its end theirs may have padding.
    """
    lengths = [min(len(row), limit - 1) for row, limit in zip(ours, limits, strict=True)]
    rows = zip(ours, theirs, lengths, strict=True)
    return sum(list(a[:length]) == list(b[:length]) for a, b, length in rows)


def make_texts(tokenizer: Tokenizer) -> list[str]:
    """Returns texts of random pieces, as the corpus of a run may lie elsewhere."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(NUM_SPECIAL, tokenizer.vocab_size, 2 + n) for n in range(NUM_TEXTS)]
    return [text for text in map(tokenizer.decode, rows) if text.strip()]


def check_ctranslate2(run: Restored, folder: PathLike) -> str:
    """Returns a sentence on what CTranslate2 makes of some texts beside what we make."""
    ours = _Ours.of(run)
    engine = require("ctranslate2").Translator(str(folder), compute_type="default")
    sources = [row[:-1] for row in ours.pieces]
    prefix = ours.target.pieces(ours.target.encode([""])[0][:-1])
    results = engine.translate_batch(
        sources,
        target_prefix=[prefix] * len(sources),
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=max(ours.limits),
        return_end_token=True,
    )
    targets = [ours.target.pieces(translation.ids[:-1]) for translation in ours.translations]
    log_probs = [sum(scored.log_probs) for scored in engine.score_batch(sources, targets)]
    return ours.compare([result.hypotheses[0] for result in results], log_probs)


def check_marian(run: Restored, folder: PathLike) -> str:
    """Returns a sentence on what transformers makes of some texts beside what we make."""
    try:
        torch, transformers = require("torch"), require("transformers")
    except ValueError:
        return "not checked: that needs torch and transformers"
    transformers.utils.logging.disable_progress_bar()
    ours = _Ours.of(run)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    language = "".join(getattr(run.tokenizers[0], "first", []))
    texts = [f"{language}{text}" for text in ours.texts]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    most = max(ours.limits)
    rows = model.generate(**batch, num_beams=1, length_penalty=None, max_length=1 + most)
    found = [tokenizer.convert_ids_to_tokens(row[1:]) for row in rows]
    targets = [ours.target.pieces(translation.ids) for translation in ours.translations]
    ids = tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
    labels = [torch.tensor([ids[piece] for piece in pieces]) for pieces in targets]
    labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    with torch.no_grad():
        log_probs = model(**batch, labels=labels).logits.log_softmax(-1)
    scores = log_probs.gather(-1, labels.clamp(min=0)[..., None])[..., 0] * (labels >= 0)
    return ours.compare(found, scores.sum(-1).tolist())
