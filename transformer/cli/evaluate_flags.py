"""The flags of the evaluate command: what each takes, needs and excludes, and the tasks it fits."""

from dataclasses import dataclass
from typing import Any, Literal

from transformer.cli.compare_flags import CompareFlags
from transformer.cli.config_files import REGISTER
from transformer.cli.flags import check_flags, check_input_files, flag, input_files
from transformer.cli.hosts import HostFlags
from transformer.cli.output_files import check_answers_file, check_picture_file
from transformer.cli.search_flags import SEARCH_FLAGS, TRANSLATION, SearchFlags
from transformer.inference import CHUNK_LINES
from transformer.registry import OWN_TASK

LANGUAGE_MODEL = ("language_model",)
TEXT_TASKS = ("translation", "classification", "token_classification")
ANSWER_TASKS = (*TEXT_TASKS, OWN_TASK)
LINE_TASKS = (*ANSWER_TASKS, "language_model")  # lines of text
BUILT_IN = (*TEXT_TASKS, "language_model", "masked_lm", "images")
WRITE_NO_LINES = {  # flags with which the command writes no translations, and why
    "reference": "scores of a test set are kept in results/",
    "attention": "it draws one sentence and writes no lines",
}


@dataclass(frozen=True)
class EvaluateFlags(HostFlags, SearchFlags, CompareFlags):
    """What the evaluate command is asked for."""

    workdir: str = flag("runs/embedded_en_de", "Work directory of the run.", metavar="FOLDER")
    checkpoints: str = flag(
        "default",
        "Checkpoint to use: last, best, a step, average:N, or default, which is as configured; to "
        "score, also several with commas between, or all.",
        metavar="NAMES",
    )
    ensemble: str = flag(
        "",
        "Runs of the same vocabulary whose probabilities are averaged with those of --workdir; "
        "FOLDER@CHECKPOINT is another checkpoint than that of --checkpoints.",
        metavar="FOLDERS",
        tasks=TRANSLATION,
        excludes=dict.fromkeys(("compare", "attention"), "that is of single runs"),
    )
    register: str = REGISTER
    split: str = flag(
        "",
        "Split to score, instead of the configuration's test split.",
        metavar="NAME",
        excludes={
            "input": "it names a part of the run's own corpus",
            "prompt": "it names a part of the run's own corpus",
        },
    )
    corpus: str = flag(
        "",
        "Corpus to score a split of, if that of the run has moved, or is to be another.",
        metavar="FOLDER",
        excludes={"input": "its lines are the text", "prompt": "it is the text"},
    )
    input: str = flag(
        "",
        "File to translate or answer, one text per line; .gz, .xz, or - for standard input.",
        metavar="FILE",
        tasks=(*LINE_TASKS, "masked_lm"),
        is_input_file=True,
    )
    output: str = flag(
        "",
        "File for the answers, also .gz or .xz, instead of standard output. It must be new, or "
        "that of the same command, which was stopped.",
        metavar="FILE",
        tasks=LINE_TASKS,
        needs=("input",),
        excludes=WRITE_NO_LINES,
    )
    overwrite: bool = flag(
        False, "Replace the file of --output if it exists.", tasks=LINE_TASKS, needs=("output",)
    )
    reference: str = flag(
        "",
        "File with references for --input: score its translations; several with commas between.",
        metavar="FILES",
        tasks=TRANSLATION,
        needs=("input",),
        is_input_file=True,
    )
    test_set: str = flag(
        "",
        "Test set to score, as sacrebleu names it (wmt14/full) and downloads it.",
        metavar="NAME",
        tasks=TRANSLATION,
        excludes=dict.fromkeys(("input", "split", "corpus"), "it is the text"),
    )
    metrics: str = flag(
        "",
        "Further scores, with commas between: ter, comet, comet:MODEL, or a metric of your own.",
        metavar="NAMES",
        tasks=TRANSLATION,
        excludes={"compare": "runs are compared by the first metric and chrF2"},
    )
    nbest: int = flag(
        0,
        "Write the N best translations of each sentence: line number, text, score.",
        metavar="N",
        tasks=TRANSLATION,
        needs=("input",),
        excludes=WRITE_NO_LINES | {"mbr": "it chooses one translation"},
        at_least=0,
    )
    scores: bool = flag(
        False,
        "Write a tab and the score after each translation.",
        tasks=TRANSLATION,
        needs=("input",),
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
    alignments: bool = flag(
        False,
        "Write a tab and the word alignment after each translation: 0-0 1-2, source and target.",
        tasks=TRANSLATION,
        needs=("input",),
        excludes=WRITE_NO_LINES | dict.fromkeys(("nbest", "scores"), "a line has one or the other"),
    )
    score: str = flag(
        "",
        "File with translations of --input: write their log-probabilities and scores.",
        metavar="FILE",
        tasks=TRANSLATION,
        needs=("input",),
        excludes=WRITE_NO_LINES
        | dict.fromkeys(("nbest", "scores", "prefixes", *SEARCH_FLAGS), "nothing is searched for"),
        is_input_file=True,
    )
    prefixes: str = flag(
        "",
        "File with the beginning that each translation of --input must have.",
        metavar="FILE",
        tasks=TRANSLATION,
        needs=("input",),
        excludes=WRITE_NO_LINES,
        is_input_file=True,
    )
    chunk_lines: int = flag(
        CHUNK_LINES,
        "Lines that are answered at once; a stopped job is resumed after its last whole chunk.",
        metavar="N",
        tasks=LINE_TASKS,
        needs=("input",),
        at_least=1,
    )
    batch_size: int | None = flag(
        None,
        "Examples at once on each device, instead of the configuration's.",
        metavar="N",
        at_least=1,
        at_most=2**16,
    )
    dtype: Literal["float32", "bfloat16"] | None = flag(
        None, "Type of the computation, instead of the configuration's.", metavar="TYPE"
    )
    prompt: str | None = flag(
        None,
        "Text to continue.",
        metavar="TEXT",
        tasks=LANGUAGE_MODEL,
        excludes={"input": "it would be the text of every line"},
    )
    num_pieces: int | None = flag(
        None,
        "Largest number of tokens of a continuation.",
        metavar="N",
        tasks=LANGUAGE_MODEL,
        needs=("prompt", "input"),
        at_least=1,
    )
    attention: str = flag(
        "",
        "Picture to draw of the attention of the first text of --input, or for translations and "
        "images of the first of the test set.",
        metavar="FILE",
        tasks=BUILT_IN,
        excludes={"reference": "it draws one sentence and scores nothing"}
        | dict.fromkeys(("prompt", "num_pieces"), "nothing is generated"),
    )
    attention_of: Literal["encoder_decoder", "encoder", "decoder"] | None = flag(
        None,
        "Draw the attention of the decoder to the encoder, or the self-attention of either.",
        metavar="STACK",
        tasks=TRANSLATION,
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

    def check(self, task: str) -> None:
        """Raises ValueError, in one sentence, if the flags make no sense on a run of `task`."""
        check_flags(self, task)
        check_input_files(self)
        if self.output:
            check_answers_file(
                self.output, input_files(self), self.workdir, may_replace=self.overwrite
            )
        if self.attention:
            check_picture_file("attention", self.attention, self.workdir)
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
