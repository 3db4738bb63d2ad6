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
from itertools import chain
from typing import Any

import transformer
from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import REGISTER, HostFlags, flag, split_paths
from transformer.cli.process import connect_hosts
from transformer.config import Config
from transformer.config.groups import MOST_HYPOTHESES
from transformer.console import phase, print_results, say
from transformer.exit_codes import DONE
from transformer.registry import OWN_TASK, TASKS, task_kind
from transformer.workdir import WorkDir

PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")
TEXT_TASKS = ("translation", "classification", "token_classification")
ANSWER_TASKS = (*TEXT_TASKS, OWN_TASK)
LINE_TASKS = (*ANSWER_TASKS, "language_model")  # lines of text
INPUT_TASKS = (*LINE_TASKS, "masked_lm")
BUILT_IN = (*TEXT_TASKS, "language_model", "masked_lm", "images")
SAMPLING = ("temperature", "top_k", "top_p", "seed")
SEARCH = ("beam_size", "alpha", "early_stopping", *SAMPLING, "sample", "mbr")
COMPUTE = ("dtype", "batch_size")
SCORED = ("split", "corpus", "test_set", *COMPUTE, *SEARCH)  # as `transformer.evaluate` takes them
LINES = ("nbest", "scores", "jsonl", "alignments", "score", "prefixes", "chunk_lines")
NO_LINES = ("reference", "attention")  # with which the command writes no translations
ONE_RUN, RUN_TEXT = ("compare", "attention"), ("input", "prompt")  # excluded by what is for those

translation_flag = partial(flag, tasks=("translation",))
sampling_flag = partial(flag, tasks=("translation", "language_model"), needs=("sample",))
output_flag = partial(flag, tasks=LINE_TASKS, needs=("input",))
text_flag = partial(flag, tasks=("language_model",))


def line_flag(default: Any, help: str, metavar: str = "", *excluded: str, **rules: Any) -> Any:
    """Returns a flag on the translations that are written; excluded: others than `NO_LINES`."""
    excludes = (*NO_LINES, *excluded)
    return translation_flag(default, help, metavar, needs=("input",), excludes=excludes, **rules)


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
    split: str = flag("", "Split to score, if not the test split.", "NAME", excludes=RUN_TEXT)
    corpus: str = flag(
        "", "Corpus to score, if the run's has moved or for another.", "FOLDER", excludes=RUN_TEXT
    )
    input: str = flag(
        "", "Text to translate or answer, or -.", "FILE", tasks=INPUT_TASKS, reads=True
    )
    output: str = output_flag(
        "",
        "File for the answers, also .gz or .xz; it is new, or that of the same command, stopped.",
        "FILE",
        excludes=NO_LINES,
        writes=True,
    )
    overwrite: bool = flag(
        False, "Replace the file of --output if it exists.", tasks=LINE_TASKS, needs=("output",)
    )
    reference: str = translation_flag(
        "",
        "References of --input, to score; several with commas.",
        "FILES",
        needs=("input",),
        reads=True,
    )
    test_set: str = translation_flag(
        "",
        "Test set that sacrebleu downloads, to score: wmt14/full.",
        "NAME",
        excludes=("input", "split", "corpus"),
    )
    metrics: str = translation_flag(
        "", "Further scores: ter, comet, comet:MODEL, or your own.", "NAMES", excludes=("compare",)
    )
    compare: str = translation_flag(
        "", "Runs, perhaps with @CHECKPOINT, to compare with.", "FOLDERS", excludes=("attention",)
    )
    nbest: int = line_flag(
        0, "Write N translations a line: number, text, score.", "N", "mbr", at_least=0
    )
    scores: bool = line_flag(
        False, "Write a tab and the score after each translation.", "", "nbest", "jsonl"
    )
    jsonl: bool = flag(
        False, "Write JSON.", tasks=ANSWER_TASKS, needs=("input",), excludes=NO_LINES
    )
    alignments: bool = line_flag(
        False, "Write a tab and the word alignment: 0-0 1-2.", "", "nbest", "scores"
    )
    score: str = line_flag(
        "",
        "File with translations of --input: write their log-probabilities and scores.",
        "FILE",
        *("nbest", "scores", "prefixes", *SEARCH),
        reads=True,
    )
    prefixes: str = line_flag("", "File with their beginnings.", "FILE", reads=True)
    chunk_lines: int | None = output_flag(
        None, "Lines that are answered, and kept of a stopped job, at once: 8,192.", "N", at_least=1
    )
    batch_size: int | None = flag(
        None, "Examples at once on each device.", "N", at_least=1, at_most=2**16
    )
    dtype: str | None = flag(
        None, "Type of the computation.", "TYPE", choices=("float32", "bfloat16")
    )
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
    prompt: str | None = text_flag(None, "Text to continue.", "TEXT", excludes=("input",))
    num_pieces: int | None = text_flag(
        None, "Most tokens of a continuation.", "N", needs=("prompt", "input"), at_least=1
    )
    attention: str = flag(
        "",
        "Picture to draw of the attention of the first text of --input, or of the test set.",
        "FILE",
        tasks=BUILT_IN,
        excludes=("reference", "prompt", "num_pieces"),
        writes=True,
    )
    attention_of: str = translation_flag(
        "encoder_decoder",
        "Whose attention to draw: to the source, or that of a side.",
        choices=("encoder_decoder", "encoder", "decoder"),
        needs=("attention",),
    )
    each_head: bool = flag(False, "Draw every head, not their mean.", needs=("attention",))

    @property
    def is_scoring(self) -> bool:
        """Whether scores are asked for, and neither a picture nor a line for each of a text."""
        return not self.attention and self.prompt is None and bool(self.reference or not self.input)

    @property
    def is_series(self) -> bool:
        """Whether several checkpoints are named."""
        return self.checkpoints == "all" or "," in self.checkpoints

    @property
    def scored(self) -> dict[str, Any]:
        """Which text is scored and how, as `transformer.evaluate` and `compare` take it."""
        files = [self.input, *split_paths(self.reference)] if self.reference else []
        return self.given(*SCORED) | {"files": files}

    def validate(self, task: str = "") -> None:
        """Raises ValueError, in one sentence, if the flags make no sense on a run of `task`."""
        super().validate(task)
        for name, path in self.given("output", "attention").items():
            if WorkDir(self.workdir).owns(path):
                raise ValueError(f"--{name}={path} is a file of the run itself: name another.")
        if self.attention and not self.attention.lower().endswith(PICTURES):
            raise ValueError(
                f"--attention must end in one of {', '.join(PICTURES)}, not {self.attention}."
            )
        for name in self.given("compare", "metrics") if not self.is_scoring else ():
            raise ValueError(
                f"--{name} needs references: add --reference or leave out --input or --attention."
            )
        is_alone = task == "translation" and self.is_scoring and not self.compare + self.ensemble
        if self.is_series and not is_alone:
            raise ValueError(
                f"--checkpoints={self.checkpoints} names several, which only the scores of one "
                f"translation run take, without --compare and --ensemble; name one."
            )


def _evaluate(line: CommandLine[EvaluateFlags]) -> int:
    flags, run = line.flags, WorkDir(line.flags.workdir)
    config = run.load_config()
    flags.validate(task_kind(config.task))
    with phase("importing JAX"):  # late: --help and wrong flags need not wait
        from transformer.inference.file_job import check_files

    if flags.input and not flags.is_scoring and not flags.attention:
        files = filter(None, [flags.input, flags.score or flags.prefixes])
        check_files(flags.output, *files, may_replace=flags.overwrite)
    connect_hosts(flags, config)
    if flags.compare:
        others = split_paths(flags.compare)
        comparison = transformer.compare(run, others, flags.checkpoints, save=True, **flags.scored)
        print_results([f"{comparison.first.corpus}:", *comparison.lines()])
    elif flags.attention:
        _draw(flags, run)
    elif flags.prompt is not None:
        _continue(flags, run, flags.prompt)
    elif flags.is_scoring:
        _score(flags, run)
    else:
        _answer(flags, run, config)
    return DONE


def _score(flags: EvaluateFlags, run: WorkDir) -> None:
    """Prints and saves the scores of a checkpoint, or of several: a table, and the last in full."""
    from transformer.evaluation.scores import checkpoint_table

    scored = []

    def show(scores: Any) -> None:  # before they are saved, which may fail
        scored.append(scores)
        say(f"{scores.corpus}, checkpoint {scores.checkpoint}: {scores.primary.figures}")
        if not flags.is_series:
            print_results([*scores.lines(), *scores.details])

    options = flags.scored | {"ensemble": split_paths(flags.ensemble)}
    options |= {"metrics": flags.metrics.split(",")} if flags.metrics else {}
    last = transformer.evaluate(run, flags.checkpoints, save=True, on_scores=show, **options)
    if flags.is_series:
        print_results([*checkpoint_table(scored), *last.lines(), *last.details])


def _draw(flags: EvaluateFlags, run: WorkDir) -> None:
    """Draws the attention of one example, the first text of --input if there is one."""
    from transformer.evaluation.evaluation_set import read_lines

    texts = read_lines(flags.input) if flags.input else None
    given, how = (flags.attention, texts, flags.checkpoints), flags.given("each_head", *SCORED)
    drawn = transformer.draw_attention(run, *given, of=flags.attention_of, **how)
    translation = "" if drawn.translation == drawn.source else f"\n> {drawn.translation}"
    say(f"{drawn.source}{translation}\nattention: {flags.attention}")


def _answer(flags: EvaluateFlags, run: WorkDir, config: Config) -> None:
    """Answers each line of --input: with its translation or the score of one, or as its task."""
    predictor = TASKS[config.task].predictor
    if predictor is None:
        raise ValueError("A run of this task takes no lines of text: leave out --input.")
    if flags.ensemble:
        runs = [run, *split_paths(flags.ensemble)]
        model = predictor.from_checkpoints(runs, flags.checkpoints, **flags.given(*COMPUTE))
    else:
        model = predictor.from_checkpoint(run, flags.checkpoints, **flags.given(*COMPUTE))
    is_translation = task_kind(config.task) == "translation"
    write = transformer.translate_file if is_translation else transformer.answer_file
    write(model, flags.input, flags.output, **flags.given(*LINES, *SEARCH, "num_pieces"))


def _continue(flags: EvaluateFlags, run: WorkDir, prompt: str) -> None:
    """Prints a prompt and its continuation as it comes."""
    how, options = flags.given(*COMPUTE), flags.given(*SAMPLING, "num_pieces")
    model = transformer.LanguageModel.from_checkpoint(run, flags.checkpoints, **how)
    for text in chain([prompt], model.stream(prompt, **options), ["\n"]):
        print_results([text], end="")


main = Command(_evaluate, EvaluateFlags, __doc__)

if __name__ == "__main__":
    main.run()
