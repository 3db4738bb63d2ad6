"""A distilled student in CTranslate2 beside its teacher: size, speed, BLEU and the paired tests.

    PYTHONPATH=. python benchmarks/teacher_student.py runs/teacher runs/student student_ct2 \
        text/test.pieces text/test.en text/test.de

The arguments are the teacher's run, the student's run, the student as `transformer-export
--format=ctranslate2` wrote it, the test set's sources as each of the two reads them, and its
references. The teacher searches as its configuration says, the student greedily. Times are from
text to text, medians over interleaved rounds, after one that is not counted.
"""

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable

import ctranslate2
import sentencepiece

from transformer import Translator
from transformer.evaluation.metrics import bleu, make_metric
from transformer.evaluation.paired_tests import paired_differences

ROUNDS, PAUSE = 5, 0.5  # seconds between turns, in which the threads of the last stop spinning
NUM_BOOTSTRAP = 1000
Translate = Callable[[list[str]], list[str]]


def main() -> None:
    """Prints one line for each system, and how the student differs from the teacher."""
    paths = parse_arguments()
    teacher, student = (Translator.from_checkpoint(path) for path in (paths.teacher, paths.student))
    lines = {name: read_lines(getattr(paths, name)) for name in ("pieces", "sources", "references")}
    systems: dict[str, tuple[Translate, list[str]]] = {
        "teacher": (searches(teacher), lines["pieces"]),
        "student": (searches(student, beam_size=1), lines["sources"]),
        "student, CTranslate2": (exported(pathlib.Path(paths.exported)), lines["sources"]),
    }
    translations, seconds = measure(systems)
    tokenize = student.config.data.bleu_tokenize
    for name, found in translations.items():
        score = bleu(found, lines["references"], "", tokenize=tokenize, num_bootstrap=NUM_BOOTSTRAP)
        ratio = statistics.median(
            a / b for a, b in zip(seconds["teacher"], seconds[name], strict=True)
        )
        speed = len(found) / statistics.median(seconds[name])
        print(f"{name}: BLEU {score.figures}, {speed:,.0f} sentences/s, {ratio:.1f} × the teacher")
    print(score.signature)
    for difference in paired_differences(
        list(translations.values()),
        lines["references"],
        {"BLEU": make_metric("bleu", tokenize=tokenize)},
        num_bootstrap=NUM_BOOTSTRAP,
    ):
        print(list(translations)[difference.system], difference)
    size = sum(path.stat().st_size for path in pathlib.Path(paths.exported).iterdir())
    print(f"{paths.exported}: {size / 2**20:.1f} MiB")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("teacher", "student", "exported", "pieces", "sources", "references"):
        parser.add_argument(name)
    return parser.parse_args()


def read_lines(path: str) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def searches(translator: Translator, **options: int) -> Translate:
    """Returns the search of this package."""
    return lambda texts: [found.text for found in translator.translate(texts, **options)]


def exported(folder: pathlib.Path) -> Translate:
    """Returns the greedy search of CTranslate2, with as many threads as there are cores."""
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1, inter_threads=2)
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    )

    def translate(texts: list[str]) -> list[str]:
        pieces = source.encode(texts, out_type=str)
        results = translator.translate_batch(pieces, beam_size=1, max_batch_size=64)
        return [target.decode(result.hypotheses[0]) for result in results]

    return translate


def measure(
    systems: dict[str, tuple[Translate, list[str]]],
) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    """Returns the translations of each system and the seconds of its rounds."""
    translations = {name: translate(texts) for name, (translate, texts) in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(ROUNDS):
        for name, (translate, texts) in systems.items():
            time.sleep(PAUSE)
            start = time.monotonic()
            translate(texts)
            seconds[name].append(time.monotonic() - start)
    return translations, seconds


if __name__ == "__main__":
    main()
