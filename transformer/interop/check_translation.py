"""Compares a translation model with the same one in another engine: greedy search of some texts."""

from collections.abc import Sequence
from typing import Any

from etils.epath import PathLike

from transformer.checkpoint.restore import Run
from transformer.data.corpora import Tags
from transformer.inference.translator import Translator
from transformer.interop.beside_transformers import LOCAL, check_beside, random_texts
from transformer.interop.written_model import first_pieces
from transformer.optional_libraries import require

EXTRA = 12  # tokens that a translation may have more than its source


class _Ours:
    """Texts and what a run makes of them by greedy search.

    texts: random ones. sources, targets: the pieces of each and of its translation, EOS at the end.
    limits: the most tokens of each translation, at which ours has to end.
    """

    def __init__(self, run: Run) -> None:
        source, target = run.tokenizers
        self.texts = [*map(Tags(run.config.data).put_on, random_texts(source))]
        self.sources = [source.pieces(ids) for ids in source.encode(self.texts)]
        self.limits = [len(row) + EXTRA for row in self.sources]
        options = dict(beam_size=1, alpha=0.0, max_extra_length=EXTRA)
        found = Translator(run).translate(self.texts, **options)
        self.targets = [target.pieces(translation.ids) for translation in found]
        self._log_probs = [translation.log_prob for translation in found]

    def compare(
        self, translations: Sequence[Sequence[str]], log_probs: Sequence[float]
    ) -> tuple[float, str]:
        """Returns (the difference of log-probabilities a token, what has been compared).

        translations: the pieces of theirs; log_probs: what they give ours.
        """
        num_equal = count_equal(self.targets, translations, self.limits)
        rows = zip(self._log_probs, log_probs, self.targets, strict=True)
        difference = max(abs(ours - theirs) / len(target) for ours, theirs, target in rows)
        return difference, (
            f"{num_equal} of {len(self.texts)} greedy translations of random text are equal, and "
            f"the log-probabilities of tokens"
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


def check_ctranslate2(run: Run, folder: PathLike) -> str:
    """Returns a sentence on what CTranslate2 makes of some texts beside what we make.

    Whether the difference is large depends on the quantization.
    """
    ours = _Ours(run)
    engine = require("ctranslate2").Translator(str(folder), compute_type="default")
    sources, first = [row[:-1] for row in ours.sources], first_pieces(run.tokenizers[1])
    results = engine.translate_batch(
        sources,
        target_prefix=[first] * len(sources),
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=max(ours.limits),
        return_end_token=True,
    )
    scored = engine.score_batch(sources, [row[:-1] for row in ours.targets])
    log_probs = [sum(row.log_probs[len(first) :]) for row in scored]
    difference, what = ours.compare([result.hypotheses[0] for result in results], log_probs)
    return f"checked: {what} within {difference:.1g}"


def check_translation(run: Run, folder: PathLike) -> str:
    """Returns a sentence on what transformers makes of some texts beside what we make."""

    def compare(torch: Any, transformers: Any) -> tuple[float, str]:
        data = run.config.data
        languages = {"src_lang": data.source_language, "tgt_lang": data.target_language}
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL, **languages)
        load = transformers.AutoModelForSeq2SeqLM.from_pretrained
        model = load(folder, dtype=torch.float32, **LOCAL).eval()
        ours = _Ours(run)
        batch = tokenizer(_their_texts(ours.texts, run), return_tensors="pt", padding=True)
        ids = getattr(tokenizer, "target_encoder", None) or tokenizer.get_vocab()
        names = {i: piece for piece, i in ids.items()}
        first = first_pieces(run.tokenizers[1])
        rows = model.generate(
            **batch,
            num_beams=1,
            do_sample=False,
            length_penalty=None,
            max_length=None,
            max_new_tokens=max(ours.limits),
            forced_bos_token_id=ids[first[0]] if first else None,
        )
        found = [[names.get(i, "") for i in row[1:].tolist()] for row in rows]  # behind their start
        labels = [torch.tensor([ids[piece] for piece in row]) for row in ours.targets]
        labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
        with torch.no_grad():
            logits = model(**batch, labels=labels).logits
        silenced = model.generation_config.bad_words_ids or []
        logits[..., [words[0] for words in silenced if len(words) == 1]] = -torch.inf
        log_probs = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        scores = log_probs.where(labels >= 0, 0.0)[:, len(first) :].sum(-1)
        return ours.compare(found, scores.tolist())

    return check_beside(folder, compare)


def _their_texts(texts: Sequence[str], run: Run) -> list[str]:
    """Returns the texts with the language that MarianTokenizer, unlike the others, does not add."""
    language = "".join(first_pieces(run.tokenizers[0]))
    return [f"{language}{text}" if language.startswith(">>") else text for text in texts]
