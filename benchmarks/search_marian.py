"""Contestant: Hugging Face's MarianMTModel with the same weights.

Sentences are sorted by length, and batches have the size that was fastest. By default, its search
ends when W hypotheses are finished and no live one scores better at its present length; with
early_stopping, as soon as W are finished.
"""

import pathlib
from collections.abc import Callable

import torch
from search_workload import EXTRA, SearchWorkload
from transformers import MarianMTModel
from tuning import Tuned

from transformer.config import Config, ModelConfig
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.interop.imported_model import ImportedModel
from transformer.interop.marian_folder import write_model
from transformer.interop.marian_folder_tensors import Ids, order_ids
from transformer.special_tokens import EOS, NUM_SPECIAL

BATCHES = 16, 32, 64


def make_search(workload: SearchWorkload) -> Tuned:
    """Returns search(beam_size, alpha, …), which returns `nbest` translations per sentence."""
    device = "cuda" if workload.device == "gpu" else "cpu"
    if device == "cpu":
        torch.set_num_threads(workload.num_threads)
    model, order, vocabulary = load_marian(workload)
    model = model.to(device, getattr(torch, workload.dtype))
    split, join = make_tokenizer(workload, order, vocabulary)
    sentences = workload.sentences()
    pad = model.config.pad_token_id

    def generate(
        ids: list[torch.Tensor],
        beam_size: int,
        alpha: float,
        num_tokens: int,
        nbest: int,
        early_stopping: bool,
    ) -> list[list[int]]:
        inputs = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=pad)
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
            min_new_tokens=num_tokens or None,
            max_new_tokens=num_tokens or inputs.shape[1] + EXTRA,
        ).tolist()

    def run(
        batch_size: int,
        beam_size: int,
        alpha: float,
        num_tokens: int = 0,
        nbest: int = 1,
        early_stopping: bool = False,
    ) -> list[list[str]]:
        ids = [torch.tensor(row) for row in split(sentences)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        results: list[list[str]] = [[]] * len(ids)
        for batch in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
            inputs = [ids[i] for i in batch]
            rows = generate(inputs, beam_size, alpha, num_tokens, nbest, early_stopping)
            for row_index, i in enumerate(batch):
                results[i] = [join(row) for row in rows[row_index * nbest :][:nbest]]
        return results

    return Tuned(run, BATCHES if workload.is_mixed else [len(sentences)])


def load_marian(workload: SearchWorkload) -> tuple[MarianMTModel, Ids, list[str]]:
    """Returns the model, our id of each of its ids, and our vocabulary."""
    config, weights, vocabulary = workload.model()
    del weights["positions"]
    tokenizer = PiecesTokenizer(vocabulary[NUM_SPECIAL:], "")
    written = ImportedModel(Config(model=ModelConfig(**config)), weights, (tokenizer, tokenizer))
    ids, folder = order_ids(written, "token"), pathlib.Path(workload.folder) / "marian"
    write_model(written, ids, folder, "token")
    model = MarianMTModel.from_pretrained(folder).eval()
    # It would not count the log-probability of an end that it forces.
    model.generation_config.forced_eos_token_id = None
    model.generation_config.bad_words_ids = None  # ours has none, and they take their time
    return model, ids, vocabulary


def make_tokenizer(
    workload: SearchWorkload, ids: Ids, vocabulary: list[str]
) -> tuple[Callable, Callable]:
    """Returns split (sentences to lists of ids) and join (a row with special ids to a sentence)."""
    theirs = {ours: index for index, ours in enumerate(ids.target)}
    end = theirs[EOS]

    def our_ids(row: list[int]) -> list[int]:
        row = row[1 : row.index(end)] if end in row else row[1:]
        return [ids.target[i] for i in row]

    if not workload.is_text:
        index = {token: theirs.get(ours) for ours, token in enumerate(vocabulary)}
        return (
            lambda sentences: [[*(index[token] for token in s.split()), end] for s in sentences],
            lambda row: " ".join(vocabulary[i] for i in our_ids(row)),
        )
    import sentencepiece

    path = str(pathlib.Path(workload.folder) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        lambda sentences: [[*(theirs[i] for i in row), end] for row in processor.encode(sentences)],
        lambda row: processor.decode(our_ids(row)),
    )
