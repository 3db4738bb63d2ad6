"""Times translation against CTranslate2 with the same weights.

python benchmarks/translate.py --torch_python=PYTHON
python benchmarks/translate.py --torch_python=PYTHON --shape=opus
python benchmarks/translate.py --torch_python=PYTHON --workdir=RUN --input=FILE --reference=FILE

PYTHON has ctranslate2, sentencepiece and etils[epath] (default: this one).
A contestant that is not installed is skipped with a message.

Without a run, the model has random weights, and all sources and all translations have the same
number of tokens, so that only speed is compared. With a run, text is translated to text, with the
tokenizer's time included, and scored with BLEU if there is a reference.

Each contestant runs in a process of its own and waits while another is at work; every round begins
with another one. The first pass over all sentences is the warm-up and is not measured, nor is the
search of the others for their best batch size. Seconds are medians over the rounds; a ratio is the
median of the rounds' ratios, and above 1 means faster than that system. "same" is the share of
sentences whose translation equals ours; with random weights, all W live hypotheses at the last
position but one are compared.
"""

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from statistics import median
from typing import Any

import sacrebleu
from referee import (
    Contestant,
    Worker,
    begin_report,
    check_device,
    measure,
    start_workers,
    write_json,
)
from search_models import NUM_TOKENS, SOURCE_LENGTH, make_corpus, make_random, read_lines
from search_workload import SearchWorkload
from table import align, ratio

Searches = dict[str, dict[str, Any]]  # {name: options}

CONTESTANTS = {  # name: (module, options)
    "ours": ("search_ours", {}),
    "ctranslate2": ("search_ctranslate2", {}),
    "ctranslate2_int8": ("search_ctranslate2", {"compute_type": "int8"}),
}
OTHERS = "ctranslate2", "ctranslate2_int8"
DEFAULT_CONTESTANTS = "ours,ctranslate2"
SHAPES_OF = {"cpu": ["base", "opus"], "gpu": ["base", "opus", "big"]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--device", choices=list(SHAPES_OF), default="cpu")
    parser.add_argument("--shape", help="one of the device's shapes (default: all of them)")
    parser.add_argument(
        "--sentences", type=int, help="number of sentences with random weights, all in one batch"
    )
    parser.add_argument("--workdir", help="a trained run, to translate --input with")
    parser.add_argument("--input", help="a text file, or .gz")
    parser.add_argument("--reference", help="its translation, for BLEU")
    parser.add_argument(
        "--batch_size",
        type=int,
        default=0,
        help="batch size of ours with a run (default: the run's)",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="threads on a CPU")
    parser.add_argument(
        "--torch_python", default=sys.executable, help="a Python that has the other systems"
    )
    parser.add_argument("--contestants", default=DEFAULT_CONTESTANTS, help="which to compare")
    parser.add_argument("--json", help="a file for the results of every round")
    arguments = parser.parse_args()
    if arguments.shape not in (None, *SHAPES_OF[arguments.device]):
        parser.error(f"--shape must be one of {', '.join(SHAPES_OF[arguments.device])}")
    check_device(parser, arguments.device)
    if bool(arguments.workdir) != bool(arguments.input):
        parser.error("--workdir and --input go together")
    if not set(arguments.contestants.split(",")) <= CONTESTANTS.keys():
        parser.error(f"--contestants must be of {', '.join(CONTESTANTS)}")
    return arguments


def name_contestants(arguments: argparse.Namespace) -> dict[str, Contestant]:
    """Returns the contestants by name."""
    pythons = {name: arguments.torch_python for name in CONTESTANTS} | {"ours": sys.executable}
    return {name: (pythons[name], *CONTESTANTS[name]) for name in arguments.contestants.split(",")}


def make_workloads(
    arguments: argparse.Namespace, folder: str
) -> Iterator[tuple[SearchWorkload, Searches, int, str]]:
    """Yields (workload, searches {name: options}, number of units of work, their name)."""
    options: dict[str, Any] = {"num_threads": arguments.threads, "device": arguments.device}
    if arguments.workdir:
        options["batch_size"] = arguments.batch_size
        workload, searches = make_corpus(arguments.workdir, arguments.input, folder, **options)
        yield workload, searches, len(workload.sentences()), "sentences"
        return
    for shape in [arguments.shape] if arguments.shape else SHAPES_OF[arguments.device]:
        options["num_sentences"] = arguments.sentences
        of_shape = os.path.join(folder, shape)
        os.mkdir(of_shape)
        workload, searches = make_random(shape, of_shape, **options)
        yield workload, searches, len(workload.sentences()) * NUM_TOKENS, "tokens"


def compare(
    workers: dict[str, Worker], search: dict[str, Any], references: list[str] | None
) -> dict[str, dict[str, str]]:
    """Returns {name: {column: text}}: translations compared with ours and with the references."""
    found = {name: find(worker, name, search) for name, worker in workers.items()}
    shown: dict[str, dict[str, str]] = {name: {} for name in found}
    for name, translations in found.items():
        if "ours" in found:
            pairs = zip(found["ours"], translations, strict=True)
            shown[name]["same"] = f"{sum(a == b for a, b in pairs) / len(translations):.1%}"
        if references:
            best = [hypotheses[0] for hypotheses in translations]
            shown[name]["BLEU"] = f"{sacrebleu.corpus_bleu(best, [references]).score:.2f}"
    return shown


def find(worker: Worker, name: str, search: dict[str, Any]) -> list[list[str]]:
    """Returns the translations of each sentence, sorted, for the comparison.

    If all have `num_tokens`, our last token is EOS and that of the others is not. So all live
    hypotheses are compared, one token before.
    """
    if "num_tokens" in search:
        num_tokens = search["num_tokens"] - (name != "ours")
        search = search | {"num_tokens": num_tokens, "nbest": search["beam_size"]}
    return list(map(sorted, worker.ask(times=1, options=search, show=True)["result"]))


def run(
    workload: SearchWorkload,
    searches: Searches,
    arguments: argparse.Namespace,
    count: int,
    unit: str,
) -> dict[str, dict[str, Any]]:
    """Measures every search and prints its table; returns {search: {contestant: results}}."""
    warm_ups = [{"times": 1, "options": search} for search in searches.values()]
    workers, ready = start_workers(workload, name_contestants(arguments), warm_ups)
    references = read_lines(arguments.reference) if arguments.reference else None
    versions = {k: v for reply in ready.values() for k, v in reply["versions"].items()}
    print(", ".join(map(" ".join, versions.items())))
    report = {}
    for i, (name, search) in enumerate(searches.items()):
        results = measure(workers, arguments.rounds, {"times": 1, "options": search})
        for contestant, shown in compare(workers, search, references).items():
            results[contestant] |= {"show": shown, "first": ready[contestant]["warm_ups"][i]}
        print(f"\n{name}\n{format_searches(results, count, unit)}", flush=True)
        for contestant, result in results.items():
            if result["note"]:
                print(f"{contestant}: {result['note']}")
        report[name] = results
    for worker in workers.values():
        worker.close()
    return report


def format_searches(results: dict[str, dict[str, Any]], count: int, unit: str) -> str:
    """Formats the results {contestant: {"seconds", …}} of one search over `count` units."""
    shown = sorted({column for result in results.values() for column in result["show"]})
    others = [name for name in OTHERS if name in results]
    ratios = [f"to {name}" for name in others]
    titles = "contestant", f"{unit}/s", "s", "min–max", "CPU s", *ratios, *shown
    rows = [(*titles, "first pass", "compiles")]
    for name, result in results.items():
        seconds = result["seconds"]
        rows.append(
            (
                name,
                f"{count / median(seconds):,.0f}",
                f"{median(seconds):,.3f}",
                f"{min(seconds):,.3f}–{max(seconds):,.3f}",
                f"{median(result['cpu']):,.2f}",
                *(ratio(results, name, other) for other in others),
                *(result["show"].get(column, "–") for column in shown),
                # A contestant with a note tried batch sizes in its first pass.
                "–" if result["note"] else f"{result['first']:.1f} s",
                "–" if result["compiles"] is None else str(result["compiles"]),
            )
        )
    return align(rows)


def describe(workload: SearchWorkload) -> str:
    """Returns the workload on one line."""
    cores = f", {workload.num_threads} threads" if workload.device == "cpu" else ""
    sizes = f", {SOURCE_LENGTH} + {NUM_TOKENS} tokens each" * (not workload.is_text)
    count = len(workload.sentences())
    return f"{workload.name}: {count:,} sentences{sizes}; {workload.dtype}{cores}"


def main() -> None:
    arguments = parse_arguments()
    report = begin_report(arguments) | {"workloads": []}
    with tempfile.TemporaryDirectory() as folder:
        for workload, searches, count, unit in make_workloads(arguments, folder):
            print(f"\n{describe(workload)}")
            results = run(workload, searches, arguments, count, unit)
            report["workloads"].append(dataclasses.asdict(workload) | {"results": results})
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
