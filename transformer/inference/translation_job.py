"""The job of translating a text file, or of scoring given translations of it."""

from dataclasses import dataclass, field
from typing import Any

from transformer.inference.chunks import Chunk
from transformer.inference.file_job import FileJob, identity_of
from transformer.inference.output_formats import format_chunk
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator


@dataclass(frozen=True)
class TranslationJob(FileJob[Translator]):
    """What to write for each line; fields are named as the flags of eval.py.

    nbest: translations per line (0: one), with their numbers and scores.
    scores: whether each translation is followed by its score.
    jsonl: whether a line is a JSON object.
    alignments: whether each translation is followed by its word alignment.
    score: a file of targets to be scored; nothing is translated then.
    prefixes: a file with the beginning of each translation.
    options: search options, as `Translator.translate` takes them.
    """

    nbest: int = 0
    scores: bool = False
    jsonl: bool = False
    alignments: bool = False
    score: str = ""
    prefixes: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def style(self) -> str:
        """The name of its output format in `output_formats.STYLES`."""
        if self.alignments and not self.jsonl:
            return "alignments"
        if self.score:
            return "log_probs_jsonl" if self.jsonl else "log_probs"
        chosen = {"jsonl": self.jsonl, "nbest": self.nbest, "scores": self.scores}
        return next((name for name, is_chosen in chosen.items() if is_chosen), "text")

    @property
    def files(self) -> list[str]:
        """The files that are read: the input, and the targets or prefixes of its lines."""
        return [path for path in (self.input, self.score or self.prefixes) if path]

    def check_options(self, model: Translator) -> None:
        companions = [] if len(self.files) == 2 else None
        self._output(model, Chunk(0, 0, [], companions))

    def _output(self, model: Translator, chunk: Chunk) -> tuple[bytes, int]:
        nbest = self._nbest(model, chunk)
        if self.alignments:
            best = [found[0] for found in nbest]
            for one, pairs in zip(best, model.align(chunk.lines, best), strict=True):
                one.alignment = pairs
        return format_chunk(self.style, chunk, nbest), sum(len(best[0].ids) for best in nbest)

    def _nbest(self, translator: Translator, chunk: Chunk) -> list[list[Translation]]:
        """Returns a list of Translations per line, best first; the given target if `score`."""
        if self.score:
            return [[t] for t in translator.score(chunk.lines, chunk.companions or [])]
        options = self.options | {"prefixes": chunk.companions}
        if self.nbest:
            return translator.translate(chunk.lines, nbest=self.nbest, **options)
        return [[t] for t in translator.translate(chunk.lines, **options)]

    def _identity(self, model: Translator) -> dict[str, Any]:
        values = model.config.values()
        decoding = {
            setting.name: values[setting.name]
            for setting in model.config.settings()
            if setting.name.startswith("decoding.") and setting.changes_result
        }
        return {
            **identity_of(model),
            **decoding,
            "options": self.options,
            "format": f"{self.style} {self.nbest}".removesuffix(" 0"),
            "score": bool(self.score),
            **({"alignments": True} if self.alignments else {}),
            "prefixes": bool(self.prefixes),
        }
