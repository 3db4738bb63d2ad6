"""A distilled student in CTranslate2 beside its teacher: size, speed, BLEU and the paired tests.

    PYTHONPATH=. python benchmarks/teacher_student.py runs/teacher runs/student student_ct2 \
        text/test.pieces text/test.en text/test.de

The arguments are the teacher's run, the student's run, the student as `transformer-export
--format=ctranslate2` wrote it, the test set's sources as each of the two reads them, and its
references. Each searches as its configuration says, with length_penalty=power in that of the
student, which is the one that CTranslate2 knows. Times are from text to text, medians over
interleaved rounds, after one that is not counted.
"""

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable

import ctranslate2
import sentencepiece
from search_ctranslate2 import without_end
from search_models import read_lines

from transformer import Translator
from transformer.config import DecodingConfig
from transformer.data.workers import num_cores
from transformer.evaluation.metrics import bleu, make_metric
from transformer.evaluation.paired_tests import paired_differences
from transformer.parallel.devices import use_cores_as_devices

ROUNDS, PAUSE = 5, 0.5  # seconds between turns, in which the threads of the last stop spinning
NUM_BOOTSTRAP = 1000
Translate = Callable[[list[str]], list[str]]


def main() -> None:
    """Prints what each system reaches, and how the student differs from the teacher."""
    paths = parse_arguments()
    use_cores_as_devices()  # as eval.py does for small models
    teacher, student = (Translator.from_checkpoint(path) for path in (paths.teacher, paths.student))
    sources, exported = read_lines(paths.sources), pathlib.Path(paths.exported)
    systems = {
        "teacher": (search(teacher), read_lines(paths.pieces)),
        "student": (search(student), sources),
        "student, CTranslate2": (exported_search(exported, student.config.decoding), sources),
    }
    translations, seconds = measure(systems)
    report(translations, seconds, read_lines(paths.references), student.config.data.bleu_tokenize)
    size = sum(path.stat().st_size for path in exported.iterdir())
    print(f"{exported}: {size / 2**20:.1f} MiB")


def report(
    translations: dict[str, list[str]],
    seconds: dict[str, list[float]],
    references: list[str],
    tokenize: str,
) -> None:
    """Prints BLEU, speed and the paired tests against the teacher, which comes first."""
    for name, found in translations.items():
        score = bleu(found, references, "", tokenize=tokenize, num_bootstrap=NUM_BOOTSTRAP)
        speed = len(found) / statistics.median(seconds[name])
        ratios = [a / b for a, b in zip(seconds["teacher"], seconds[name], strict=True)]
        ratio = statistics.median(ratios)
        print(f"{name}: BLEU {score.figures}, {speed:,.0f} sentences/s, {ratio:.1f} × the teacher")
    print(score.signature)
    metrics = {"BLEU": make_metric("bleu", tokenize=tokenize)}
    systems = list(translations.values())
    for found in paired_differences(systems, references, metrics, num_bootstrap=NUM_BOOTSTRAP):
        print(
            f"{list(translations)[found.system]} − teacher: BLEU {found.difference:+.2f}, "
            f"p = {found.p_bootstrap:.3f} (bootstrap), {found.p_randomisation:.3f} (randomisation)"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("teacher", "student", "exported", "pieces", "sources", "references"):
        parser.add_argument(name)
    return parser.parse_args()


def search(translator: Translator) -> Translate:
    """Returns the search of this package."""
    return lambda texts: [found.text for found in translator.translate(texts)]


def exported_search(folder: pathlib.Path, decoding: DecodingConfig) -> Translate:
    """Returns the search of CTranslate2, with a thread for each core."""
    threads = num_cores()
    translator = ctranslate2.Translator(str(folder), intra_threads=1, inter_threads=threads)
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    )

    def translate(texts: list[str]) -> list[str]:
        pieces = source.encode(texts, out_type=str)
        results = translator.translate_batch(
            pieces,
            beam_size=decoding.beam_size,
            length_penalty=decoding.alpha,
            max_batch_size=64,
            return_end_token=True,  # else the length penalty would not count it
        )
        return [target.decode(without_end(result.hypotheses[0])) for result in results]

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
