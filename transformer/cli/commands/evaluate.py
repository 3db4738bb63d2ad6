"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME

    python eval.py --workdir=runs/NAME                                  the test set of its config
    python eval.py --workdir=runs/NAME --input=a.en --reference=a.de    another test set
    python eval.py --workdir=runs/NAME --corpus=FOLDER                  its text, which has moved
    python eval.py --workdir=runs/NAME --checkpoints=all                each checkpoint, a curve
    python eval.py --workdir=runs/NAME --compare=runs/A,runs/B          are these better or worse?
    python eval.py --workdir=runs/NAME --input=a.en --output=a.de       a file of any size
    echo "…" | python eval.py --workdir=runs/NAME --input=-             standard input
    python eval.py --workdir=runs/NAME --attention=map.png              attention of a translation
    python eval.py --workdir=runs/NAME --prompt="…"                     a language model continues

A run of another task than translation is scored by its own metric, and answers --input line by
line. Answers go to --output or standard output, one line for each line of input and nothing else;
everything else goes to standard error. The same command resumes a file that was not finished.
On several hosts, start it on each. Exit codes: 0 done, 2 wrong input, 75 stopped by SIGTERM,
130 stopped by SIGINT, any other an error.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import (
    REGISTER,
    check_flags,
    flag,
    given_flags,
    input_files,
    split_files,
    split_runs,
)
from transformer.cli.hosts import HostFlags, connect_hosts
from transformer.cli.output_files import check_answers_file, check_picture_file
from transformer.config import MOST_HYPOTHESES
from transformer.console import phase, say
from transformer.exit_codes import DONE
from transformer.inference import CHUNK_LINES
from transformer.registry import OWN_TASK, task_kind
from transformer.workdir import WorkDir

TEXT_TASKS = ("translation", "classification", "token_classification")
ANSWER_TASKS = (*TEXT_TASKS, OWN_TASK)
LINE_TASKS = (*ANSWER_TASKS, "language_model")  # lines of text
INPUT_TASKS = (*LINE_TASKS, "masked_lm")
BUILT_IN = (*TEXT_TASKS, "language_model", "masked_lm", "images")
SAMPLING = ("temperature", "top_k", "top_p", "seed")
SEARCH = ("beam_size", "alpha", "early_stopping", *SAMPLING, "sample", "mbr")
NO_LINES = {  # flags with which the command writes no translations, and why
    "reference": "scores of a test set are kept in results/",
    "attention": "it draws one sentence and writes no lines",
}
NBEST = NO_LINES | {"mbr": "it chooses one translation"}
COMPARED = {"compare": "runs are compared by the first metric and chrF2"}
NO_PICTURE = {"attention": "runs are compared on a test set"}
ONE_RUN = dict.fromkeys(("compare", "attention"), "it is for one run at a time")
OWN_SPLIT = dict.fromkeys(("input", "prompt"), "it names a part of the run's own corpus")
OWN_TEXT = dict.fromkeys(("input", "prompt"), "that is the text")
TEST_SET = dict.fromkeys(("input", "split", "corpus"), "the test set is the text")
SHOWN = dict.fromkeys(("nbest", "jsonl"), "the scores are shown there anyway")
ONE_COLUMN = dict.fromkeys(("nbest", "scores"), "a line has one or the other")
NO_SEARCH = dict.fromkeys(("nbest", "scores", "prefixes", *SEARCH), "nothing is searched for")
NOTHING_NEW = dict.fromkeys(("prompt", "num_pieces"), "nothing is generated")

translation_flag = partial(flag, tasks=("translation",))
sampling_flag = partial(flag, tasks=("translation", "language_model"), needs=("sample",))
line_flag = partial(translation_flag, needs=("input",))
output_flag = partial(flag, tasks=LINE_TASKS, needs=("input",))
text_flag = partial(flag, tasks=("language_model",))


@dataclass(frozen=True)
class EvaluateFlags(HostFlags):
    """What the evaluate command is asked for.

    One of the search that is not given leaves it to the configuration of the run.
    """

    workdir: str = flag("runs/embedded_en_de", "Work directory of the run.", "FOLDER")
    checkpoints: str = flag(
        "default", "last, best, a step or average:N; to score, also several or all.", "NAMES"
    )
    ensemble: str = translation_flag(
        "", "Runs, perhaps with @CHECKPOINT, to use together.", "FOLDERS", excludes=ONE_RUN
    )
    register: str = REGISTER
    split: str = flag("", "Split to score, if not the test split.", "NAME", excludes=OWN_SPLIT)
    corpus: str = flag(
        "", "Corpus to score, if the run's has moved or for another.", "FOLDER", excludes=OWN_TEXT
    )
    input: str = flag(
        "", "Text to translate or answer, or -.", "FILE", tasks=INPUT_TASKS, is_input_file=True
    )
    output: str = output_flag(
        "",
        "File for the answers, also .gz or .xz; it is new, or that of the same command, stopped.",
        "FILE",
        excludes=NO_LINES,
    )
    overwrite: bool = flag(
        False, "Replace the file of --output if it exists.", tasks=LINE_TASKS, needs=("output",)
    )
    reference: str = line_flag(
        "", "References of --input, to score; several with commas.", "FILES", is_input_file=True
    )
    test_set: str = translation_flag(
        "", "Test set that sacrebleu downloads, to score: wmt14/full.", "NAME", excludes=TEST_SET
    )
    metrics: str = translation_flag(
        "", "Further scores: ter, comet, comet:MODEL, or your own.", "NAMES", excludes=COMPARED
    )
    compare: str = translation_flag(
        "", "Runs, perhaps with @CHECKPOINT, to compare with.", "FOLDERS", excludes=NO_PICTURE
    )
    nbest: int = line_flag(
        0, "Write N translations a line: number, text, score.", "N", excludes=NBEST, at_least=0
    )
    scores: bool = line_flag(
        False, "Write a tab and the score after each translation.", excludes=NO_LINES | SHOWN
    )
    jsonl: bool = flag(
        False, "Write JSON.", tasks=ANSWER_TASKS, needs=("input",), excludes=NO_LINES
    )
    alignments: bool = line_flag(
        False, "Write a tab and the word alignment: 0-0 1-2.", excludes=NO_LINES | ONE_COLUMN
    )
    score: str = line_flag(
        "",
        "File with translations of --input: write their log-probabilities and scores.",
        "FILE",
        excludes=NO_LINES | NO_SEARCH,
        is_input_file=True,
    )
    prefixes: str = line_flag(
        "", "File with their beginnings.", "FILE", excludes=NO_LINES, is_input_file=True
    )
    chunk_lines: int = output_flag(
        CHUNK_LINES,
        "Lines that are answered at once; a stopped job is resumed after its last whole chunk.",
        "N",
        at_least=1,
    )
    batch_size: int | None = flag(
        None, "Examples at once on each device.", "N", at_least=1, at_most=2**16
    )
    dtype: Literal["float32", "bfloat16"] | None = flag(None, "Type of the computation.", "TYPE")
    beam_size: int | None = translation_flag(
        None, "Beam width; 1 is greedy.", "N", at_least=1, at_most=MOST_HYPOTHESES
    )
    alpha: float | None = translation_flag(None, "Length penalty.", "X")
    early_stopping: bool | None = translation_flag(None, "End a search at its first hypotheses.")
    sample: bool = translation_flag(False, "Sample instead of searching.")
    temperature: float | None = sampling_flag(None, "Temperature of sampling.", "X")
    top_k: int | None = sampling_flag(None, "Sample from the K most probable tokens.", "K")
    top_p: float | None = sampling_flag(None, "Sample from tokens of probability P in all.", "P")
    seed: int | None = sampling_flag(None, "Seed of sampling.", "N")
    mbr: int | None = translation_flag(
        None, "Candidates of minimum Bayes risk.", "N", at_least=1, at_most=MOST_HYPOTHESES
    )
    prompt: str | None = text_flag(
        None, "Text to continue.", "TEXT", excludes={"input": "each line is a text to continue"}
    )
    num_pieces: int | None = text_flag(
        None, "Most tokens of a continuation.", "N", needs=("prompt", "input"), at_least=1
    )
    attention: str = flag(
        "",
        "Picture to draw of the attention of the first text of --input, or of the test set.",
        "FILE",
        tasks=BUILT_IN,
        excludes={"reference": "it draws one sentence and scores nothing"} | NOTHING_NEW,
    )
    attention_of: Literal["encoder_decoder", "encoder", "decoder"] | None = translation_flag(
        None, "Whose attention to draw: to the source, or that of a side.", needs=("attention",)
    )
    each_head: bool = flag(False, "Draw every head, not their mean.", needs=("attention",))

    @property
    def is_series(self) -> bool:
        """Whether several checkpoints are named."""
        return self.checkpoints == "all" or "," in self.checkpoints

    @property
    def is_scoring(self) -> bool:
        """Whether scores are asked for, and neither a picture nor translations alone."""
        return not self.attention and bool(self.reference or not self.input)

    @property
    def compute(self) -> dict[str, Any]:
        """How to compute, as `Translator.from_checkpoint` and its like take it."""
        return {"dtype": self.dtype, "batch_size": self.batch_size}

    @property
    def options(self) -> dict[str, Any]:
        """Which text is scored and how it is translated, as `evaluate` and its like take it."""
        text = {"split": self.split, "corpus": self.corpus, "test_set": self.test_set}
        return text | self.compute | self.search_options

    @property
    def files(self) -> list[str]:
        """The files of a test set that are given."""
        return [self.input, *split_files(self.reference)] if self.reference else []

    @property
    def search_options(self) -> dict[str, Any]:
        """The options of the search that were given, as `Translator.translate` takes them."""
        return self.given(*SEARCH)

    def given(self, *names: str) -> dict[str, Any]:
        """Returns {name: value} of those of some flags that were given."""
        return {name: value for name, value in given_flags(self).items() if name in names}

    def check(self, task: str) -> None:
        """Raises ValueError, in one sentence, if the flags make no sense on a run of `task`."""
        check_flags(self, task)
        if self.output:
            files = input_files(self)
            check_answers_file(self.output, files, self.workdir, may_replace=self.overwrite)
        if self.attention:
            check_picture_file(self.attention, self.workdir)
        for name in ("compare", "metrics"):
            if self.given(name) and not self.is_scoring:
                raise ValueError(
                    f"--{name} needs references: add --reference=FILES, or leave out --input or "
                    f"--attention."
                )
        is_alone = not self.compare and not self.ensemble
        if self.is_series and (task != "translation" or not self.is_scoring or not is_alone):
            raise ValueError(
                f"--checkpoints={self.checkpoints} names several checkpoints, which only scores of "
                f"a translation run take, without --compare and --ensemble; name one."
            )


def _evaluate(line: CommandLine[EvaluateFlags]) -> int:
    flags, run = line.flags, WorkDir(line.flags.workdir)
    config = run.load_config()
    is_translation = task_kind(config.task) == "translation"
    flags.check(task_kind(config.task))
    with phase("importing JAX"):  # late: --help and wrong flags need not wait
        from transformer.cli import evaluate_run
        from transformer.parallel.devices import check_accelerator

    is_first = connect_hosts(flags, config.model if is_translation else None)
    check_accelerator(say)
    if flags.compare:
        others = split_runs(flags.compare)
        evaluate_run.compare(run, others, flags.checkpoints, files=flags.files, **flags.options)
    elif flags.attention:
        of = flags.attention_of or "encoder_decoder"
        how = {"of": of, "each_head": flags.each_head} | flags.options
        evaluate_run.draw(run, flags.attention, flags.input, flags.checkpoints, **how)
    elif flags.prompt is not None:
        evaluate_run.continue_prompt(flags, run, is_first=is_first)
    elif flags.is_scoring:
        options = flags.options | {"files": flags.files, "ensemble": split_runs(flags.ensemble)}
        options |= {"metrics": flags.metrics.split(",")} if flags.metrics else {}
        evaluate_run.score(run, flags.checkpoints, several=flags.is_series, **options)
    elif is_translation:
        evaluate_run.translate(flags, run)
    else:
        evaluate_run.answer(flags, run, config)
    return DONE


main = Command(_evaluate, EvaluateFlags, __doc__)

if __name__ == "__main__":
    main.run()
