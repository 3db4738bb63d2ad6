"""What a prepared corpus has besides its parts, and what follows from all of them together."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.data.cleaning import no_pair_error
from transformer.data.left_out import (
    LEFT_OUT,
    LeftOutPair,
    format_sample,
    sample_of,
    spread,
    spread_each,
)
from transformer.data.overlap import EvaluationSets, Overlap
from transformer.data.prepared.arrow_files import ArrowFile, arrow_bytes, arrow_lists
from transformer.data.prepared.corpus import HEADER, KEPT, local_files, part_files
from transformer.data.prepared.duplicates import REASONS, find_repeated
from transformer.data.prepared.key import Facts
from transformer.data.prepared.parts import INDEX, SIDES, PartFacts, facts_of, total_left_out
from transformer.data.tokenizer import Tokenizer
from transformer.data.training_text import TrainingText
from transformer.files.parts import Parts


def write_header(
    folder: epath.Path,
    num_parts: int,
    text: TrainingText,
    made_of: Facts,
    tokenizers: Sequence[Tokenizer],
) -> None:
    """Writes the files of a corpus whose parts are there, the header last.

    Others may write the same ones at once. Raises ValueError if no pair is left to train on, and
    DamagedFileError.
    """
    write, files = Parts(folder).write, part_files(local_files(folder), num_parts)
    facts = [facts_of(ArrowFile(file)) for file in files]
    _check(text.config, facts)
    sizes = [part.num_pairs for part in facts]
    left_out, sample = total_left_out(facts), [pair for part in facts for pair in part.sample]
    if reasons := list(REASONS[text.config.drop_duplicates].values()):
        codes = find_repeated(files, sizes, text.config.drop_duplicates)
        kept = [np.flatnonzero(part_codes == 0).astype(np.uint32) for part_codes in codes]
        sizes = [len(indices) for indices in kept]
        column = arrow_lists(np.concatenate(kept), np.array(sizes))
        write(KEPT, arrow_bytes({INDEX: column}))
        counts = np.bincount(np.concatenate(codes), minlength=len(reasons) + 1)[1:].tolist()
        left_out += Counter(dict(zip(reasons, counts, strict=True)))
        sample += _sample_of_repeated(files, codes, reasons, tokenizers)
    pairs_of_corpora = [0] * len(text.corpora)
    for part, size in zip(facts, sizes, strict=True):
        pairs_of_corpora[part.corpus] += size
    header = {
        **made_of,
        "num_parts": num_parts,
        "has_repeated": bool(reasons),
        "pairs": sum(sizes),
        "pairs_of_corpora": pairs_of_corpora,
        "left_out": left_out,
        "overlap": _overlap(facts, text.evaluation),
        "checksums": [part.checksum for part in facts],
        "held_out": text.held_out,
    }
    write(LEFT_OUT, format_sample(spread_each(sample)).encode(errors="replace"))
    write(HEADER, json.dumps(header))


def _check(data: DataConfig, facts: Sequence[PartFacts]) -> None:
    """Raises ValueError if no pair is left to train on."""
    unfit = sum((Counter(part.unfit) for part in facts), Counter[str]())
    if any(part.num_pairs for part in facts):
        return
    if not unfit:
        raise no_pair_error(data, total_left_out(facts))
    raise ValueError(
        f"No pair is left of {unfit.total()} ({dict(unfit)}); raise data.row_length or "
        f"data.max_length_ratio."
    )


def _overlap(facts: Sequence[PartFacts], evaluation: EvaluationSets) -> Overlap | None:
    """Returns the overlap with the evaluation sets; None if a part was written for other sets."""
    if any(part.evaluation != evaluation.digest for part in facts):
        return None
    source, target = ({i for part in facts for i in part.overlap[side]} for side in (0, 1))
    return evaluation.count([source, target])


def _sample_of_repeated(
    files: Sequence[pathlib.Path],
    codes: Sequence[np.ndarray],
    reasons: Sequence[str],
    tokenizers: Sequence[Tokenizer],
) -> Iterator[LeftOutPair]:
    """Yields some of the repeated pairs of each reason, as their ids spell them."""
    for code, reason in enumerate(reasons, 1):
        found = [spread(np.flatnonzero(part_codes == code).tolist()) for part_codes in codes]
        for number, index in spread([(n, i) for n, indices in enumerate(found) for i in indices]):
            part, pair = ArrowFile(files[number]), []
            for side, tokenizer in zip(SIDES, tokenizers, strict=True):
                ids, offsets = part.lists(side)
                pair.append(tokenizer.decode(ids[offsets[index] : offsets[index + 1]]))
            facts, (source, target) = facts_of(part), pair
            place = int(part.numbers(INDEX)[index])
            yield from sample_of(facts.name, facts.first, {reason: [(place, (source, target))]})
