"""Contestant: Hugging Face's MarianMTModel with the same weights.

Sentences are sorted by length; the batches are of the size that was fastest. Its search ends by its
defaults, when W hypotheses have ended and none that lives looks better at its present length, or
with early_stopping as soon as W have ended.
"""

import pathlib

import torch
from to_marian import EOS, PAD, make_marian
from tuning import Tuned

BATCHES = 16, 32, 64
EXTRA = 50  # pieces that a translation may have more than the longest source


def make_search(workload):
    """search(beam_size, alpha, …) -> the `nbest` translations of each sentence."""
    device = "cuda" if workload.device == "gpu" else "cpu"
    if device == "cpu":
        torch.set_num_threads(workload.num_threads)
    config, weights, vocabulary = workload.model()
    model = make_marian(config, weights).to(device, getattr(torch, workload.dtype))
    split, join = make_tokenizer(workload, vocabulary)
    sentences = workload.sentences()

    def generate(ids, beam_size, alpha, num_pieces, nbest, early_stopping):
        inputs = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
        lengths = torch.tensor([len(row) for row in ids])
        mask = torch.arange(inputs.shape[1]) < lengths[:, None]
        return model.generate(
            inputs.to(device),
            attention_mask=mask.long().to(device),
            do_sample=False,
            num_beams=beam_size,
            num_return_sequences=nbest,
            length_penalty=alpha if beam_size > 1 else None,
            early_stopping=early_stopping if beam_size > 1 else None,
            min_new_tokens=num_pieces or None,
            max_new_tokens=num_pieces or inputs.shape[1] + EXTRA,
        ).tolist()

    def run(batch_size, beam_size, alpha, num_pieces=0, nbest=1, early_stopping=False):
        ids = [torch.tensor([*row, EOS]) for row in split(sentences)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        results = [None] * len(ids)
        for batch in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
            inputs = [ids[i] for i in batch]
            rows = generate(inputs, beam_size, alpha, num_pieces, nbest, early_stopping)
            for place, i in enumerate(batch):
                results[i] = [join(row) for row in rows[place * nbest :][:nbest]]
        return results

    return Tuned(run, BATCHES if workload.is_text else [len(sentences)])


def make_tokenizer(workload, vocabulary):
    """(sentences -> lists of ids, a row with BOS, EOS and padding -> a sentence)"""
    if not workload.is_text:
        places = {piece: i for i, piece in enumerate(vocabulary)}
        return (
            lambda sentences: [[places[piece] for piece in s.split()] for s in sentences],
            lambda row: " ".join(vocabulary[i] for i in row[1:]),
        )
    import sentencepiece

    path = str(pathlib.Path(workload.folder) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        processor.encode,
        lambda row: processor.decode(row[1 : row.index(EOS)] if EOS in row else row[1:]),
    )
