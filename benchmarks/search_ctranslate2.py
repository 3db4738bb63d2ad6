"""Contestant: CTranslate2 with the same weights, converted.

It sorts and batches by itself. The size of a batch, and whether the threads share a batch or have
one each, are those that were fastest. Its length penalty is our "power" (with return_end_token, n
counts EOS). Without a length penalty, its beam search ends when the first hypothesis is finished,
which is exact; with one, when W are finished, a heuristic that can find less than our search.
"""

import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import ctranslate2
from search_workload import EXTRA, SearchWorkload

from transformer.config import ModelConfig
from transformer.interop.ctranslate2 import MAX_INPUT_LENGTH, make_spec, save_spec

BATCHES = "32 examples", "64 examples", "1024 tokens"


class Tuned:
    """Calls run(candidate, …) with the fastest candidate.

    The first call with a beam size and α times every candidate. `note` has the seconds of each for
    the last search, the fastest first.
    """

    def __init__(self, run: Callable, candidates: Sequence[Any]) -> None:
        self._run, self._candidates = run, candidates
        self._tried: dict[tuple[int, float], list[tuple[Any, float]]] = {}
        self.note = ""

    def __call__(self, beam_size: int, alpha: float, **options: Any) -> Any:
        """Returns what `run` returns with the fastest candidate."""
        search = beam_size, alpha
        if search not in self._tried and len(self._candidates) > 1:
            self._run(self._candidates[0], *search, **options)
            seconds = {c: self._seconds(c, *search, **options) for c in self._candidates}
            self._tried[search] = sorted(seconds.items(), key=lambda tried: tried[1])
        tried = self._tried.get(search, [(self._candidates[0], 0.0)])
        self.note = ", ".join(f"{c}: {s:.3f} s" for c, s in tried if s)
        return self._run(tried[0][0], *search, **options)

    def _seconds(self, *args: Any, **options: Any) -> float:
        start = time.perf_counter()
        self._run(*args, **options)
        return time.perf_counter() - start


def make_search(workload: SearchWorkload, compute_type: str = "") -> Tuned:
    """Returns search(beam_size, alpha, …), which returns `nbest` translations per sentence.

    compute_type: of its matrix products, for example int8; empty: the workload's.
    """
    split, join = make_tokenizer(workload)
    translators = make_translators(workload, compute_type or workload.dtype)
    sentences = workload.sentences()
    longest = max(map(len, split(sentences)))

    def run(
        candidate: str,
        beam_size: int,
        alpha: float,
        num_tokens: int = 0,
        nbest: int = 1,
        early_stopping: bool = True,
    ) -> list[list[str]]:
        del early_stopping  # with a length penalty it always stops early
        translator, _, max_batch_size, batch_type = candidate.split()
        results = translators[int(translator)].translate_batch(
            split(sentences),
            batch_type=batch_type,
            max_batch_size=int(max_batch_size),
            beam_size=beam_size,
            length_penalty=alpha,
            num_hypotheses=nbest,
            min_decoding_length=num_tokens,
            max_decoding_length=num_tokens or longest + EXTRA,
            return_end_token=True,
        )
        return [join(result.hypotheses) for result in results]

    if workload.is_text:
        candidates = [f"{count} × {batch}" for count in translators for batch in BATCHES]
    else:  # all sentences at once, in equal shares for the translators
        candidates = [f"{n} × {-(-len(sentences) // n)} examples" for n in translators]
    return Tuned(run, candidates)


def make_translators(
    workload: SearchWorkload, compute_type: str
) -> dict[int, ctranslate2.Translator]:
    """Returns {number of batches at a time: translator}, whose threads share a batch or do not."""
    folder = str(pathlib.Path(workload.folder) / f"ctranslate2_{compute_type}")
    config, weights, vocabulary = workload.model()
    spec = make_spec(ModelConfig(**config), weights, [vocabulary] * 2, MAX_INPUT_LENGTH)
    save_spec(spec, pathlib.Path(folder))
    if workload.device == "gpu":
        halves = {"bfloat16": "float16", "int8": "int8_float16"}
        on_gpu = halves.get(compute_type, compute_type)
        return {1: ctranslate2.Translator(folder, "cuda", compute_type=on_gpu)}
    counts = (1, workload.num_threads) if workload.num_threads > 1 else (1,)
    return {
        count: ctranslate2.Translator(
            folder,
            compute_type=compute_type,
            inter_threads=count,
            intra_threads=workload.num_threads // count,
        )
        for count in counts
    }


def make_tokenizer(workload: SearchWorkload) -> tuple[Callable, Callable]:
    """Returns split (sentences to lists of pieces) and join (the reverse, with EOS or without)."""
    if not workload.is_text:
        return (
            lambda sentences: [sentence.split() for sentence in sentences],
            lambda hypotheses: [" ".join(without_end(pieces)) for pieces in hypotheses],
        )
    import sentencepiece

    path = str(pathlib.Path(workload.folder) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        lambda sentences: processor.encode(sentences, out_type=str),
        lambda hypotheses: [processor.decode(without_end(pieces)) for pieces in hypotheses],
    )


def without_end(pieces: list[str]) -> list[str]:
    """Returns the pieces before EOS, which is missing if the length limit was reached."""
    return pieces[:-1] if pieces[-1:] == ["</s>"] else pieces
