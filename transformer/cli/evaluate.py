"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME

    python eval.py --workdir=runs/NAME                                  the test set of its config
    python eval.py --workdir=runs/NAME --input=a.en --reference=a.de    another test set
    python eval.py --workdir=runs/NAME --checkpoints=all                each checkpoint, a curve
    python eval.py --workdir=runs/NAME --compare=runs/OTHER             is it better than the other?
    python eval.py --workdir=runs/NAME --input=a.en --output=a.de       a file of any size
    echo "…" | python eval.py --workdir=runs/NAME --input=-             standard input
    python eval.py --workdir=runs/NAME --attention=map.png              where a translation looked
    python eval.py --workdir=runs/NAME --prompt="…"                     a language model goes on

A run that is not of translation is scored by its own metric, and answers --input line by line.
Translations go to --output or standard output, one line for each line of input and nothing else;
everything else goes to standard error. The same command goes on with a file that was not finished.
On several hosts, start it on each. Exit codes: 0 done, 2 wrong input, 75 stopped by SIGTERM,
130 stopped by SIGINT, any other an error.
"""

from pathlib import Path

import jax
from absl import flags

from transformer.cli import evaluate_task
from transformer.cli import flags as command_line
from transformer.cli.flags import given_flags
from transformer.console import say, tell, this_command
from transformer.data import parallel_text, text_files
from transformer.evaluate import plots
from transformer.evaluate.checkpoint_series import (
    checkpoint_row,
    choose_checkpoints,
    each_checkpoint,
    table_lines,
)
from transformer.evaluate.compare_runs import check_comparable, compare
from transformer.evaluate.translation import evaluate_translator
from transformer.inference.chunks import CHUNK_LINES
from transformer.inference.file_job import Job
from transformer.inference.run_job import run_job
from transformer.inference.translator import Translator
from transformer.model import costs
from transformer.parallel import devices, hosts
from transformer.workdir import WorkDir

WORKDIR = flags.DEFINE_string("workdir", "runs/embedded_en_de", "Folder of the run.")
CHECKPOINTS = flags.DEFINE_string(
    "checkpoints",
    "default",
    "last, best, a step, average:N; for scores also a list of them, or all.",
)
SPLIT = flags.DEFINE_string("split", "", "Split to score; empty: the config's test split.")
INPUT = flags.DEFINE_string("input", "", "File to translate, a line each; .gz, .xz, - for stdin.")
OUTPUT = flags.DEFINE_string("output", "", "File for the lines, also .gz, .xz; empty: stdout.")
REFERENCE = flags.DEFINE_string("reference", "", "File with references of --input: score it.")
COMPARE = flags.DEFINE_string("compare", "", "Folder of a run to compare with on the test set.")
COMPARE_CHECKPOINT = flags.DEFINE_string("compare_checkpoint", None, "Which one of --compare.")
NBEST = flags.DEFINE_integer("nbest", 0, "Write so many lines a sentence: number, text, score.")
SCORES = flags.DEFINE_bool("scores", False, "Write the score after each translation and a tab.")
JSONL = flags.DEFINE_bool("jsonl", False, "Write an object of JSON a line, with source and scores.")
SCORE = flags.DEFINE_string("score", "", "File with translations: write log-probability and score.")
PREFIXES = flags.DEFINE_string("prefixes", "", "File with how each translation has to begin.")
LINES_AT_ONCE = flags.DEFINE_integer("chunk_lines", CHUNK_LINES, "Lines done and kept at once.")
BATCH_SIZE = flags.DEFINE_integer("batch_size", None, "Sentences at once on each device.")
DTYPE = flags.DEFINE_enum("dtype", None, ["float32", "bfloat16"], "Of the computation.")
BEAM_SIZE = flags.DEFINE_integer("beam_size", None, "In place of the config's; 1: greedy.")
ALPHA = flags.DEFINE_float("alpha", None, "Length penalty in place of the config's.")
EARLY = flags.DEFINE_bool("early_stopping", None, "End with beam_size hypotheses; not exact.")
SAMPLE = flags.DEFINE_bool("sample", False, "Sample instead of searching.")
TEMPERATURE = flags.DEFINE_float("temperature", None, "Of sampling.")
TOP_K = flags.DEFINE_integer("top_k", None, "Sample from the k most probable pieces.")
TOP_P = flags.DEFINE_float("top_p", None, "Sample from the pieces that make up probability p.")
SEED = flags.DEFINE_integer("seed", None, "Of sampling.")
PROMPT = flags.DEFINE_string("prompt", None, "Text that a language model continues.")
NUM_PIECES = flags.DEFINE_integer("num_pieces", None, "How long its continuation is at most.")
ATTENTION = flags.DEFINE_string("attention", "", "Picture of the attention of the first sentence.")
command_line.define_hosts()


def main():
    config = WorkDir(WORKDIR.value).load_config()
    if config.task != "translation":
        return evaluate_task.use(config.task, WORKDIR.value, given_flags(globals()), say, tell)
    check_flags()
    if costs.fits_a_core(config.model):
        devices.use_cores_as_devices()
    command_line.connect_hosts()
    devices.check_accelerator(say)
    names = choose_checkpoints(WORKDIR.value, CHECKPOINTS.value)
    if is_scoring():
        score(names)
        return 0
    if len(names) > 1:
        raise ValueError(f"--checkpoints={CHECKPOINTS.value} are several; that is to score only.")
    translator = Translator.from_checkpoint(WORKDIR.value, names[0], **settings())
    code = draw_attention(translator) if ATTENTION.value else translate_lines(translator)
    if OUTPUT.value:
        say(programs_line(translator))
    num_cut = sum(map(int, hosts.gather_from_hosts(str(translator.num_truncated).encode())))
    if num_cut:
        say(
            f"warning: {num_cut:,} sentences were longer than {translator.largest_bucket()} pieces "
            f"and were cut there"
        )
    return code


def programs_line(translator):
    """How much was compiled, of how much there can be."""
    most = translator.max_num_programs(**search_options())
    return f"compiled {translator.num_programs()} programs of at most {most} for this search"


def is_scoring():
    """Whether the flags ask for scores: not for a picture, and not for translations alone."""
    return not ATTENTION.value and bool(REFERENCE.value or not INPUT.value)


def check_flags():
    """Refuses flags that would have no effect, and files that are not there."""
    for flag, is_right, sentence in (
        (REFERENCE, INPUT.value, "needs the sources too: --input=FILE"),
        (OUTPUT, INPUT.value, "needs something to translate: --input=FILE"),
        (OUTPUT, not REFERENCE.value, "goes without --reference: scores are kept in results/"),
        (SPLIT, not INPUT.value, "goes without --input: it names a part of the run's own corpus"),
        (COMPARE, is_scoring(), "goes with a test set that is scored: leave out --input"),
        (COMPARE_CHECKPOINT, COMPARE.value, "needs the other run: --compare=FOLDER"),
    ):
        if flag.value and not is_right:
            raise ValueError(f"--{flag.name} {sentence}.")
    for flag in (NBEST, SCORES, JSONL, SCORE, PREFIXES):
        if flag.value and (REFERENCE.value or ATTENTION.value or not INPUT.value):
            raise ValueError(f"--{flag.name} goes with --input alone, to translate it or to score.")
    for flag in (PROMPT, NUM_PIECES):
        if flag.value is not None:
            raise ValueError(f"--{flag.name} is for a language model; this run is of translation.")
    for flag in (INPUT, REFERENCE, SCORE, PREFIXES):
        if flag.value not in ("", "-") and not text_files.is_readable(flag.value):
            raise ValueError(f"--{flag.name} must be a file (or -); {flag.value} is not there.")
    if INPUT.value and not is_scoring():
        job().check()
    sampling = [flag for flag in (TEMPERATURE, TOP_K, TOP_P, SEED) if flag.value is not None]
    if sampling and not SAMPLE.value:
        raise ValueError(f"--{sampling[0].name} goes with --sample.")


def settings():
    """How to compute, of what was given on the command line."""
    return {"dtype": DTYPE.value, "batch_size": BATCH_SIZE.value}


def search_options():
    """The options of `translate` that were given on the command line."""
    chosen = (BEAM_SIZE, ALPHA, EARLY, TEMPERATURE, TOP_K, TOP_P, SEED)
    options = {flag.name: flag.value for flag in chosen if flag.value is not None}
    return options | ({"sample": True} if SAMPLE.value else {})


def read_input(path):
    """The lines of a file or of standard input; says which of them were not UTF-8."""
    text = text_files.read_text(path)
    for repair, count in text.repairs.items():
        say(f"warning: {count:,} {repair}")
    return text.lines


def job():
    """What the flags say is to be done with --input."""
    chosen = (INPUT, OUTPUT, NBEST, SCORES, JSONL, SCORE, PREFIXES, LINES_AT_ONCE)
    return Job(**{flag.name: flag.value for flag in chosen}, options=search_options())


def translate_lines(translator):
    """A line out for each line in, or what else the flags say; the exit code."""
    return run_job(translator, job(), say=say, command=this_command())


def test_set(data):
    """(name, corpus, pairs) of the test set of the config, or of --input with --reference."""
    if not INPUT.value:
        split = SPLIT.value or data.test_split
        return split, f"{data.corpus} {split}", parallel_text.load_evaluation_pairs(data, split)
    sides = read_input(INPUT.value), read_input(REFERENCE.value)
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise ValueError(
            f"--input has {len(sides[0])} lines and --reference {len(sides[1])}; they must pair, "
            f"and be one at least."
        )
    name = "stdin" if INPUT.value == "-" else Path(INPUT.value).stem
    return name, INPUT.value, list(zip(*sides, strict=True))


def score(names):
    """Scores a test set with each checkpoint; what it says in full is of the last of them."""
    workdir = WorkDir(WORKDIR.value, writes=jax.process_index() == 0)
    config = workdir.load_config()
    name, corpus_name, pairs = test_set(config.data)
    hosts.check_same("the test set", repr(pairs).encode)
    other = None
    if COMPARE.value:
        check_comparable(config, WorkDir(COMPARE.value).load_config(), COMPARE.value)
        name_of_other = COMPARE_CHECKPOINT.value or "default"
        other = Translator.from_checkpoint(COMPARE.value, name_of_other, **settings())
    rows = []
    for translator in each_checkpoint(WORKDIR.value, names, **settings()):
        result = evaluate_translator(translator, pairs, corpus_name, **search_options())
        rows.append(checkpoint_row(result))
        if len(names) > 1:
            tell(table_lines(rows)[0 if len(rows) == 1 else -1 :])
    say(f"{corpus_name}, checkpoint {result.checkpoint}:")
    tell([*result.lines(), *result.detail_lines()])
    say(programs_line(translator))
    comparison = compare_with(other, result, pairs) if other else None
    try:
        saved = result.save(workdir, name, checkpoints=rows, comparison=comparison)
        say(f"scores: {saved}   page: {saved.with_name('report.html')}")
    except OSError as error:  # somebody else's run, that can only be read
        say(f"warning: the scores were not saved: {' '.join(str(error).split())}")


def compare_with(other, result, pairs):
    """The `Comparison` of an `Evaluation` with the translator of --compare, said in short."""
    theirs = evaluate_translator(
        other, pairs, result.settings.corpus, num_maps=0, **search_options()
    )
    comparison = compare((WORKDIR.value, COMPARE.value), result, theirs)
    tell(comparison.lines())
    return comparison


def draw_attention(translator):
    """The attention of the first sentence of --input, or of the test set."""
    texts = read_input(INPUT.value) if INPUT.value else [test_set(translator.config.data)[2][0][0]]
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError("--attention needs a sentence, but the input is empty.")
    translation = translator.translate(texts[:1], **search_options())[0]
    maps = translator.attention(texts[0], translation)
    plots.plot_attention(*maps, ATTENTION.value, translation.text)
    say(f"{texts[0]}\n> {translation}\nattention: {ATTENTION.value}")
    return 0


def run():
    """Runs it as a script."""
    command_line.run(main, __doc__)
