"""Contestant: CTranslate2 with the same weights, converted.

It gets text or pieces and does what ours does with SentencePiece, its own sorting and batching; how
many sentences or tokens a batch holds, and whether the threads share a batch or have one each, is
what was fastest. Its length penalty is our "power" (return_end_token lets n count EOS). Its beam
search ends after the first hypothesis that ends if lengths do not count, which is exact, and else
after as many as the beam is wide, which is a heuristic of it and can find less than ours.
"""

import pathlib

import ctranslate2
from to_ctranslate2 import OurConverter
from tuning import Tuned

BATCHES = "32 examples", "64 examples", "1024 tokens"
EXTRA = 50  # pieces that a translation may have more than the longest source


def make_search(workload):
    """search(beam_size, alpha, …) -> the `nbest` translations of each sentence."""
    split, join = make_tokenizer(workload)
    translators = make_translators(workload)
    sentences = workload.sentences()
    longest = max(map(len, split(sentences)))

    def run(candidate, beam_size, alpha, num_pieces=0, nbest=1, early_stopping=True):
        del early_stopping  # where lengths count it always does
        translator, _, max_batch_size, batch_type = candidate.split()
        results = translators[int(translator)].translate_batch(
            split(sentences),
            batch_type=batch_type,
            max_batch_size=int(max_batch_size),
            beam_size=beam_size,
            length_penalty=alpha,
            num_hypotheses=nbest,
            min_decoding_length=num_pieces,
            max_decoding_length=num_pieces or longest + EXTRA,
            return_end_token=True,
        )
        return [join(result.hypotheses) for result in results]

    if workload.is_text:
        candidates = [f"{count} × {batch}" for count in translators for batch in BATCHES]
    else:  # all of it, a share for each translator
        candidates = [f"{n} × {-(-len(sentences) // n)} examples" for n in translators]
    return Tuned(run, candidates)


def make_translators(workload):
    """{number of batches at a time: ctranslate2.Translator}: threads share a batch, or not."""
    folder = str(pathlib.Path(workload.folder) / "ctranslate2")
    OurConverter(*workload.model()).convert(folder, force=True)
    if workload.device == "gpu":
        return {1: ctranslate2.Translator(folder, "cuda", compute_type="float16")}
    counts = (1, workload.num_threads) if workload.num_threads > 1 else (1,)
    return {
        count: ctranslate2.Translator(
            folder,
            compute_type=workload.dtype,
            inter_threads=count,
            intra_threads=workload.num_threads // count,
        )
        for count in counts
    }


def make_tokenizer(workload):
    """(sentences -> lists of pieces, lists of pieces with EOS -> sentences)"""
    if not workload.is_text:
        return (
            lambda sentences: [sentence.split() for sentence in sentences],
            lambda hypotheses: [" ".join(pieces) for pieces in hypotheses],
        )
    import sentencepiece

    path = str(pathlib.Path(workload.folder) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        lambda sentences: processor.encode(sentences, out_type=str),
        lambda hypotheses: [processor.decode(without_end(pieces)) for pieces in hypotheses],
    )


def without_end(pieces):
    """The pieces before EOS, which is there unless the longest length was reached."""
    return pieces[:-1] if pieces[-1:] == ["</s>"] else pieces
