"""The flags of the evaluate command: what each takes, needs and excludes, and the tasks it fits."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from transformer.cli.config_files import REGISTER
from transformer.cli.flags import check_flags, flag, given_flags, input_files, split_runs
from transformer.cli.hosts import HostFlags
from transformer.cli.output_files import check_answers_file, check_picture_file
from transformer.config import MOST_HYPOTHESES
from transformer.inference import CHUNK_LINES
from transformer.registry import OWN_TASK

TEXT_TASKS = ("translation", "classification", "token_classification")
ANSWER_TASKS = (*TEXT_TASKS, OWN_TASK)
LINE_TASKS = (*ANSWER_TASKS, "language_model")  # lines of text
BUILT_IN = (*TEXT_TASKS, "language_model", "masked_lm", "images")
WRITE_NO_LINES = {  # flags with which the command writes no translations, and why
    "reference": "scores of a test set are kept in results/",
    "attention": "it draws one sentence and writes no lines",
}
SEARCH = (
    "beam_size",
    "alpha",
    "early_stopping",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "sample",
    "mbr",
)

translation_flag = partial(flag, tasks=("translation",))
sampling_flag = partial(flag, tasks=("translation", "language_model"), needs=("sample",))
text_flag = partial(flag, tasks=("language_model",))
line_flag = partial(translation_flag, needs=("input",))


@dataclass(frozen=True)
class EvaluateFlags(HostFlags):
    """What the evaluate command is asked for.

    One of the search that is not given leaves it to the configuration of the run.
    """

    workdir: str = flag("runs/embedded_en_de", "Work directory of the run.", "FOLDER")
    checkpoints: str = flag(
        "default",
        "Checkpoint to use: last, best, a step, average:N, or default, which is as configured; to "
        "score, also several with commas between, or all.",
        "NAMES",
    )
    ensemble: str = translation_flag(
        "",
        "Runs of the same vocabulary whose probabilities are averaged with those of --workdir; "
        "FOLDER@CHECKPOINT is another checkpoint than that of --checkpoints.",
        "FOLDERS",
        excludes=dict.fromkeys(("compare", "attention"), "it is for one run at a time"),
    )
    register: str = REGISTER
    split: str = flag(
        "",
        "Split to score, instead of the configuration's test split.",
        "NAME",
        excludes=dict.fromkeys(("input", "prompt"), "it names a part of the run's own corpus"),
    )
    corpus: str = flag(
        "",
        "Corpus to score a split of, if that of the run has moved, or is to be another.",
        "FOLDER",
        excludes=dict.fromkeys(("input", "prompt"), "that is the text"),
    )
    input: str = flag(
        "",
        "File to translate or answer, one text per line; .gz, .xz, or - for standard input.",
        "FILE",
        tasks=(*LINE_TASKS, "masked_lm"),
        is_input_file=True,
    )
    output: str = flag(
        "",
        "File for the answers, also .gz or .xz, instead of standard output. It must be new, or "
        "that of the same command, which was stopped.",
        "FILE",
        tasks=LINE_TASKS,
        needs=("input",),
        excludes=WRITE_NO_LINES,
    )
    overwrite: bool = flag(
        False, "Replace the file of --output if it exists.", tasks=LINE_TASKS, needs=("output",)
    )
    reference: str = line_flag(
        "",
        "File with references for --input: score its translations; several with commas between.",
        "FILES",
        is_input_file=True,
    )
    test_set: str = translation_flag(
        "",
        "Test set to score, as sacrebleu names it (wmt14/full) and downloads it.",
        "NAME",
        excludes=dict.fromkeys(("input", "split", "corpus"), "the test set is the text"),
    )
    metrics: str = translation_flag(
        "",
        "Further scores, with commas between: ter, comet, comet:MODEL, or a metric of your own.",
        "NAMES",
        excludes={"compare": "runs are compared by the first metric and chrF2"},
    )
    compare: str = translation_flag(
        "",
        "Runs, with commas between, to compare with this one on its test set; FOLDER@CHECKPOINT is "
        "another checkpoint than the default.",
        "FOLDERS",
        excludes={"attention": "runs are compared on a test set"},
    )
    nbest: int = line_flag(
        0,
        "Write the N best translations of each sentence: line number, text, score.",
        "N",
        excludes=WRITE_NO_LINES | {"mbr": "it chooses one translation"},
        at_least=0,
    )
    scores: bool = line_flag(
        False,
        "Write a tab and the score after each translation.",
        excludes=WRITE_NO_LINES
        | dict.fromkeys(("nbest", "jsonl"), "the scores are shown there anyway"),
    )
    jsonl: bool = flag(
        False,
        "Write one JSON object per line, with source and scores.",
        tasks=ANSWER_TASKS,
        needs=("input",),
        excludes=WRITE_NO_LINES,
    )
    alignments: bool = line_flag(
        False,
        "Write a tab and the word alignment after each translation: 0-0 1-2, source and target.",
        excludes=WRITE_NO_LINES | dict.fromkeys(("nbest", "scores"), "a line has one or the other"),
    )
    score: str = line_flag(
        "",
        "File with translations of --input: write their log-probabilities and scores.",
        "FILE",
        excludes=WRITE_NO_LINES
        | dict.fromkeys(("nbest", "scores", "prefixes", *SEARCH), "nothing is searched for"),
        is_input_file=True,
    )
    prefixes: str = line_flag(
        "",
        "File with the beginning that each translation of --input must have.",
        "FILE",
        excludes=WRITE_NO_LINES,
        is_input_file=True,
    )
    chunk_lines: int = flag(
        CHUNK_LINES,
        "Lines that are answered at once; a stopped job is resumed after its last whole chunk.",
        "N",
        tasks=LINE_TASKS,
        needs=("input",),
        at_least=1,
    )
    batch_size: int | None = flag(
        None,
        "Examples at once on each device, instead of the configuration's.",
        "N",
        at_least=1,
        at_most=2**16,
    )
    dtype: Literal["float32", "bfloat16"] | None = flag(
        None, "Type of the computation, instead of the configuration's.", "TYPE"
    )
    beam_size: int | None = translation_flag(
        None,
        "Beam width, instead of the configuration's; 1 is greedy.",
        "N",
        at_least=1,
        at_most=MOST_HYPOTHESES,
    )
    alpha: float | None = translation_flag(
        None, "Length penalty, instead of the configuration's.", "X"
    )
    early_stopping: bool | None = translation_flag(
        None, "End a search at beam_size finished hypotheses: faster, but may find worse."
    )
    sample: bool = translation_flag(False, "Sample instead of searching.")
    temperature: float | None = sampling_flag(None, "Temperature of sampling.", "X")
    top_k: int | None = sampling_flag(None, "Sample from the K most probable tokens.", "K")
    top_p: float | None = sampling_flag(
        None, "Sample from the most probable tokens that together have probability P.", "P"
    )
    seed: int | None = sampling_flag(None, "Seed of sampling.", "N")
    mbr: int | None = translation_flag(
        None,
        "Take the one of N candidates (samples, or the N best of the search) that is most like all "
        "of them: minimum Bayes risk decoding by chrF.",
        "N",
        at_least=1,
        at_most=MOST_HYPOTHESES,
    )
    prompt: str | None = text_flag(
        None, "Text to continue.", "TEXT", excludes={"input": "each line is a text to continue"}
    )
    num_pieces: int | None = text_flag(
        None,
        "Largest number of tokens of a continuation.",
        "N",
        needs=("prompt", "input"),
        at_least=1,
    )
    attention: str = flag(
        "",
        "Picture to draw of the attention of the first text of --input, or for translations and "
        "images of the first of the test set.",
        "FILE",
        tasks=BUILT_IN,
        excludes={"reference": "it draws one sentence and scores nothing"}
        | dict.fromkeys(("prompt", "num_pieces"), "nothing is generated"),
    )
    attention_of: Literal["encoder_decoder", "encoder", "decoder"] | None = translation_flag(
        None,
        "Draw the attention of the decoder to the encoder, or the self-attention of either.",
        "STACK",
        needs=("attention",),
    )
    each_head: bool = flag(
        False, "Draw every head of every layer, instead of their mean.", needs=("attention",)
    )

    @property
    def is_scoring(self) -> bool:
        """Whether scores are asked for, and neither a picture nor translations alone."""
        return not self.attention and bool(self.reference or not self.input)

    @property
    def compute_settings(self) -> dict[str, Any]:
        """How to compute, as `Translator.from_checkpoint` and its like take it."""
        return {"dtype": self.dtype, "batch_size": self.batch_size}

    @property
    def search_options(self) -> dict[str, Any]:
        """The options of the search that were given, as `Translator.translate` takes them."""
        return self.given(*SEARCH)

    def given(self, *names: str) -> dict[str, Any]:
        """Returns {name: value} of those of some flags that were given."""
        return {name: value for name, value in given_flags(self).items() if name in names}

    @property
    def compared(self) -> list[str]:
        """The runs of --compare, perhaps with a checkpoint each."""
        return split_runs(self.compare)

    def check(self, task: str) -> None:
        """Raises ValueError, in one sentence, if the flags make no sense on a run of `task`."""
        check_flags(self, task)
        if self.output:
            check_answers_file(
                self.output, input_files(self), self.workdir, may_replace=self.overwrite
            )
        if self.attention:
            check_picture_file("attention", self.attention, self.workdir)
        if self.compare and not self.is_scoring:
            raise ValueError(
                "--compare cannot be used with --input: runs are compared on a test set; add "
                "--reference=FILES."
            )
        if self.metrics and not self.is_scoring:
            raise ValueError(
                f"--metrics={self.metrics} needs references: add --reference=FILES, or leave out "
                f"--input or --attention."
            )
        is_series = self.checkpoints == "all" or "," in self.checkpoints
        is_alone = not self.compare and not self.ensemble
        if is_series and (task != "translation" or not self.is_scoring or not is_alone):
            raise ValueError(
                f"--checkpoints={self.checkpoints} names several checkpoints, which only scores of "
                f"a translation run take, without --compare and --ensemble; name one."
            )
