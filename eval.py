"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME

    python eval.py --workdir=runs/NAME                                  the test set of its config
    python eval.py --workdir=runs/NAME --input=a.en --reference=a.de    another test set
    python eval.py --workdir=runs/NAME --input=a.en --output=a.de       a file
    echo "…" | python eval.py --workdir=runs/NAME --input=-             standard input
    python eval.py --workdir=runs/NAME --attention=map.png              where a translation looked

Translations go to --output or standard output, one line for each line of input and nothing else;
everything else goes to standard error.
"""

import sys
from collections import Counter
from pathlib import Path

from absl import flags

from transformer import command_line, corpus, hosts, report, storage
from transformer.command_line import say
from transformer.evaluation import evaluate
from transformer.translator import Translator
from transformer.workdir import WorkDir

WORKDIR = flags.DEFINE_string("workdir", "runs/embedded_en_de", "Folder of the run.")
CHECKPOINT = flags.DEFINE_string("checkpoint", "default", "last, best, a step, average:N.")
SPLIT = flags.DEFINE_string("split", "", "Split to score; empty: the config's test split.")
INPUT = flags.DEFINE_string("input", "", "File to translate, a sentence a line; - for stdin.")
OUTPUT = flags.DEFINE_string("output", "", "File for the translations; empty: stdout.")
REFERENCE = flags.DEFINE_string("reference", "", "File with references of --input: score it.")
NBEST = flags.DEFINE_integer("nbest", 0, "Write so many lines a sentence: number, text, score.")
BEAM_SIZE = flags.DEFINE_integer("beam_size", None, "In place of the config's; 1: greedy.")
ALPHA = flags.DEFINE_float("alpha", None, "Length penalty in place of the config's.")
SAMPLE = flags.DEFINE_bool("sample", False, "Sample instead of searching.")
TEMPERATURE = flags.DEFINE_float("temperature", None, "Of sampling.")
TOP_K = flags.DEFINE_integer("top_k", None, "Sample from the k most probable pieces.")
TOP_P = flags.DEFINE_float("top_p", None, "Sample from the pieces that make up probability p.")
SEED = flags.DEFINE_integer("seed", None, "Of sampling.")
ATTENTION = flags.DEFINE_string("attention", "", "Picture of the attention of the first sentence.")


def main():
    check_flags()
    hosts.check_accelerator(say)
    translator = Translator.from_checkpoint(WORKDIR.value, CHECKPOINT.value)
    if ATTENTION.value:
        draw_attention(translator)
    elif INPUT.value and not REFERENCE.value:
        translate_lines(translator)
    else:
        score(translator)
    if translator.num_truncated:
        say(
            f"warning: {translator.num_truncated} sentences were longer than "
            f"{translator.largest_bucket()} pieces and were cut there"
        )
    return 0


def check_flags():
    """Refuses flags that would have no effect, and files that are not there."""
    if REFERENCE.value and not INPUT.value:
        raise ValueError("--reference needs the sources too: --input=FILE.")
    if OUTPUT.value and not INPUT.value:
        raise ValueError("--output needs something to translate: --input=FILE.")
    if NBEST.value and (REFERENCE.value or not INPUT.value):
        raise ValueError("--nbest goes with --input, and not with --reference.")
    for flag in (INPUT, REFERENCE):
        if flag.value not in ("", "-") and not Path(flag.value).is_file():
            raise ValueError(f"--{flag.name} must be a file (or -); {flag.value} is not there.")
    sampling = [flag for flag in (TEMPERATURE, TOP_K, TOP_P, SEED) if flag.value is not None]
    if sampling and not SAMPLE.value:
        raise ValueError(f"--{sampling[0].name} goes with --sample.")


def search_options():
    """The options of `translate` that were given on the command line."""
    chosen = (BEAM_SIZE, ALPHA, TEMPERATURE, TOP_K, TOP_P, SEED)
    options = {flag.name: flag.value for flag in chosen if flag.value is not None}
    return options | ({"sample": True} if SAMPLE.value else {})


def read_input(path):
    """The lines of a file or of standard input; says which of them were not UTF-8."""
    notes = Counter()
    if path == "-":
        data = sys.stdin.buffer.read() if sys.stdin else b""
        lines = corpus.split_lines(data, notes, "standard input")
    else:
        lines = corpus.read_lines(path, notes)
    for note in notes:
        say(f"warning: {note}")
    return lines


def translate_lines(translator):
    """One line out for each line in, or --nbest of them with number and score."""
    lines = read_input(INPUT.value)
    found = translator.translate(lines, num_best=NBEST.value or None, **search_options())
    if NBEST.value:
        rows = [f"{i}\t{t.text}\t{t.score:.6f}" for i, best in enumerate(found) for t in best]
    else:
        rows = [t.text for t in found]
    text = "".join(f"{row}\n" for row in rows)
    if OUTPUT.value:
        storage.write_atomically(storage.locate(OUTPUT.value), text)
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def score(translator):
    """Scores the test set of the config, or --input against --reference."""
    data = translator.config.data
    if INPUT.value:
        corpus_name, name = INPUT.value, Path(INPUT.value).stem
        sides = read_input(INPUT.value), read_input(REFERENCE.value)
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                f"--input has {len(sides[0])} lines and --reference {len(sides[1])}; they must "
                f"pair."
            )
        pairs = list(zip(*sides, strict=True))
    else:
        name = SPLIT.value or data.test_split
        corpus_name = f"{data.corpus} {name}"
        pairs = corpus.load_evaluation_pairs(data, name)
    result = evaluate(translator, pairs, corpus_name, **search_options())
    say(f"{corpus_name}, checkpoint {result.checkpoint}:")
    print("\n".join(result.lines()))
    try:
        say(f"scores: {result.save(WorkDir(WORKDIR.value), name)}")
    except OSError as error:  # somebody else's run, that can only be read
        say(f"warning: the scores were not saved: {' '.join(str(error).split())}")


def draw_attention(translator):
    """The attention of the first sentence of --input, or of the test set."""
    if INPUT.value:
        lines = [line for line in read_input(INPUT.value) if line.strip()]
    else:
        data = translator.config.data
        pairs = corpus.load_evaluation_pairs(data, SPLIT.value or data.test_split)
        lines = [pairs[0][0]]
    if not lines:
        raise ValueError("--attention needs a sentence, but the input is empty.")
    translation = translator.translate(lines[:1], **search_options())[0]
    maps = translator.attention(lines[0], translation)
    report.plot_attention(*maps, ATTENTION.value, translation.text)
    say(f"{lines[0]}\n> {translation}\nattention: {ATTENTION.value}")


if __name__ == "__main__":
    command_line.run(main, __doc__)
